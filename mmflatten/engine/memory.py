"""Out-of-memory errors that name the fields of the config that help."""
import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from mmengine.runner import Runner

from mmflatten.console import memory_reason
from mmflatten.engine.datasets import bare_model


class OutOfMemory(torch.OutOfMemoryError):
    """A training or test needs more memory than the device has."""


@contextlib.contextmanager
def explain_memory(runner: Runner, split: str = 'test') -> Iterator[None]:
    """Add fields of the runner's config, with their present values, to an error of a GPU's or the CPU's memory.

    Args:
        split: `train`, which becomes `val` while the model is in evaluation mode, or `test`.
    """
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and 'DefaultCPUAllocator' not in str(error):
            raise
        model = bare_model(runner.model)
        part = 'val' if split == 'train' and not model.training else split
        raise OutOfMemory(f'out of memory in the {part} loop ({memory_reason(error)}). '
                          f'{advice(runner.cfg, model, part)}') from error


def advice(cfg: Mapping[str, Any], model: torch.nn.Module, split: str) -> str:
    """Return the changes that lower the memory of a split; the numbers in brackets are the present values."""
    loader = f'{split}_dataloader'
    lower, change = [], []
    for name, parent in _dicts(cfg.get(loader), loader):
        kind = str(parent.get('type'))
        lower += [f'{name}.{key} ({parent[key]})' for key in ('batch_size', 'crop_size', 'scale', 'scales')
                  if key in parent and (key == 'batch_size' or 'Crop' in kind or 'Resize' in kind)]
    if split == 'train':
        backbone = getattr(model, 'backbone', None)
        if backbone is not None and any(getattr(module, 'with_cp', None) is False for module in backbone.modules()):
            change.append('model.backbone.with_cp=True (False)')
        change += [f'{name}.gpu_assign_thr=100 for images with many boxes ({parent.get("gpu_assign_thr", -1)})'
                   for name, parent in _dicts(cfg.get('model'), 'model')
                   if str(parent.get('type')).endswith('MaxIoUAssigner')]
        change.append('--amp' * ('Amp' not in str((cfg.get('optim_wrapper') or {}).get('type'))))
    return ' '.join(f'{verb}: {", ".join(filter(None, names))}.' for verb, names in (('Lower', lower), ('Set', change))
                    if any(names))


def _dicts(value: Any, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the dictionaries of a config with their dotted names, which `--cfg-options` accepts."""
    if isinstance(value, Mapping):
        yield name, value
    children = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from _dicts(child, f'{name}.{key}')
