"""Reading checkpoint files without running code from them.

A checkpoint may hold, next to its weights, objects of foreign classes: a yacs or argparse configuration, a scaler.
`torch.load(weights_only=True)` then refuses the whole file. Here such objects become inert stand-ins, so that the
weights can be taken. Nothing that the file names is imported or called, except what rebuilds tensors.
"""
from __future__ import annotations

import pickle
import warnings
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch


class Inert:
    """Stand-in for an object of a foreign class: takes whatever the file does to it, and does nothing."""

    def __call__(self, *args: Any, **kwargs: Any) -> Inert:
        return Inert()

    def _ignore(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""

    __init__ = __setstate__ = __setitem__ = append = extend = add = _ignore  # what unpickling calls


class _Rebuild:
    """A function of PyTorch that a file may call. Behind this object a file cannot set the function's attributes."""

    def __init__(self, function: Callable) -> None:
        self._function = function

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError('the file tries to change a function of PyTorch')


_ALLOWED: dict[tuple[str, str], Any] = {
    ('collections', 'OrderedDict'): OrderedDict,
    ('torch', 'Size'): torch.Size,
    **{('torch._utils', name): _Rebuild(getattr(torch._utils, name))
       for name in ('_rebuild_tensor', '_rebuild_tensor_v2', '_rebuild_parameter')},
}


def load_without_code(path: str | Path) -> tuple[Any, list[str]]:
    """Load a checkpoint of either format of PyTorch onto the CPU; no code from the file runs.

    Returns:
        What it holds, and the names of the foreign classes whose objects were replaced by `Inert` ones.

    Raises:
        ValueError: no checkpoint, a damaged one, or a TorchScript archive.
    """
    replaced: dict[str, type[Inert]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', UserWarning)  # on formats; what matters of it becomes an error here
        try:
            try:
                return torch.load(path, map_location='cpu', weights_only=True), []
            except pickle.UnpicklingError:
                content = torch.load(path, map_location='cpu', weights_only=False, pickle_module=_reader(replaced))
                return content, sorted(replaced)
        except FileNotFoundError:
            raise
        except Exception as error:  # a damaged file can fail anywhere in the reader
            reason = ' '.join(str(error).split()).split('. ')[0][:200]
            raise ValueError(f'{path} cannot be read as a PyTorch checkpoint ({type(error).__name__}: {reason}). Is it '
                             'whole, and is it a file of weights?') from error


def _reader(replaced: dict[str, type[Inert]]) -> SimpleNamespace:
    """What `torch.load` uses of the module `pickle`; fills in the classes that it replaces."""
    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if (module, name) in _ALLOWED:
                return _ALLOWED[module, name]
            return replaced.setdefault(f'{module}.{name}', type(f'{module}.{name}', (Inert,), {}))

    return SimpleNamespace(__name__=__name__, Unpickler=Unpickler,
                           load=lambda file, **kwargs: Unpickler(file, **kwargs).load())
