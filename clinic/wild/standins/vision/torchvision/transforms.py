"""The usual transforms on PIL pictures and tensors, drawn from torch's own generator."""

import sys
from enum import Enum

import numpy as np
import torch
from PIL import Image, ImageFilter, ImageOps


class InterpolationMode(Enum):
    NEAREST, BILINEAR, BICUBIC = 0, 2, 3


def _draw():
    return float(torch.rand(()))


def _pair(size):
    return (size, size) if isinstance(size, int) else tuple(size)


def to_tensor(picture):
    if isinstance(picture, torch.Tensor):
        return picture
    array = np.array(picture, copy=True)
    array = array[..., None] if array.ndim == 2 else array
    out = torch.from_numpy(array.transpose(2, 0, 1).copy())
    return out.float().div(255) if array.dtype == np.uint8 else out


def normalize(tensor, mean, std, inplace=False):
    shape = (-1, 1, 1)
    mean, std = (torch.as_tensor(v, dtype=tensor.dtype).reshape(shape) for v in (mean, std))
    return (tensor - mean) / std


def to_pil_image(tensor, mode=None):
    if isinstance(tensor, torch.Tensor):
        tensor = tensor.detach().cpu().mul(255).byte().numpy() if tensor.is_floating_point() else tensor.numpy()
        tensor = tensor.transpose(1, 2, 0) if tensor.ndim == 3 else tensor
        tensor = tensor[..., 0] if tensor.ndim == 3 and tensor.shape[-1] == 1 else tensor
    return Image.fromarray(tensor)


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, x):
        for each in self.transforms:
            x = each(x)
        return x


class ToTensor:
    def __call__(self, x):
        return to_tensor(x)


class PILToTensor:
    def __call__(self, x):
        return torch.from_numpy(np.array(x, copy=True))


class ConvertImageDtype:
    def __init__(self, dtype):
        self.dtype = dtype

    def __call__(self, x):
        return x.to(self.dtype) / (255 if not x.is_floating_point() else 1)


class ToPILImage:
    def __init__(self, mode=None):
        pass

    def __call__(self, x):
        return to_pil_image(x)


class Normalize:
    def __init__(self, mean, std, inplace=False):
        self.mean, self.std = mean, std

    def __call__(self, x):
        return normalize(x, self.mean, self.std)


class Lambda:
    def __init__(self, lambd):
        self.lambd = lambd

    def __call__(self, x):
        return self.lambd(x)


class Resize:
    def __init__(self, size, interpolation=None, **_):
        self.size = size

    def __call__(self, x):
        if isinstance(x, torch.Tensor):
            return torch.nn.functional.interpolate(x[None], size=_pair(self.size), mode="bilinear")[0]
        if isinstance(self.size, int):
            short = min(x.size)
            size = tuple(round(s * self.size / short) for s in x.size)
        else:
            size = (self.size[1], self.size[0])
        return x.resize(size, Image.BILINEAR)


class Grayscale:
    def __init__(self, num_output_channels=1):
        self.channels = num_output_channels

    def __call__(self, x):
        grey = ImageOps.grayscale(x)
        return Image.merge("RGB", [grey] * 3) if self.channels == 3 else grey


class Pad:
    def __init__(self, padding, fill=0, padding_mode="constant"):
        self.padding, self.fill = padding, fill

    def __call__(self, x):
        return ImageOps.expand(x, self.padding, self.fill)


class CenterCrop:
    def __init__(self, size):
        self.size = _pair(size)

    def __call__(self, x):
        height, width = self.size
        left, top = (x.size[0] - width) // 2, (x.size[1] - height) // 2
        return x.crop((left, top, left + width, top + height))


class RandomCrop:
    def __init__(self, size, padding=0, **_):
        self.size, self.padding = _pair(size), padding or 0

    def __call__(self, x):
        x = ImageOps.expand(x, self.padding) if self.padding else x
        height, width = self.size
        left, top = int(_draw() * (x.size[0] - width + 1)), int(_draw() * (x.size[1] - height + 1))
        return x.crop((left, top, left + width, top + height))


class RandomResizedCrop:
    def __init__(self, size, scale=(0.5, 1.0), **_):
        self.size, self.scale = _pair(size), scale

    def __call__(self, x):
        share = (self.scale[0] + _draw() * (self.scale[1] - self.scale[0])) ** 0.5
        width, height = max(1, int(x.size[0] * share)), max(1, int(x.size[1] * share))
        left, top = int(_draw() * (x.size[0] - width + 1)), int(_draw() * (x.size[1] - height + 1))
        return x.crop((left, top, left + width, top + height)).resize((self.size[1], self.size[0]), Image.BILINEAR)


class RandomHorizontalFlip:
    def __init__(self, p=0.5):
        self.p = p

    def __call__(self, x):
        if _draw() >= self.p:
            return x
        return x.flip(-1) if isinstance(x, torch.Tensor) else ImageOps.mirror(x)


class RandomVerticalFlip(RandomHorizontalFlip):
    def __call__(self, x):
        return ImageOps.flip(x) if _draw() < self.p else x


class RandomRotation:
    def __init__(self, degrees, **_):
        self.degrees = degrees if not isinstance(degrees, (tuple, list)) else max(degrees)

    def __call__(self, x):
        return x.rotate((2 * _draw() - 1) * self.degrees)


class ColorJitter:
    def __init__(self, brightness=0.0, *_, **__):
        self.brightness = brightness

    def __call__(self, x):
        by = 1 + (2 * _draw() - 1) * min(0.8, float(self.brightness))
        return x.point(lambda v: int(min(255, v * by)))


class GaussianBlur:
    def __init__(self, kernel_size, sigma=1.0):
        pass

    def __call__(self, x):
        return x.filter(ImageFilter.GaussianBlur(1)) if not isinstance(x, torch.Tensor) else x


class RandomApply:
    def __init__(self, transforms, p=0.5):
        self.transforms, self.p = transforms, p

    def __call__(self, x):
        if _draw() < self.p:
            for each in self.transforms:
                x = each(x)
        return x


class RandomGrayscale:
    def __init__(self, p=0.1):
        self.p = p

    def __call__(self, x):
        return Grayscale(3)(x) if _draw() < self.p else x


functional = sys.modules[__name__]
sys.modules[__name__ + ".functional"] = functional
