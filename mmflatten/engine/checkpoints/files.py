"""Checkpoint files: written atomically, read without running code from them, checked, and the newest one of a run."""
import contextlib
import enum
import importlib
import logging
import os
import pickle
import re
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.logging import print_log
from mmengine.runner.checkpoint import get_torch_safe_globals
from mmengine.utils import apply_to
from torch import Tensor
from torch.serialization import safe_globals

from mmflatten.checkpoints.files import SAFETENSORS, read_safetensors
from mmflatten.checkpoints.safe_pickle import SafeUnpickler, compressed_part, load_without_code
from mmflatten.console import OUT_OF_SPACE, space_hint

SHARDED = '.sharded'  # suffix of a folder of `torch.distributed.checkpoint` with `rest.pth` beside the shards
REST = 'rest.pth'  # the state of the training, with meta tensors in place of the sharded ones
_PARTIAL = '.part'
_PERIODIC = re.compile(r'(?:epoch|iter)_(\d+)\.(?:pth|sharded)')
_NUMPY_TYPES = [type(np.dtype(code)) for code in np.typecodes['AllInteger'] + np.typecodes['AllFloat'] + '?']
_METADATA_GLOBALS = {('torch', 'Size'), ('torch.serialization', '_get_layout'), ('pathlib', 'PosixPath'),
                     ('pathlib._local', 'PosixPath')}  # the last in Python 3.13


class CheckpointError(RuntimeError):
    """A checkpoint is missing, damaged or belongs to another model."""


class CheckpointWriteError(OSError):
    """A file could not be written. The previous content of the path is unchanged."""

    def __str__(self) -> str:
        return self.strerror


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a hidden path beside `path` to write a file or folder to; on success it is flushed and renamed to `path`.

    `path` therefore holds either the old content or the new, also after a power cut. (A folder that replaces another
    is absent for a moment.) On failure the partial content is deleted.

    Raises:
        CheckpointWriteError: writing failed. If the disk is full, the message gives the free space.
    """
    path = Path(path)
    partial, outdated = partial_path(path), path.with_name(f'.{path.name}.old{_PARTIAL}')
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        for part in partial.iterdir() if partial.is_dir() else [partial]:
            with open(part, 'rb') as file:
                os.fsync(file.fileno())
        if path.is_dir():
            os.replace(path, outdated)
        os.replace(partial, path)
        _remove(outdated)
        descriptor = os.open(path.parent, os.O_RDONLY)
        with contextlib.suppress(OSError):  # some file systems cannot sync a folder
            os.fsync(descriptor)
        os.close(descriptor)
    except OSError as error:
        hint = f'; {space_hint(error.errno, path)}' if error.errno in OUT_OF_SPACE else ''
        raise CheckpointWriteError(error.errno, f'cannot write {path}: {error.strerror or error}{hint}') from error
    finally:
        _remove(partial)


def partial_path(path: Path) -> Path:
    """Return the path that `atomic_write` yields for `path`."""
    return path.with_name(f'.{path.name}{_PARTIAL}')


def remove_leftovers(folder: str | Path) -> None:
    """Delete partial files left in `folder` by a killed process."""
    for partial in Path(folder).glob(f'.*{_PARTIAL}'):
        _remove(partial)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def read_file(path: Path, map_location: Any = None) -> Any:
    """Read a file of PyTorch. Objects of foreign classes become inert placeholders, and a warning names them.

    Raises:
        ValueError: the file cannot be read as a checkpoint.
    """
    try:
        with safe_globals([*get_torch_safe_globals(), *_NUMPY_TYPES]):
            return torch.load(path, map_location=map_location, weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError):  # foreign classes, or a truncated file of the old format
        content, replaced = load_without_code(path)
    if replaced:
        print_log(f'{path}: left out objects of foreign classes, without running their code: {", ".join(replaced)}',
                  logger='current', level=logging.WARNING)
    return content


def map_tensors(state: dict, function: Callable[[Tensor], Tensor]) -> dict:
    """Return the state of a training with `function` applied to each tensor; module versions are kept."""
    result = apply_to(state, lambda value: isinstance(value, Tensor), function)
    result['state_dict']._metadata = state['state_dict']._metadata
    return result


def read_sharded(folder: Path) -> dict:
    """Read a complete sharded checkpoint into CPU memory.

    Raises:
        Exception: of any type, if a file is missing, truncated or not a checkpoint.
    """
    from torch.distributed.checkpoint import CheckpointException, FileSystemReader, load
    shards: dict[str, Tensor] = {}

    def allocate(tensor: Tensor) -> Tensor:
        if not tensor.is_meta:
            return tensor
        return shards.setdefault(str(len(shards)), torch.empty_like(tensor, device='cpu'))

    with open(folder / '.metadata', 'rb') as file:
        metadata = _MetadataUnpickler(file).load()
    reader = FileSystemReader(folder)
    reader.read_metadata = lambda *args, **kwargs: metadata  # its own unpickles any class
    state = map_tensors(read_file(folder / REST), allocate)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore', UserWarning)  # about `no_dist`, which is intended: each process reads all
            load(shards, storage_reader=reader, no_dist=True)
    except CheckpointException as error:  # not a subclass of Exception
        raise next(iter(error.failures.values()))[0] from error
    return state


class _MetadataUnpickler(SafeUnpickler):
    """Unpickle the index of `torch.distributed.checkpoint`; only its own data classes and plain types are allowed."""

    def find_class(self, module: str, name: str) -> Any:
        listed = (module, name) in _METADATA_GLOBALS
        if listed or module == 'torch' or module.startswith('torch.distributed.checkpoint.'):
            found = getattr(importlib.import_module(module), name, None)
            if listed or isinstance(found, (torch.dtype, enum.EnumMeta)) or is_dataclass(found):
                if is_dataclass(found):
                    self.stateful = (*self.stateful, found)
                return found
        raise pickle.UnpicklingError(f'{module}.{name} is not allowed in the index of a checkpoint')


def what_is_wrong(path: str | Path) -> str | None:
    """Read a checkpoint and describe its damage; None if it is complete.

    PyTorch's files are zip archives with a checksum per tensor, so truncation and flipped bits are detected without
    unpickling. Files in the older format, safetensors and shards have no checksums.
    """
    path = Path(path)
    if (path / REST).is_file() and (problem := what_is_wrong(path / REST)) is not None:
        return f'{REST}: {problem}'
    if path.is_dir() or path.suffix == SAFETENSORS:
        read = read_sharded if path.is_dir() else read_safetensors
        try:
            read(path)
        except Exception as error:
            return f'it is incomplete ({type(error).__name__}: {" ".join(str(error).split())[:200]})'
        return None
    with open(path, 'rb') as file:
        start = file.read(2)
    if start[:1] == b'\x80':  # a pickle, the older format
        return None
    if start != b'PK':
        return 'it is not a PyTorch checkpoint' if start else 'it is empty'
    try:
        if (part := compressed_part(path)) is not None:
            return f'its part {part} is compressed, which PyTorch does not do'
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except zipfile.BadZipFile:
        return f'it is truncated ({path.stat().st_size} bytes)'
    return None if damaged is None else f'its part {damaged} is damaged'


def require_whole(path: str | Path) -> None:
    """Raise CheckpointError if a checkpoint is missing or damaged. Addresses with a scheme are not checked."""
    if '://' in str(path):
        return
    if Path(path).is_dir() and Path(path).suffix != SHARDED:
        raise CheckpointError(f'checkpoint {path} is a folder. Name a file in it.')
    if not Path(path).exists():
        raise CheckpointError(f'checkpoint {path} does not exist. Check the path.')
    if (problem := what_is_wrong(path)) is not None:
        raise CheckpointError(f'checkpoint {path} cannot be read: {problem}. Copy or download it again.')


def newest_checkpoint(work_dir: str | Path) -> Path | None:
    """Return the newest complete checkpoint of a run, or None if there are no checkpoints.

    Candidates are `epoch_*` and `iter_*` in `work_dir` and in the folder that `last_checkpoint` points to, newest
    modification time first. Damaged ones are skipped with a warning.

    Raises:
        CheckpointError: every checkpoint is damaged. Training would silently start again from the beginning.
    """
    work_dir = Path(work_dir)
    folders, pointer = {work_dir.absolute()}, work_dir / 'last_checkpoint'
    if pointer.is_file() and (last := pointer.read_text(encoding='utf-8').strip()):
        folders.add(Path(last).parent.absolute())
    paths = [path for folder in folders if folder.is_dir() for path in folder.iterdir()
             if _PERIODIC.fullmatch(path.name) and path.is_dir() == (path.suffix == SHARDED)]
    paths.sort(key=lambda path: (path.stat().st_mtime_ns, int(_PERIODIC.fullmatch(path.name)[1])), reverse=True)
    for path in paths:
        if (problem := what_is_wrong(path)) is None:
            return path
        print_log(f'Skipping checkpoint {path}: {problem}', logger='current', level=logging.WARNING)
    if paths:
        raise CheckpointError(f'all {len(paths)} checkpoints in {work_dir} are damaged. Move them away to start from '
                              'the beginning, or name another one with --resume PATH.')
    return None
