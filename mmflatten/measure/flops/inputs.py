"""Image sizes of configs, and a forward pass of a model that is counted."""
from __future__ import annotations

import torch
from mmengine.config import Config
from torch import nn

from mmflatten.tasks import task_of, task_of_model


def image_shape(cfg: Config) -> tuple[int, int]:
    """Return (H, W) of training images: of the preprocessor or the backbone, else the task's usual size."""
    preprocessor, backbone = (cfg.model.get(part) or {} for part in ('data_preprocessor', 'backbone'))
    size = preprocessor.get('size') or backbone.get('img_size') or task_of(cfg).input_shape
    return (size, size) if isinstance(size, int) else tuple(size)


def dummy_forward(model: nn.Module, shape: tuple[int, int]) -> None:
    """Run a model on the meta device once, from an image of `shape` = (H, W), or a stereo pair, to its raw outputs."""
    image, task = torch.empty(1, 3, *shape, device='meta'), task_of_model(model)
    if task is None:
        model(image)
    else:
        task.forward(model, image)
