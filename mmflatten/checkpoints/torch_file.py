"""The one reader of PyTorch's files: weights, states of trainings and results of tests. No code of a file runs.

`torch.load(weights_only=True)` calls what PyTorch needs to rebuild tensors, and what `add_safe_globals` has been told.
Libraries tell it too much: MMEngine 0.10 lists `builtins.getattr`, with which a file reaches any function. Here the
list is the one of this module while a file is read, whatever another library has registered. Objects of other
libraries, such as a yacs or argparse configuration, become inert placeholders, so that the weights can be read.
"""
from __future__ import annotations

import contextlib
import io
import pickle
import struct
import sys
import threading
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor
from torch.serialization import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    get_unsafe_globals_in_checkpoint,
    safe_globals,
)

from mmflatten.checkpoints.pickle_size import require_small
from mmflatten.checkpoints.placeholders import NUMPY, Inert, InertDict, as_list
from mmflatten.files import problem_of

MAX_BYTES = 2**42
ZIP = b'PK\x03\x04'  # the format of PyTorch since 1.6
_END = 98  # bytes behind the list of members, which PyTorch writes as zip64
_LEGACY = b'\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.'  # PyTorch's magic number
_LEGACY_PICKLES = 4  # that number, version, machine and content, before the storages
_LOCK = threading.RLock()


def _storage(data: bytes) -> Any:
    """Read the values of a tensor in a plain pickle, which PyTorch writes as a file of the older format."""
    if data[:len(_LEGACY)] != _LEGACY:  # an archive could be compressed
        raise ValueError('expected a tensor in the older format of PyTorch')
    return _read(io.BytesIO(data), 'cpu', {})[0]


_KNOWN = {**NUMPY, 'torch.storage._load_from_bytes': _storage, 'collections.deque': as_list}


def read_torch(path: str | Path, map_location: Any = 'cpu',
               known: Mapping[str, Any] | None = None) -> tuple[Any, list[str]]:
    """Read a file of `torch.save`, in either format, or a pickle with tensors, without running code from it.

    Args:
        map_location: see `torch.load`.
        known: full names of classes in files, and what takes their place. These must be safe with any state.

    Returns:
        The content, and the names of classes and functions whose objects were replaced by placeholders.

    Raises:
        ValueError: the file is of another kind, is damaged, or would take much more memory than it has bytes.
    """
    if (problem := problem_of(path, MAX_BYTES)) is not None:
        raise ValueError(f'{path}: {problem}. Expected a file of torch.save.')
    try:
        with open(path, 'rb') as file:
            return _read(file, map_location, {**_KNOWN, **(known or {})})
    except Exception as error:  # damaged files can fail anywhere in torch.load
        bare = error.__context__ if isinstance(error, pickle.UnpicklingError) else None  # without PyTorch's advice
        reason = ' '.join(str(bare or error)[:500].split()).split('. ')[0][:200].rstrip('.') or 'it is truncated'
        kind = '' if type(error) is ValueError else f' ({type(error).__name__})'
        raise ValueError(f'{path}: is not a complete file of torch.save: {reason}{kind}.') from error


@contextlib.contextmanager
def whole_archive(file: BinaryIO) -> Iterator[zipfile.ZipFile]:
    """Open an archive of PyTorch after a check of its members, whose checksums PyTorch itself does not compare.

    PyTorch stores its files without compression. A compressed member could expand to a thousand times its size, and
    several members could share the same bytes.

    Raises:
        ValueError: the archive is truncated or damaged, or has members of another kind.
    """
    size = file.seek(0, io.SEEK_END)
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        raise ValueError(f'it is truncated ({size} bytes)') from error
    with archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f'its part {member.filename[:80]} is compressed, which PyTorch does not do')
        if (total := sum(member.file_size for member in archive.infolist())) > size:
            raise ValueError(f'its parts have {total} bytes, and the file has {size}')
        if (damaged := archive.testzip()) is not None:
            raise ValueError(f'its part {damaged[:80]} is damaged')
        if not _ends_as_written(file, size) or len({*map(str.lower, archive.namelist())}) < len(archive.namelist()):
            raise ValueError('it is not an archive as PyTorch writes it, and could be read in another way than checked')
        yield archive


def _ends_as_written(file: BinaryIO, size: int) -> bool:
    """Return True if the list of members ends where Python looks for it, and is where the file says, as for PyTorch."""
    file.seek(-min(size, _END), io.SEEK_END)
    record, length, start, locator, place, end, comment = struct.unpack(
        '<4s36x2Q4s4xQ4x4s16xH', file.read().rjust(_END, b'\0'))
    marks = (record, locator, end) == (b'PK\x06\x06', b'PK\x06\x07', b'PK\x05\x06')
    return marks and place == start + length == size - _END and not comment


def _read(file: BinaryIO, map_location: Any, known: Mapping[str, Any]) -> tuple[Any, list[str]]:
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    start = file.read(len(_LEGACY))
    file.seek(0)
    if start.startswith(ZIP):
        with whole_archive(file) as archive:
            name, = (name for name in archive.namelist() if name.rpartition('/')[2] == 'data.pkl')
            pickled = archive.read(name)
        require_small(io.BytesIO(pickled), size)
    elif start == _LEGACY:
        for _ in range(_LEGACY_PICKLES):
            begin = file.tell()
            require_small(file, size)
        end = file.tell()
        require_small(file, size)  # the names of the storages
        file.seek(begin)
        pickled = file.read(end - begin)
    else:
        pickled = file.read()
        require_small(io.BytesIO(pickled), size)
        file = _zipped(pickled)
    content, replaced = _load(file, pickled, map_location, known)
    _require_own_memory(content, size)
    return content, replaced


def _zipped(pickled: bytes) -> BinaryIO:
    """Make a file of `torch.save` from the pickle of its content, without storages."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, 'w') as archive:
        for name, data in (('data.pkl', pickled), ('byteorder', sys.byteorder), ('version', '3')):
            archive.writestr(f'archive/{name}', data)
    file.seek(0)
    return file


@contextlib.contextmanager
def _exactly(allowed: Mapping[str, Any]) -> Iterator[None]:
    """Make `allowed` the whole of PyTorch's list of safe globals, in one thread at a time."""
    with _LOCK:
        before = get_safe_globals()
        clear_safe_globals()
        try:
            with safe_globals([(stand_in, name) for name, stand_in in allowed.items()]):
                yield
        finally:
            add_safe_globals(before)


def _load(file: BinaryIO, pickled: bytes, map_location: Any, known: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """Load a file with what is known, else with placeholders for all names that PyTorch does not know.

    Arrays of text, objects or fields are no numbers: then NumPy's names have placeholders, too.
    """
    others = {name: stand_in for name, stand_in in known.items() if name not in NUMPY}
    failure: Exception = ValueError('it cannot be read')
    for allowed, kind in ((known, None), (known, Inert), (known, InertDict), (others, Inert), (others, InertDict)):
        with _exactly(allowed):
            foreign = [] if kind is None else sorted(get_unsafe_globals_in_checkpoint(_zipped(pickled)))
        if kind is not None and not foreign:  # as before
            continue
        file.seek(0)
        with (_exactly({**allowed, **{name: type(name, (kind or Inert,), {}) for name in foreign}}),
              warnings.catch_warnings()):
            warnings.simplefilter('ignore', UserWarning)  # about formats; relevant problems raise an error
            try:
                return torch.load(file, map_location=map_location, weights_only=True), foreign
            except (pickle.UnpicklingError, ValueError) as error:
                failure = error
    raise failure


def leaves(content: Any) -> list:
    """Return what nested containers hold, each walked once. Raises ValueError for more than 500 in each other."""
    found, waiting, seen = [], [(content, 0)], set()
    while waiting:
        part, depth = waiting.pop()
        if depth > 500:
            raise ValueError('it nests more than 500 containers')
        if not isinstance(part, (dict, list, tuple, set)):
            found.append(part)
        elif id(part) not in seen:
            seen.add(id(part))
            waiting += [(item, depth + 1) for item in (part.values() if isinstance(part, dict) else part)]
    return found


def _require_own_memory(content: Any, size: int) -> None:
    """Raise ValueError for tensors with more bytes than the file: memory of this process, or one value repeated."""
    tensors = [leaf for leaf in leaves(content)
               if isinstance(leaf, Tensor) and leaf.device.type != 'meta' and leaf.layout == torch.strided]
    storages = {leaf.untyped_storage().data_ptr(): leaf.untyped_storage().nbytes() for leaf in tensors}
    if sum(storages.values()) > size:
        raise ValueError(f'its tensors have {sum(storages.values())} bytes, and the file has {size}')
    for tensor in tensors:
        if tensor.nbytes > tensor.untyped_storage().nbytes():
            raise ValueError(f'a tensor of {tuple(tensor.shape)} is larger than its storage')
