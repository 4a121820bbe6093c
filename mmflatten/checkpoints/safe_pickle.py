"""Reading checkpoint files without running their code.

Besides weights, checkpoints may contain objects of other libraries, such as a yacs or argparse configuration or a
gradient scaler. `torch.load(weights_only=True)` rejects such files. Here these objects are replaced by inert
placeholders, so that the weights can be read. Only the functions that rebuild tensors are imported and called.
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
    """Placeholder for an object of another library. Accepts all operations of unpickling and ignores them."""

    def __call__(self, *args: Any, **kwargs: Any) -> Inert:
        return Inert()

    def _ignore(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""

    __init__ = __setstate__ = __setitem__ = append = extend = add = _ignore  # called by unpickling


class _Rebuild:
    """Wrapper of a PyTorch function that files may call. It prevents files from setting attributes of the function."""

    def __init__(self, function: Callable) -> None:
        self._function = function

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError('the file tries to modify a function of PyTorch')


_ALLOWED: dict[tuple[str, str], Any] = {
    ('collections', 'OrderedDict'): OrderedDict,
    ('torch', 'Size'): torch.Size,
    **{('torch._utils', name): _Rebuild(getattr(torch._utils, name))
       for name in ('_rebuild_tensor', '_rebuild_tensor_v2', '_rebuild_parameter')},
}


def load_without_code(path: str | Path) -> tuple[Any, list[str]]:
    """Load a checkpoint in either format of PyTorch onto the CPU without running code from the file.

    Returns:
        The content, and the names of classes whose objects were replaced by `Inert` objects.

    Raises:
        ValueError: the file is not a checkpoint, is damaged, or is a TorchScript archive.
    """
    replaced: dict[str, type[Inert]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', UserWarning)  # about formats; relevant problems raise an error
        try:
            try:
                return torch.load(path, map_location='cpu', weights_only=True), []
            except pickle.UnpicklingError:
                content = torch.load(path, map_location='cpu', weights_only=False, pickle_module=_reader(replaced))
                return content, sorted(replaced)
        except FileNotFoundError:
            raise
        except Exception as error:  # damaged files can fail anywhere in torch.load
            reason = ' '.join(str(error).split()).split('. ')[0][:200]
            raise ValueError(f'{path}: expected a complete PyTorch checkpoint, got {type(error).__name__}: '
                             f'{reason}.') from error


def _reader(replaced: dict[str, type[Inert]]) -> SimpleNamespace:
    """Create a substitute for the module `pickle` in `torch.load`. Adds the replaced classes to `replaced`."""
    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if (module, name) in _ALLOWED:
                return _ALLOWED[module, name]
            return replaced.setdefault(f'{module}.{name}', type(f'{module}.{name}', (Inert,), {}))

    return SimpleNamespace(__name__=__name__, Unpickler=Unpickler,
                           load=lambda file, **kwargs: Unpickler(file, **kwargs).load())
