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
import pickletools
import sys
import threading
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch

# No public function lists what PyTorch allows by itself.
from torch._weights_only_unpickler import _get_allowed_globals, get_globals_in_pkl
from torch.serialization import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals

from mmflatten.text import clip, shorten
from mmflatten.untrusted.content import restore
from mmflatten.untrusted.files import problem_of
from mmflatten.untrusted.records import NUMPY, DictPlaceholder, Placeholder, as_list

MAX_BYTES = 2**42
MAX_TUPLE = 100_000  # items of a tuple, with those of the tuples in it
MAX_NAMES = 100  # of classes and functions; checkpoints of official code have up to 20
ZIP = b'PK\x03\x04'  # the format of PyTorch since 1.6
# The format before begins with a pickle of PyTorch's magic number. Four pickles follow: version,
# machine, content, and the names of the storages that stand behind them.
_LEGACY = b'\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.'
_LEGACY_PICKLES = 5
_LOCK = threading.RLock()

_DTYPES = (
    *('bfloat16', 'bool', 'complex64', 'complex128', 'float16', 'float32', 'float64'),
    *('int8', 'int16', 'int32', 'int64', 'uint8', 'uint16', 'uint32', 'uint64'),
)
_STORAGES = (
    *('BFloat16', 'Bool', 'ComplexDouble', 'ComplexFloat', 'Double', 'Float', 'Half'),
    *('Byte', 'Char', 'Int', 'Long', 'Short'),
)
# Names that PyTorch knows and a file may use: what the checkpoints of PyTorch, MMEngine, timm, Meta
# and the official repositories hold. Tensors with attributes, quantised and sparse ones, and bare
# storages are not among them.
ALLOWED = frozenset(
    {
        '_codecs.encode',  # bytes, in protocol 2
        'builtins.complex',
        'builtins.set',
        'collections.Counter',  # milestones of a learning rate
        'collections.OrderedDict',
        'torch.Size',
        'torch.device',
        'torch._utils._rebuild_parameter',
        'torch._utils._rebuild_tensor_v2',
        *(f'torch.{name}' for name in _DTYPES),
        *(f'torch.{name}Storage' for name in _STORAGES),
    }
)


def read_torch(
    path: str | Path,
    map_location: Any = 'cpu',
    known: Mapping[str, Any] | None = None,
) -> tuple[Any, list[str]]:
    """Read a file of `torch.save`, in either format, or a pickle with tensors, without running code
    from it.

    Args:
        map_location: see `torch.load`.
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
    stand_ins = {
        **NUMPY,
        'collections.deque': as_list,
        'torch.storage._load_from_bytes': _read_storage,
        **(known or {}),
    }
    try:
        with open(path, 'rb') as file:
            return _read(file, map_location, stand_ins)
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


def _read(file: BinaryIO, map_location: Any, stand_ins: Mapping[str, Any]) -> tuple[Any, list[str]]:
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    start = file.read(len(_LEGACY))
    file.seek(0)
    if start.startswith(ZIP):
        require_whole_archive(file)
        file.seek(0)
        # By PyTorch's own reader of archives, so that these are the bytes that it will load.
        pickled = torch._C.PyTorchFileReader(file).get_record('data.pkl')
        names = _checked_names(io.BytesIO(pickled))
    elif start == _LEGACY:
        names = set()
        for _ in range(_LEGACY_PICKLES):
            begin = file.tell()
            names |= _checked_names(file)
            file.seek(begin)
            _require_whole_storages(file)  # and leave the file at the next pickle
    else:
        pickled = file.read()
        names = _checked_names(io.BytesIO(pickled))
        file = _zipped(pickled)
    content, replaced = _load(file, names, map_location, stand_ins)
    return restore(content, size), replaced


def _checked_names(pickled: BinaryIO) -> set[str]:
    """Check the pickle that begins here, and return the names of its classes and functions.

    Raises:
        ValueError: a name of PyTorch is not allowed, there are too many, or a tuple is too large.
    """
    begin = pickled.tell()
    names = get_globals_in_pkl(pickled)
    if len(names) > MAX_NAMES:
        raise ValueError(
            f'it names {len(names)} classes and functions, and {MAX_NAMES} are the most'
        )
    refused = sorted((names & _get_allowed_globals().keys()) - ALLOWED)
    if refused:
        raise ValueError(
            f'it names {shorten(refused, 2)}, and a file may hold plain tensors, arrays, numbers'
            ' and text only'
        )
    pickled.seek(begin)
    _require_small_tuples(pickled)
    return names


def _require_small_tuples(pickled: BinaryIO) -> None:
    """Raise ValueError for tuples in each other that Python could not hash.

    The hash of a tuple is that of all its items, without a bound of its depth: as a key, a million
    tuples in each other end the process, and sixty that hold the one before twice never end. The
    stack holds the number of items of each tuple, with those of its items.
    """
    stack: list[int] = []
    marks: list[int] = []
    memo: dict[Any, int] = {}
    for opcode, argument, _ in pickletools.genops(pickled):
        if opcode.name == 'MARK':
            marks.append(len(stack))
        elif opcode.name in ('BINGET', 'LONG_BINGET'):
            stack.append(memo[argument])
        elif opcode.name in ('BINPUT', 'LONG_BINPUT'):
            memo[argument] = stack[-1]
        else:
            before = opcode.stack_before
            if pickletools.markobject in before:  # all values since the mark, and those before it
                start = marks.pop() - (len(before) - 2)
            else:
                start = len(stack) - len(before)
            items = stack[max(start, 0) :]
            del stack[max(start, 0) :]
            size = 1
            if opcode.name.startswith('TUPLE'):
                size += sum(items)
                if size > MAX_TUPLE:
                    raise ValueError(f'it has tuples in each other of more than {MAX_TUPLE} items')
            stack.extend([size] * len(opcode.stack_after))


def _require_whole_storages(pickled: BinaryIO) -> None:
    """Raise ValueError if a pickle of the older format refers to a part of a storage.

    PyTorch would give the part a pointer into the whole one, whose memory moves if a tensor makes
    it larger. In files of `torch.save`, the last item of a reference is None.
    """
    before: list[str] = []
    for opcode, _, _ in pickletools.genops(pickled):
        if opcode.name == 'BINPERSID' and before[-2:] != ['NONE', 'TUPLE']:
            raise ValueError('it refers to a part of a storage')
        if opcode.name not in ('BINPUT', 'LONG_BINPUT'):
            before = [*before[-1:], opcode.name]


def _load(
    file: BinaryIO,
    names: set[str],
    map_location: Any,
    stand_ins: Mapping[str, Any],
) -> tuple[Any, list[str]]:
    """Load a file whose names are checked, with placeholders for the objects of other libraries."""
    foreign = sorted(names - ALLOWED - stand_ins.keys())
    failure: Exception = ValueError('it cannot be read')
    # Only loading tells whether an object is a dictionary, whose items are kept.
    for kind in (Placeholder, DictPlaceholder) if foreign else (Placeholder,):
        placeholders = {name: type(clip(name), (kind,), {}) for name in foreign}
        file.seek(0)
        with _only_allowing({**stand_ins, **placeholders}), warnings.catch_warnings():
            # About formats; relevant problems raise an error.
            warnings.simplefilter('ignore', UserWarning)
            try:
                return torch.load(file, map_location=map_location, weights_only=True), foreign
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


def _read_storage(data: Any) -> Any:
    """Read the values of a tensor in a plain pickle, which PyTorch writes as a file of the older
    format.
    """
    if not isinstance(data, bytes) or not data.startswith(_LEGACY):
        raise ValueError('expected a tensor in the older format of PyTorch')
    storage, _ = _read(io.BytesIO(data), map_location='cpu', stand_ins={})
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
        ValueError: the archive is truncated or damaged, or has compressed parts, which PyTorch does
            not write.
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
