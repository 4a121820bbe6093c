"""The config of a run: base, options, budget and seed, and a check that every path of an option exists."""
from __future__ import annotations

import copy
import difflib
import functools
import inspect
from collections.abc import Iterator
from typing import Any

import mmengine.registry
from mmengine.config import Config
from mmengine.registry import Registry
from torch.utils.data import DataLoader

from mmflatten.config_files import require_parts
from mmflatten.engine.setup import load_config
from mmflatten.studies.grid import Run, digest
from mmflatten.studies.study import Budget, StudyError

SCHEDULED = ('begin', 'end', 'T_max', 'milestones')  # fields of a scheduler that count epochs or iterations


def config_of(run: Run, budget: Budget) -> Config:
    """The whole config of a run.

    Raises:
        StudyError: a path of its options is in no config like this, or the budget is for another kind of loop.
        FileNotFoundError: there is no such base.
    """
    cfg = copy.deepcopy(_base(run.base))
    for path, value in run.options.items():  # a field stands before those inside of it
        check_path(cfg, path)
        cfg.merge_from_dict({path: copy.deepcopy(value)})
    _drop_markers(cfg._cfg_dict)
    set_length(cfg, budget)
    cfg.randomness = {**(cfg.get('randomness') or {}), 'seed': run.seed}
    if 'checkpoint' in (cfg.get('default_hooks') or {}):
        cfg.default_hooks.checkpoint.max_keep_ckpts = 1
    cfg.pop('work_dir', None)
    return cfg


@functools.cache
def _base(name: str) -> Config:
    cfg = load_config(name)
    require_parts(cfg, 'model', 'train_dataloader', 'train_cfg', 'optim_wrapper', 'test_dataloader', 'test_evaluator')
    return cfg


def config_hash(cfg: Config) -> str:
    """Changes with anything in the config but the place it was read from."""
    return digest(cfg.to_dict())[:12]


def set_length(cfg: Config, budget: Budget) -> None:
    """Train for the budget instead of the config's own length; schedule and warm-up shrink or grow with it."""
    loop, by_epoch = cfg.train_cfg, bool(cfg.train_cfg.get('max_epochs'))
    name, field = ('epochs', 'max_epochs') if by_epoch else ('iterations', 'max_iters')
    length, before = getattr(budget, name), loop[field]
    if length is None and budget.seconds is None:
        raise StudyError(f'budget has no {name}, which the training of {cfg.filename} counts; give budget.{name}')
    length = length or before
    loop[field] = length
    loop.val_interval = min(loop.get('val_interval', 1 if by_epoch else 1000), length)
    schedulers = cfg.get('param_scheduler') or []
    for scheduler in [schedulers] if isinstance(schedulers, dict) else schedulers:
        for key in set(SCHEDULED) & set(scheduler):
            scheduler[key] = _scaled(scheduler[key], length / before)


def _scaled(value: Any, factor: float) -> Any:
    if isinstance(value, (list, tuple)):
        return [_scaled(item, factor) for item in value]
    return value and max(1, round(value * factor))


def check_path(cfg: Config, path: str) -> None:
    """Raise StudyError at a path that is in the config neither written nor an argument of what is named there."""
    node, name, scope = cfg._cfg_dict, '', cfg.get('default_scope') or 'mmengine'
    for part in path.split('.'):
        known = _fields(node, name, scope)
        if known is None:
            return  # the class is known to its parent alone, which building the model will ask
        if part not in known:
            near = difflib.get_close_matches(part, known, 1, 0.) or ['no field']
            raise StudyError(f'{path} is no field of {cfg.filename}: {name or "the config"} has no {part}; '
                             f'the nearest is {near[0]}')
        if part not in node and not isinstance(node, (list, tuple)):
            return  # an argument with a default; building the model will look at what is in it
        node, name = node[int(part)] if isinstance(node, (list, tuple)) else node[part], part


def check_parts(cfg: Config) -> None:
    """Raise StudyError at a data set or metric that is in no registry or does not take an argument; reads no data."""
    for place in (f'{name}_{kind}' for name in ('train', 'val', 'test') for kind in ('dataloader', 'evaluator')):
        for part in _parts(cfg.get(place)):
            given = {name: value for name, value in part.items() if name not in ('type', '_scope_')}
            cls = _find_class(part['type'], part.get('_scope_') or cfg.get('default_scope') or 'mmengine')
            if cls is None:
                raise StudyError(f'{place}: {part["type"]} is in no registry')
            try:
                inspect.signature(cls).bind_partial(**given)
            except TypeError as error:
                raise StudyError(f'{place}: {part["type"]} {error}') from error


def _parts(node: Any) -> Iterator[dict]:
    """Data sets and metrics of a part of a config, with those that they wrap."""
    if isinstance(node, dict):
        if 'type' in node:
            yield node
        node = [node.get(key) for key in ('dataset', 'datasets', 'metrics')]
    for item in node if isinstance(node, (list, tuple)) else ():
        yield from _parts(item)


def _fields(node: Any, name: str, scope: str) -> list[str] | None:
    """What can be set in a part of a config: its fields, and arguments of its class; None where that is not known."""
    if not isinstance(node, dict):
        return [str(number) for number in range(len(node))] if isinstance(node, (list, tuple)) else []
    cls = DataLoader if name.endswith('_dataloader') else _find_class(node['type'], scope) if 'type' in node else object
    if not inspect.isclass(cls):
        return None
    return [*node, *(argument for ancestor in cls.__mro__[:-1] if '__init__' in vars(ancestor)
                     for argument in list(inspect.signature(ancestor.__init__).parameters)[1:])]


@functools.cache
def _find_class(kind: Any, scope: str) -> Any:
    """The class of a `type`; which registry knows it is not written in the config."""
    if not isinstance(kind, str):
        return kind
    for root in [item for item in vars(mmengine.registry).values() if isinstance(item, Registry)]:
        with root.switch_scope_and_registry(scope) as registry:
            found = registry.get(kind)
        if found is not None:
            return found
    return None


def _drop_markers(node: Any) -> None:
    """Take out `_delete_`, which MMEngine leaves where there was nothing to delete."""
    if isinstance(node, dict):
        node.pop('_delete_', None)
    for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _drop_markers(item)
