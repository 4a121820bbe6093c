"""The content of a file of PyTorch after it has been read: records become values, and all tensors
are checked.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from types import NoneType
from typing import Any

import torch
from torch import Tensor, nn

from mmflatten.untrusted.records import Placeholder, Record

MAX_DEPTH = 100  # containers in each other
VALUES = (
    *(NoneType, bool, int, float, complex, str, bytes, bytearray),
    *(torch.Size, torch.device, torch.dtype, torch.layout),
)


def restore(content: Any) -> tuple[Any, list[Tensor]]:
    """Return a copy of nested containers in which each record is the value that it describes, and
    the tensors in them.

    Only the items of containers are copied, so that attributes which the file gave them are gone,
    except for `_metadata`, with which PyTorch's state dicts carry versions.

    Raises:
        ValueError: a record does not describe a value, a value is not of `VALUES`, a tensor has
            attributes or hooks, or containers are too deep.
    """
    copier = _Copier()
    copied = copier.copy(content, depth=0)
    return copied, copier.tensors


class _Copier:
    """Copies each container once, also if others share it or if it holds itself."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self._copies: dict[int, Any] = {}  # of containers and records, by identity
        self._originals: list[Any] = []  # keeps them alive, so that no identity is used again

    def copy(self, value: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ValueError(f'it nests more than {MAX_DEPTH} containers')
        if id(value) in self._copies:
            return self._copies[id(value)]
        self._originals.append(value)
        kind = type(value)
        if kind in (dict, OrderedDict, Counter):
            return self._copy_dict(value, depth)
        if kind is list:
            return self._copy_list(value, depth)
        if kind in (tuple, set):
            return self._keep(value, kind([self.copy(item, depth + 1) for item in value]))
        if isinstance(value, Record):
            return self._restore(value, depth)
        return self._checked(value)

    def _restore(self, record: Record, depth: int) -> Any:
        arguments = self.copy(record.arguments, depth + 1)
        state = self.copy(record.state, depth + 1)
        return self._keep(record, record.restored(arguments, state))

    def _checked(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            _require_plain(value)
            self.tensors.append(value)
            return value
        if type(value) in VALUES or isinstance(value, Placeholder):
            return value
        if callable(value):  # a class or function, which the file names without a call
            return Placeholder()
        raise ValueError(f'expected tensors, numbers and text, got a {type(value).__name__}')

    def _keep(self, original: Any, copied: Any) -> Any:
        self._copies[id(original)] = copied
        return copied

    def _copy_list(self, original: list, depth: int) -> list:
        copied = self._keep(original, [])
        for item in original:
            copied.append(self.copy(item, depth + 1))
        return copied

    def _copy_dict(self, original: dict, depth: int) -> dict:
        copied = self._keep(original, type(original)())
        for key, item in dict.items(original):  # the file may have given an attribute `items`
            copied[self.copy(key, depth + 1)] = self.copy(item, depth + 1)
        metadata = getattr(original, '__dict__', {}).get('_metadata')
        if metadata is not None:
            if not isinstance(metadata, dict):
                raise ValueError(f'_metadata: expected a dictionary, got {type(metadata).__name__}')
            copied._metadata = self.copy(metadata, depth + 1)  # type: ignore[attr-defined]
        return copied


def _require_plain(tensor: Tensor) -> None:
    if type(tensor) not in (Tensor, nn.Parameter):
        raise ValueError(f'expected plain tensors, got a {type(tensor).__name__}')
    hooks = tensor._backward_hooks
    if tensor.__dict__ or type(hooks) not in (NoneType, OrderedDict) or hooks:
        raise ValueError('a tensor has attributes or hooks')
    if tensor.layout != torch.strided or tensor.is_neg():
        raise ValueError('a tensor is not stored as plain values')


def holds_placeholder(content: Any) -> bool:
    """Return True if nested containers hold a placeholder."""
    waiting = [content]
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, Placeholder):
            return True
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, (list, tuple, set)):
            waiting.extend(part)
    return False
