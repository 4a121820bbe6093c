"""Parameters and operations of a model or of a config, without data, weights or a GPU."""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch
from mmengine.config import Config
from torch import nn

from mmflatten.analysis.flops.counter import OperationCounter, OperationCounts
from mmflatten.analysis.flops.inputs import DEFAULT_SHAPES, dummy_forward
from mmflatten.analysis.flops.meta import build_on_meta, shape_only_kernels
from mmflatten.analysis.zoo.tables import PaperRow, rows_of_config


@dataclass(frozen=True)
class ModelCost:
    """What a model costs on one image.

    Attributes:
        shape: (H, W) of the image.
        params: number of parameters.
        counts: the operations of one forward pass.
        params_by_module: parameters by qualified module name, modules inside it included.
        module_types: class name by qualified module name.
    """

    shape: tuple[int, int]
    params: int
    counts: OperationCounts
    params_by_module: dict[str, int]
    module_types: dict[str, str]


@dataclass(frozen=True)
class ConfigCost:
    """What a config's model costs, and the published results it reproduces."""

    config: str
    cost: ModelCost
    rows: tuple[PaperRow, ...]

    def papers_convention(self, row: PaperRow | None = None) -> int:
        """FLOPs as the paper of `row` counts them, or as OpenMMLab does."""
        return self.cost.counts.papers_convention(with_products=row is None or row.with_products)

    def row_flops(self, row: PaperRow) -> float | None:
        """The paper's FLOPs in 1e9, or None when it quotes none or quotes them for another image size."""
        return row.flops_g if row.shape == self.cost.shape else None


def count_model(model: nn.Module, shape: tuple[int, int]) -> ModelCost:
    """Count a model on the meta device: a classifier, detector or segmentor of OpenMMLab, or a module of one image.

    Args:
        model: built by `build_on_meta` or moved by `.to('meta')`.
        shape: (H, W) of the image; nothing is padded.

    Raises:
        ValueError: the model is not on the meta device, or cannot run at this shape.
    """
    elsewhere = next((name for name, parameter in model.named_parameters() if not parameter.is_meta), None)
    if elsewhere is not None:
        raise ValueError(f"model has parameters with memory ({elsewhere}); count model.to('meta')")
    counter = OperationCounter(model)
    try:
        with torch.no_grad(), shape_only_kernels(counter), counter:
            dummy_forward(model, shape)
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), '') or type(error).__name__
        raise ValueError(f'the model ({type(model).__name__}) cannot run at {shape[0]}x{shape[1]}: {reason} '
                         f'({counter.place()})') from error
    by_module = _params_by_module(model)
    types = {name: type(module).__name__ for name, module in model.named_modules()}
    return ModelCost(shape, by_module[''], counter.counts, by_module, types)


def _params_by_module(model: nn.Module) -> Counter[str]:
    params: Counter[str] = Counter({'': 0})
    for name, parameter in model.named_parameters():
        parts = name.split('.')[:-1]
        for depth in range(len(parts) + 1):
            params['.'.join(parts[:depth])] += parameter.numel()
    return params


def count_config(path: str | Path, shape: tuple[int, int] | None = None) -> ConfigCost:
    """Build a config's model on the meta device and count it.

    Args:
        path: a config file.
        shape: (H, W) of the image; by default that of the paper's row, the backbone's `img_size` for a classifier, or
            the usual one of the task (224x224, 800x1280, 512x2048).

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the config has no model, or its model cannot be built or run at this shape.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f'config {path} does not exist; check the path')
    config = Config.fromfile(path)
    if 'model' not in config:
        raise ValueError(f'config {path} has no model')
    rows = rows_of_config(path)
    shape = shape or _usual_shape(config, rows)
    try:
        cost = count_model(build_on_meta(config.model, config.get('default_scope', 'mmengine')), shape)
    except ValueError as error:
        raise ValueError(f'config {path}: {error}') from error
    return ConfigCost(str(path), cost, rows)


def _usual_shape(config: Config, rows: tuple[PaperRow, ...]) -> tuple[int, int]:
    scope = config.get('default_scope')
    if rows and rows[0].shape:
        return rows[0].shape
    size = config.model.get('backbone', {}).get('img_size')
    if scope == 'mmpretrain' and size:
        return (size, size) if isinstance(size, int) else tuple(size)
    if scope in DEFAULT_SHAPES:
        return DEFAULT_SHAPES[scope]
    raise ValueError(f'default_scope ({scope}) has no usual image size, give one: --shape H W')
