"""Small convolutional net with BatchNorm and dropout, momentum SGD and a cosine schedule."""
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

SEED = 0
EPOCHS = 9
BATCH = 56
LR = 0.05

torch.manual_seed(SEED)
images, labels = torch.tensor(load_digits().images, dtype=torch.float32).unsqueeze(1), torch.tensor(load_digits().target)
images = (images - images.mean()) / images.std()
idx = torch.randperm(len(images))
images, labels = images[idx], labels[idx]
tr_x, tr_y, te_x, te_y = images[:1400], labels[:1400], images[1400:], labels[1400:]


class SmallCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(10)
        self.conv2 = nn.Conv2d(10, 20, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(20)
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(80, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        return self.fc(self.drop(x.flatten(1)))


net = SmallCNN()
opt = torch.optim.SGD(net.parameters(), lr=LR, momentum=0.9, weight_decay=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=EPOCHS)


def evaluate(net):
    net.eval()
    with torch.no_grad():
        logits = net(te_x)
        return F.cross_entropy(logits, te_y).item(), (logits.argmax(1) == te_y).float().mean().item()


for epoch in range(EPOCHS):
    net.train()
    for batch in torch.randperm(len(tr_x)).split(BATCH):
        target = tr_y[batch]
        opt.zero_grad()
        logits = net(tr_x[batch])
        loss = F.cross_entropy(logits, target)
        loss.backward()
        opt.step()
    scheduler.step()
    print(epoch, f"{loss.item():.4f}", "val %.4f acc %.3f" % evaluate(net))
