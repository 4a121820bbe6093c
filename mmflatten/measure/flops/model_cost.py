"""Parameters and operations of a model or of a config, without data, weights or a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from torch import nn

from mmflatten.config import read_config, require_parts
from mmflatten.measure.flops.counter import OperationCounter, OperationCounts, macs_of
from mmflatten.measure.flops.meta import build_on_meta
from mmflatten.measure.flops.rules import OTHER, PRODUCT
from mmflatten.models.backbones.base import image_bands
from mmflatten.requirements import check_task
from mmflatten.tasks import find_task, task_of, task_of_model
from mmflatten.text import align, giga
from mmflatten.version import __version__

MODULE_HEADER = (
    'module',
    'params (M)',
    'MACs (G)',
    '%',
    'of these products (G)',
    "papers' way (G)",
)


@dataclass(frozen=True)
class ModelCost:
    """Cost of one forward pass of a model on an image of `shape` = (H, W)."""

    model: nn.Module
    shape: tuple[int, int]
    counts: OperationCounts

    @property
    def params(self) -> int:
        return count_parameters(self.model)

    def render_modules(self, name: str, depth: int, markdown: bool = False) -> str:
        """Render the tree of modules down to `depth` levels; `name` is the name of the whole model.

        Modules that have neither parameters nor operations are left out.
        """
        total = max(self.counts.macs, 1)
        indent = '&nbsp;&nbsp;' if markdown else '  '
        rows = []
        for path, module in self.model.named_modules():
            level = path.count('.') + 1 if path else 0
            if level > depth:
                continue
            kinds = self.counts.of_module(path)
            macs = macs_of(kinds)
            params = count_parameters(module)
            if not params and not macs:
                continue
            label = path.rpartition('.')[2] or name
            rows.append(
                (
                    f'{level * indent}{label} ({type(module).__name__})',
                    f'{params / 1e6:.3f}',
                    giga(macs),
                    f'{100 * macs / total:.1f}',
                    giga(kinds[PRODUCT]),
                    giga(macs + kinds[OTHER]),
                )
            )
        return align(rows, MODULE_HEADER, {0}, markdown)

    def as_json(self, with_modules: bool = False) -> dict[str, Any]:
        """Convert to JSON, in single units (not millions or billions)."""
        counts = self.counts
        result = {
            'shape': list(self.shape),
            'params': self.params,
            'macs': counts.macs,
            'papers_convention': counts.papers_convention(),
            'papers_convention_without_products': counts.papers_convention(with_products=False),
            'by_kind': dict(counts.by_kind),
            'by_operator': dict(counts.by_operator),
            'elementwise_not_counted': dict(counts.elementwise),
            'uncounted': dict(counts.uncounted),
            'versions': {'mmflatten': __version__, 'torch': torch.__version__},
        }
        if with_modules:
            result['modules'] = {}
            for name, module in self.model.named_modules():
                result['modules'][name] = {
                    'type': type(module).__name__,
                    'params': count_parameters(module),
                    'macs': macs_of(counts.of_module(name)),
                }
        return result


def count_parameters(module: nn.Module) -> int:
    """Number of parameters of a module and its submodules."""
    return sum(parameter.numel() for parameter in module.parameters())


def count_model(model: nn.Module, shape: tuple[int, int]) -> ModelCost:
    """Count a model on the meta device for an image of `shape` = (H, W), or a stereo pair, without
    padding.

    The model is one of a task, or a module that takes an image. Raises ValueError if it cannot run
    at this shape.
    """
    counter = OperationCounter(model)
    task = task_of_model(model)
    image = torch.empty(1, image_bands(model), *shape, device='meta')
    try:
        with torch.no_grad(), counter:
            if task is None:
                model(image)
            else:
                task.forward(model, image)
    except Exception as error:
        reason = str(error).strip().partition('\n')[0] or type(error).__name__
        raise ValueError(
            f'model {type(model).__name__}: cannot run at {shape[0]}x{shape[1]}: {reason} '
            f'({counter.place()})'
        ) from error
    return ModelCost(model, shape, counter.counts)


def count_config(path: str | Path, shape: tuple[int, int] | None = None) -> ModelCost:
    """Build a config's model on the meta device and count it.

    The default image size is that of `default_shape`. Raises ValueError if there is no model, or if
    it cannot be built or run at this shape.
    """
    config = read_model_config(path)
    scope = config.get('default_scope')
    try:
        shape = shape or default_shape(config)
        return count_model(build_on_meta(config.model, scope or 'mmengine'), shape)
    except ValueError as error:
        raise ValueError(f'config {path}: {error}') from error


def read_model_config(path: str | Path) -> Config:
    """Read a config that has a model, and check that the libraries of its task are installed."""
    config = read_config(str(path))
    require_parts(config, 'model')
    check_task(config.get('default_scope'))
    return config


def default_shape(cfg: Config) -> tuple[int, int]:
    """Return (H, W) of the images that a config is measured with by default."""
    scope = cfg.get('default_scope')
    task = find_task(scope, cfg.get('model'))
    if task is None:
        raise ValueError(f'default_scope: no default image size, got {scope!r}. Add --shape H W.')
    return image_shape(cfg) if task.fixed_size or 'image_size' in cfg else task.input_shape


def image_shape(cfg: Config) -> tuple[int, int]:
    """Return (H, W) of training images: of the preprocessor, the backbone or the config, else the
    task's usual size.
    """
    preprocessor = cfg.model.get('data_preprocessor') or {}
    backbone = cfg.model.get('backbone') or {}
    size = (
        preprocessor.get('size')
        or backbone.get('img_size')
        or cfg.get('image_size')
        or task_of(cfg).input_shape
    )
    return (size, size) if isinstance(size, int) else tuple(size)
