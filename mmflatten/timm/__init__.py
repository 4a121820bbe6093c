"""Backbones as timm models: `import mmflatten.timm`, then `timm.create_model('flatten_swin_tiny')`.

The import only registers the models. It requires timm, but neither mmcv nor a task library.
"""

from mmflatten.timm import entrypoints
from mmflatten.timm.classifier import Classifier

__all__ = ['Classifier', 'entrypoints']
