"""mmcv's operators on PyTorch and torchvision. `mmcv._ext` takes them from here; see the README."""

__version__ = '0.1.0'
