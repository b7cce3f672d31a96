"""Data sets by their usual names: the digits of scikit-learn, enlarged, and tinted where colours are due."""

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch.utils.data import Dataset

TRAIN = 1400  # of 1,797 digits


class _Pictures(Dataset):
    side, colours, names = 28, False, [str(k) for k in range(10)]

    def __init__(self, root=None, train=True, transform=None, target_transform=None, download=False, split=None, **_):
        if split is not None and not isinstance(train, str):
            train = split in ("train", "letters", "digits", "balanced")
        raw, labels = load_digits(return_X_y=True)
        order = np.random.RandomState(0).permutation(len(raw))
        rows = order[:TRAIN] if train else order[TRAIN:]
        small = (raw[rows].reshape(-1, 8, 8) * 15.9).astype(np.uint8)
        large = [np.asarray(Image.fromarray(p).resize((self.side, self.side), Image.BILINEAR)) for p in small]
        data = np.stack(large)
        if self.colours:
            tint = np.random.RandomState(1).uniform(0.4, 1.0, (len(data), 1, 1, 3))
            data = (data[..., None] * tint).astype(np.uint8)
        self.data = data if self.colours else torch.from_numpy(data)
        self.targets = labels[rows].tolist() if self.colours else torch.from_numpy(labels[rows]).long()
        self.train, self.transform, self.target_transform, self.root = train, transform, target_transform, root
        self.classes = list(self.names)
        self.class_to_idx = {c: k for k, c in enumerate(self.classes)}

    def __len__(self):
        return len(self.data)

    def __getitem__(self, at):
        picture, label = Image.fromarray(np.asarray(self.data[at])), int(self.targets[at])
        if self.transform is not None:
            picture = self.transform(picture)
        if self.target_transform is not None:
            label = self.target_transform(label)
        return picture, label

    @property
    def train_data(self):
        return self.data

    @property
    def test_data(self):
        return self.data

    @property
    def train_labels(self):
        return self.targets

    @property
    def test_labels(self):
        return self.targets


class MNIST(_Pictures):
    pass


class FashionMNIST(_Pictures):
    pass


class KMNIST(_Pictures):
    pass


class EMNIST(_Pictures):
    pass


class CIFAR10(_Pictures):
    side, colours = 32, True


class CIFAR100(_Pictures):
    side, colours = 32, True


class SVHN(_Pictures):
    side, colours = 32, True


class STL10(_Pictures):
    side, colours = 96, True


class FakeData(Dataset):
    def __init__(self, size=1000, image_size=(3, 224, 224), num_classes=10, transform=None, target_transform=None, random_offset=0):
        self.size, self.image_size, self.num_classes, self.transform = size, image_size, num_classes, transform

    def __len__(self):
        return self.size

    def __getitem__(self, at):
        rng = np.random.RandomState(at)
        channels, height, width = self.image_size
        picture = Image.fromarray(rng.randint(0, 255, (height, width, channels)).astype(np.uint8))
        return (self.transform(picture) if self.transform else picture), int(rng.randint(self.num_classes))


class ImageFolder(_Pictures):
    side, colours = 64, True

    def __init__(self, root, transform=None, **kw):
        super().__init__(root, train="val" not in str(root) and "test" not in str(root), transform=transform)
        self.imgs = self.samples = [(f"{k}.png", int(t)) for k, t in enumerate(self.targets)]
