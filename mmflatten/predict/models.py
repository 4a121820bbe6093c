"""Models by the name of their config, for the configs included in the package."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from mmflatten.config import build_model, library
from mmflatten.tasks import tasks

if TYPE_CHECKING:  # a list of models needs no PyTorch
    from torch import nn


def list_models(pattern: str = '*', task: str | None = None) -> list[str]:
    """Return the names of all models with a config, in alphabetical order.

    Args:
        pattern: a glob, such as `*swin-t*`.
        task: classification, detection, panoptic, segmentation or stereo. Others raise ValueError;
            None means all.
    """
    if task is not None and task not in tasks():
        raise ValueError(f'task: expected one of {", ".join(tasks())}, got {task}.')
    names = []
    for name, entry in library().items():
        is_of_task = task is None or task == entry['Metadata']['Task']
        if is_of_task and fnmatch.fnmatch(name, pattern):
            names.append(name)
    return sorted(names)


def get_model(name: str, pretrained: str | Path | None = None, **options: object) -> nn.Module:
    """Build a model from the name or path of its config, in evaluation mode on the CPU.

    Args:
        pretrained: checkpoint, whose keys must all match. None means random weights.
        options: fields of the config's `model` to replace, with dots for nested ones:
            `{'backbone.drop_path_rate': 0}`.

    Raises:
        FileNotFoundError: the model is unknown.
        CheckpointError: the checkpoint is missing, damaged or belongs to another model.
    """
    # They import MMEngine's runner, which needs OpenCV; the list above does not.
    from mmflatten.checkpoints.loading import load_weights, read_checkpoint
    from mmflatten.engine.setup import load_config

    cfg = load_config(name, {f'model.{key}': value for key, value in options.items()})
    model = build_model(cfg)
    model.cfg = cfg
    if pretrained is not None:
        load_weights(model, read_checkpoint(str(pretrained)), str(pretrained))
    return model.eval()
