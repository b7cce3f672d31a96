"""A small stand-in for torchvision, whose wheel does not go with the CPU build of torch: pictures of scikit-learn's digits."""

from torchvision import datasets, models, transforms, utils

__version__ = "0.0.0"
__all__ = ["datasets", "models", "transforms", "utils"]
