"""The one reader of PyTorch's files: weights, states of trainings and results of tests. No code of
a file runs.

`torch.load(weights_only=True)` calls what PyTorch needs to rebuild its objects, and what
`add_safe_globals` has been told. Both lists are too long for files of others. Libraries add to the
second one: MMEngine 0.10 lists `builtins.getattr`, with which a file reaches any function. The
first one has functions that share memory with an array, make tensors without values or set
attributes. So a file may name what stands in `ALLOWED` and nothing else of PyTorch; objects of
other libraries, such as a yacs or argparse configuration, become inert placeholders, so that the
weights can be read; and arrays of NumPy are records that are copied after loading.

A file that asks for much memory ends with an error of memory, as in PyTorch.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import sys
import threading
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import _weights_only_unpickler
from torch.serialization import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals

from mmflatten.text import clip
from mmflatten.untrusted.content import restore
from mmflatten.untrusted.files import problem_of
from mmflatten.untrusted.pickle_check import ALLOWED, check_pickle
from mmflatten.untrusted.records import NUMPY, DictPlaceholder, Placeholder, as_list
from mmflatten.untrusted.storages import MapLocation, Storages

MAX_BYTES = 2**42
ZIP = b'PK\x03\x04'  # the format of PyTorch since 1.6
# The format before begins with a pickle of PyTorch's magic number. Four pickles follow: version,
# machine, content, and the names of the storages that stand behind them.
_LEGACY = b'\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.'
_LEGACY_PICKLES = 5
_LAST_PROTOCOL = 3  # of pickles that PyTorch reads
_LOCK = threading.RLock()


def read_torch(
    path: str | Path,
    map_location: MapLocation = 'cpu',
    known: Mapping[str, Any] | None = None,
) -> tuple[Any, list[str]]:
    """Read a file of `torch.save`, in either format, or a pickle with tensors, without running code
    from it.

    Args:
        map_location: device of the tensors, a function as for `torch.load`, or None for the device
            in the file.
        known: full names of classes in files, and a `Record` or `Placeholder` that takes the place
            of each.

    Returns:
        The content, and the names of classes and functions whose objects were replaced by
        placeholders.

    Raises:
        ValueError: the file is of another kind, is damaged, or names something of PyTorch that is
            not in `ALLOWED`. The message begins with the path.
    """
    if (problem := problem_of(path, MAX_BYTES)) is not None:
        raise ValueError(f'{path}: {problem}.')
    storages = Storages(map_location)
    stand_ins = {
        **NUMPY,
        'collections.deque': as_list,
        'torch.storage._load_from_bytes': partial(_read_storage, storages=storages),
        **(known or {}),
    }
    try:
        with open(path, 'rb') as file:
            size = file.seek(0, io.SEEK_END)
            storages.max_bytes = size
            content, replaced = _read(file, storages, stand_ins)
        content, tensors = restore(content)
        storages.require_memory_of(tensors)
        return content, replaced
    except MemoryError:
        raise
    except Exception as error:  # damaged files can fail anywhere in torch.load
        raise ValueError(f'{path}: {_reason(error)}.') from error


def _reason(error: Exception) -> str:
    """Return the first sentence of an error, without PyTorch's advice to read the file in an unsafe
    way.
    """
    if isinstance(error, pickle.UnpicklingError) and error.__context__ is not None:
        text = str(error.__context__)
    else:
        text = str(error)
    sentence = ' '.join(text[:600].split()).split('. ')[0][:300].rstrip('.')
    kind = '' if type(error) is ValueError else f' ({type(error).__name__})'
    return f'{sentence or "it is truncated"}{kind}'


def _read(
    file: BinaryIO, storages: Storages, stand_ins: Mapping[str, Any]
) -> tuple[Any, list[str]]:
    """Read one of three formats, after its pickles are checked."""
    file.seek(0)
    start = file.read(len(_LEGACY))
    file.seek(0)
    if start.startswith(ZIP):
        return _read_archive(file, storages, stand_ins)
    if start == _LEGACY:
        return _read_legacy(file, storages, stand_ins)
    pickled = file.read()
    if start[:1] == pickle.PROTO and start[1:2] > bytes([_LAST_PROTOCOL]):
        raise ValueError(
            f'it is a pickle of protocol {start[1]}, and PyTorch reads up to {_LAST_PROTOCOL}:'
            ' write it with torch.save'
        )
    names = check_pickle(io.BytesIO(pickled))
    return _load(_zipped(pickled), names, storages, stand_ins)


def _read_archive(
    file: BinaryIO, storages: Storages, stand_ins: Mapping[str, Any]
) -> tuple[Any, list[str]]:
    require_whole_archive(file)
    file.seek(0)
    # By PyTorch's own reader of archives, so that these are the bytes that it will load.
    pickled = torch._C.PyTorchFileReader(file).get_record('data.pkl')
    names = check_pickle(io.BytesIO(pickled))
    return _load(file, names, storages, stand_ins)


def _read_legacy(
    file: BinaryIO, storages: Storages, stand_ins: Mapping[str, Any]
) -> tuple[Any, list[str]]:
    names: set[str] = set()
    begin = 0
    for _ in range(_LEGACY_PICKLES):
        begin = file.tell()
        names |= check_pickle(file)
    file.seek(begin)
    with _only_allowing({}):
        keys = _weights_only_unpickler.load(file)  # of the last pickle
    before = len(storages)
    found = _load(file, names, storages, stand_ins)
    storages.require_keys(keys, before)
    return found


def _load(
    file: BinaryIO,
    names: set[str],
    storages: Storages,
    stand_ins: Mapping[str, Any],
) -> tuple[Any, list[str]]:
    """Load a file whose names are checked, with placeholders for the objects of other libraries."""
    foreign = sorted(names - ALLOWED - stand_ins.keys())
    begin = len(storages)
    failure: Exception = ValueError('it cannot be read')
    # Only loading tells whether an object is a dictionary, whose items are kept.
    for kind in (Placeholder, DictPlaceholder) if foreign else (Placeholder,):
        placeholders = {name: type(clip(name), (kind,), {}) for name in foreign}
        file.seek(0)
        storages.forget(begin)
        with _only_allowing({**stand_ins, **placeholders}), warnings.catch_warnings():
            # About formats; relevant problems raise an error.
            warnings.simplefilter('ignore', UserWarning)
            try:
                content = torch.load(file, map_location=storages.place, weights_only=True)
                return content, foreign
            except (pickle.UnpicklingError, ValueError) as error:
                failure = error
    raise failure


@contextlib.contextmanager
def _only_allowing(stand_ins: Mapping[str, Any]) -> Iterator[None]:
    """Make `stand_ins` the whole of PyTorch's list of safe globals, in one thread at a time."""
    with _LOCK:
        before = get_safe_globals()
        clear_safe_globals()
        try:
            with safe_globals([(stand_in, name) for name, stand_in in stand_ins.items()]):
                yield
        finally:
            add_safe_globals(before)


def _read_storage(data: Any, storages: Storages) -> Any:
    """Read the values of a tensor in a plain pickle, which PyTorch writes as a file of the older
    format.
    """
    if not isinstance(data, bytes) or not data.startswith(_LEGACY):
        raise ValueError('expected a tensor in the older format of PyTorch')
    storage, _ = _read_legacy(io.BytesIO(data), storages, stand_ins={})
    if not isinstance(storage, torch.storage.TypedStorage):
        raise ValueError(f'expected the values of a tensor, got {type(storage).__name__}')
    return storage


def _zipped(pickled: bytes) -> BinaryIO:
    """Make a file of `torch.save` from the pickle of its content, without storages."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, 'w') as archive:
        archive.writestr('archive/data.pkl', pickled)
        archive.writestr('archive/byteorder', sys.byteorder)
        archive.writestr('archive/version', '3')
    file.seek(0)
    return file


def require_whole_archive(file: BinaryIO) -> None:
    """Compare the checksums of an archive of PyTorch, which PyTorch itself does not.

    Raises:
        ValueError: the archive is truncated or damaged, or has compressed parts or two lists of its
            parts, which PyTorch does not write.
    """
    size = file.seek(0, io.SEEK_END)
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        raise ValueError(f'it is truncated ({size} bytes)') from error
    with archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(
                    f'its part {clip(member.filename)} is compressed, which PyTorch does not do'
                )
        if (damaged := archive.testzip()) is not None:
            raise ValueError(f'its part {clip(damaged)} is damaged')
        _require_same_parts(file, archive)


def _require_same_parts(file: BinaryIO, archive: zipfile.ZipFile) -> None:
    """Compare the parts with those that PyTorch finds. An archive may have two lists of its parts,
    of which Python reads the one before the end, and PyTorch the one at an offset.
    """
    sizes = {}
    for member in archive.infolist():
        sizes[member.filename.partition('/')[2]] = member.file_size
    file.seek(0)
    reader = torch._C.PyTorchFileReader(file)
    found = {name: _record_size(reader, name) for name in reader.get_all_records()}
    if found != sizes:
        raise ValueError('it has two lists of its parts')


def _record_size(reader: torch._C.PyTorchFileReader, name: str) -> int:
    """Bytes of a part of an archive. PyTorch 2.10 tells them by reading it alone."""
    if hasattr(reader, 'get_record_size'):
        return reader.get_record_size(name)
    return len(reader.get_record(name))
