"""Parameters and operations of a model or of a config, without data, weights or a GPU."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from mmengine.config import Config
from torch import nn

from mmflatten.config_files import read_config, require_parts
from mmflatten.measure.flops.counter import OperationCounter, OperationCounts
from mmflatten.measure.flops.inputs import dummy_forward, image_shape
from mmflatten.measure.flops.meta import build_on_meta
from mmflatten.requirements import check_task
from mmflatten.tasks import find_task


@dataclass(frozen=True)
class ModelCost:
    """Cost of one forward pass of a model on an image of `shape` = (H, W)."""

    model: nn.Module
    shape: tuple[int, int]
    counts: OperationCounts

    @property
    def params(self) -> int:
        return count_parameters(self.model)


def count_parameters(module: nn.Module) -> int:
    """Number of parameters of a module and its submodules."""
    return sum(parameter.numel() for parameter in module.parameters())


def count_model(model: nn.Module, shape: tuple[int, int]) -> ModelCost:
    """Count a model on the meta device for an image of `shape` = (H, W), without padding.

    The model is a classifier, detector, segmentor or stereo model of OpenMMLab, or a module that takes an image.

    Raises:
        ValueError: the model cannot run at this shape, or is not on the meta device.
    """
    counter = OperationCounter(model)
    try:
        with torch.no_grad(), counter:
            dummy_forward(model, shape)
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), '') or type(error).__name__
        raise ValueError(f'model {type(model).__name__}: cannot run at {shape[0]}x{shape[1]}: {reason} '
                         f'({counter.place()})') from error
    return ModelCost(model, shape, counter.counts)


def count_config(path: str | Path, shape: tuple[int, int] | None = None) -> ModelCost:
    """Build a config's model on the meta device and count it.

    The default image size of a classifier is its backbone's `img_size`; dense tasks have a fixed default.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the config has no model, or its model cannot be built or run at this shape.
    """
    config = read_model_config(path)
    shape = shape or _usual_shape(config)
    try:
        return count_model(build_on_meta(config.model, config.get('default_scope', 'mmengine')), shape)
    except ValueError as error:
        raise ValueError(f'config {path}: {error}') from error


def read_model_config(path: str | Path) -> Config:
    """Read a config that has a model, and check that its libraries are installed.

    Raises:
        FileNotFoundError: the file does not exist.
        ImportError: a library of its `default_scope` is missing or has an unsupported version.
        ValueError: the config cannot be read or has no model.
    """
    config = read_config(str(path))
    require_parts(config, 'model')
    check_task(config.get('default_scope'))
    return config


def _usual_shape(config: Config) -> tuple[int, int]:
    task = find_task(config.get('default_scope'))
    if task is None:
        raise ValueError(f'default_scope: no default image size, got {config.get("default_scope")!r}. '
                         'Add --shape H W.')
    return image_shape(config) if task.fixed_size else task.input_shape
