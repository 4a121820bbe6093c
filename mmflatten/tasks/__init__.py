"""Tasks: classification, detection, segmentation, stereo matching, and those of other packages.

A new task is a subclass of `Task` with the decorator `register_task`, in a file of this folder or in a package that a
config names in `custom_imports`.
"""
from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from mmflatten.tasks.task import Task

if TYPE_CHECKING:
    from torch import nn

__all__ = ['Task', 'find_task', 'register_task', 'task_of', 'task_of_model', 'task_of_predictions', 'tasks']
_TASKS: dict[str, Task] = {}


def register_task(cls: type[Task]) -> type[Task]:
    """Make a task known under its name. Use it as a class decorator."""
    _TASKS[cls.name] = cls()
    return cls


@cache
def tasks() -> dict[str, Task]:
    """Return all tasks by their names."""
    for module in pkgutil.iter_modules(__path__, f'{__name__}.'):
        importlib.import_module(module.name)
    return _TASKS


def task_of(cfg: Mapping[str, Any]) -> Task:
    """Return the task of a config.

    Raises:
        ValueError: no task has the config's `default_scope`.
    """
    scope = cfg.get('default_scope')
    task = find_task(scope)
    if task is None:
        scopes = ', '.join(task.scope for task in tasks().values())
        raise ValueError(f'default_scope: no task has this scope, got {scope!r}. Use one of {scopes}.')
    return task


def find_task(scope: str | None) -> Task | None:
    """Return the task of a `default_scope`, None if there is none."""
    return next((task for task in tasks().values() if task.scope == scope), None)


def task_of_model(model: nn.Module) -> Task | None:
    """Return the task of a whole model, None for a plain module such as a backbone.

    It is recognised by the library of its base class: a detector of this project derived from mmdet's is mmdet's.
    """
    from mmengine.model import BaseModel
    if not isinstance(model, BaseModel):
        return None
    found = (find_task(cls.__module__.split('.')[0]) for cls in reversed(type(model).__mro__))
    return next((task for task in found if task is not None), None)


def task_of_predictions(entries: Iterable[Mapping[str, Any]]) -> Task | None:
    """Return the task whose predictions all entries hold."""
    entries = list(entries)
    return next((task for task in tasks().values() if all(task.prediction in entry for entry in entries)), None)
