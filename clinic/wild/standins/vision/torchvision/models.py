"""Small networks under the usual names; none of them was ever trained."""

from torch import nn


class _Block(nn.Module):
    def __init__(self, inward, outward, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inward, outward, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outward)
        self.conv2 = nn.Conv2d(outward, outward, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outward)
        self.relu = nn.ReLU(inplace=True)
        changed = stride != 1 or inward != outward
        self.downsample = nn.Sequential(nn.Conv2d(inward, outward, 1, stride, bias=False), nn.BatchNorm2d(outward)) if changed else None

    def forward(self, x):
        kept = x if self.downsample is None else self.downsample(x)
        return self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))) + kept)


class ResNet(nn.Module):
    def __init__(self, num_classes=1000, width=16):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1, self.relu = nn.BatchNorm2d(width), nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(2)
        self.layer1, self.layer2 = _Block(width, width, 1), _Block(width, 2 * width, 2)
        self.layer3 = _Block(2 * width, 4 * width, 2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(4 * width, num_classes)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.avgpool(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.flatten(1))


def resnet18(pretrained=False, weights=None, num_classes=1000, **_):
    return ResNet(num_classes)


resnet34 = resnet50 = resnet101 = resnet152 = resnet18
