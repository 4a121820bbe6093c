"""Reading pickles and checkpoints without running their code.

Besides weights, checkpoints may contain objects of other libraries, such as a yacs or argparse configuration or a
gradient scaler. `torch.load(weights_only=True)` rejects such files. Here these objects are replaced by inert
placeholders, so that the weights can be read. Only the functions that rebuild tensors are called.
"""
from __future__ import annotations

import pickle
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
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


_Unpickler: Any = pickle._Unpickler  # without types in typeshed


class SafeUnpickler(_Unpickler):
    """Unpickler that calls only what `allowed` lists, and sets the state of instances of `stateful` classes alone.

    It is based on the implementation in Python: that in C reserves as much memory as a file asks for, and sets
    attributes of functions and classes that a file names, which would change them in this process.
    """

    allowed: Mapping[tuple[str, str], Any] = {}  # (module, name) in the file -> what takes its place
    stateful: tuple[type, ...] = ()

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.allowed:
            raise pickle.UnpicklingError(f'{module}.{name} is not allowed in this file')
        return self.allowed[module, name]

    def load_build(self) -> None:
        if not isinstance(self.stack[-2], self.stateful):
            raise pickle.UnpicklingError(f'the file sets attributes of {self.stack[-2]!r:.80}')
        super().load_build()

    dispatch = {**_Unpickler.dispatch, pickle.BUILD[0]: load_build}


_ALLOWED: dict[tuple[str, str], Any] = {
    ('collections', 'OrderedDict'): OrderedDict,
    ('torch', 'Size'): torch.Size,
    **{('torch._utils', name): getattr(torch._utils, name)
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
    if (part := compressed_part(path)) is not None:
        raise ValueError(f'{path}: expected a PyTorch checkpoint, which is not compressed, got the compressed part '
                         f'{part}.')
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
            reason = ' '.join(str(error).split()).split('. ')[0][:200] or 'it is truncated'
            raise ValueError(f'{path}: expected a complete PyTorch checkpoint, got {type(error).__name__}: '
                             f'{reason}.') from error


def compressed_part(path: str | Path) -> str | None:
    """Name the first compressed member of a zip archive, None if there is none.

    PyTorch stores its files without compression. Compressed ones could expand to a thousand times their size.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except zipfile.BadZipFile:
        return None
    return next((member.filename for member in members if member.compress_type != zipfile.ZIP_STORED), None)


def _reader(replaced: dict[str, type[Inert]]) -> SimpleNamespace:
    """Create a substitute for the module `pickle` in `torch.load`. Adds the replaced classes to `replaced`."""
    class Unpickler(SafeUnpickler):
        stateful = (Inert, OrderedDict)  # state dicts have the attribute `_metadata`

        def find_class(self, module: str, name: str) -> Any:
            if (module, name) in _ALLOWED:
                return _ALLOWED[module, name]
            return replaced.setdefault(f'{module}.{name}', type(f'{module}.{name}', (Inert,), {}))

    return SimpleNamespace(__name__=__name__, Unpickler=Unpickler,
                           load=lambda file, **kwargs: Unpickler(file, **kwargs).load())
