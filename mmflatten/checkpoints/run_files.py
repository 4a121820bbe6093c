"""Output files: written atomically, by one process per folder. Checkpoints: checked, and the newest
one of a run.
"""

import contextlib
import glob
import logging
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mmengine.logging import print_log

from mmflatten.checkpoints.converted_files import SAFETENSORS, read_safetensors
from mmflatten.console import OUT_OF_SPACE, space_hint
from mmflatten.locks import folder_lock, process_lock
from mmflatten.untrusted.files import open_regular, problem_of, read_bytes
from mmflatten.untrusted.torch_file import MAX_BYTES, ZIP, require_whole_archive

_PARTIAL = '.part'  # name of a folder of partial files, or the end of its name
_PICKLE = b'\x80'  # first byte of a pickle, PyTorch's format before 1.6
_PERIODIC = re.compile(r'(?:epoch|iter)_(\d+)\.pth')


class CheckpointError(RuntimeError):
    """A checkpoint is missing, damaged or belongs to another model."""


class FolderInUseError(RuntimeError):
    """Another process writes into a folder."""


class CheckpointWriteError(OSError):
    """A file could not be written. The previous content of the path is unchanged."""

    def __str__(self) -> str:
        return str(self.strerror)


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield the path of a new file or folder to write; on success it is flushed and takes the place
    of `path`.

    `path` therefore holds either the old content or the new, also after a power cut. (A folder that
    replaces another is absent for a moment.) Each call writes in a hidden folder of its own,
    `.NAME.*.part` beside `path`. It is deleted at the end, and that of a process that was killed by
    the next call for the same path.

    Raises:
        CheckpointWriteError: writing failed. If the disk is full, the message gives the free space.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent, path.name)
        with _own_folder(path) as folder:
            partial = folder / path.name
            yield partial
            for part in partial.iterdir() if partial.is_dir() else [partial]:
                if not part.is_dir():
                    _flush(part)
            if path.is_dir():
                os.replace(path, folder / 'outdated')
            os.replace(partial, path)
            with contextlib.suppress(OSError):  # some file systems cannot flush a folder
                _flush(path.parent)
    except OSError as error:
        hint = f'; {space_hint(error.errno, path)}' if error.errno in OUT_OF_SPACE else ''
        raise CheckpointWriteError(
            error.errno, f'cannot write {path}: {error.strerror or error}{hint}'
        ) from error


def _flush(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, are on the disk."""
    # Windows flushes files that are open for writing.
    descriptor = os.open(path, os.O_RDWR if os.name == 'nt' else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: str | Path, name: str | None = None) -> None:
    """Delete what killed processes left in `folder`, while they wrote the file `name` or any
    other. Nothing is deleted where folders cannot be locked.
    """
    written = '*' if name is None else glob.escape(name)
    for partial in Path(folder).glob(f'.{written}.*{_PARTIAL}'):
        # Another process that is writing holds the lock.
        with contextlib.suppress(OSError), folder_lock(partial) as is_locked:
            if is_locked:
                shutil.rmtree(partial)


@contextlib.contextmanager
def _own_folder(path: Path) -> Iterator[Path]:
    with contextlib.ExitStack() as stack:
        while True:
            folder = tempfile.mkdtemp(_PARTIAL, f'.{path.name}.', path.parent)
            # Another process that calls `remove_leftovers` may lock or delete the new folder.
            with contextlib.suppress(BlockingIOError, FileNotFoundError):
                stack.enter_context(folder_lock(folder))
                os.stat(folder)
                break
        stack.callback(shutil.rmtree, folder)
        yield Path(folder)


def partial_file(path: Path) -> Path:
    """Return where to write a file that takes the place of `path` by `os.replace`, in a hidden
    folder beside it.

    It is for many small files: unlike `atomic_write`, nothing is flushed, so that a power cut can
    damage the last ones. `remove_partial_files` deletes the folder, with what a killed process left
    in it.
    """
    folder = path.parent / _PARTIAL
    folder.mkdir(exist_ok=True)
    return folder / path.name


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield the `partial_file` of a path, which takes its place on success and is deleted on
    failure.
    """
    partial = partial_file(path)
    try:
        yield partial
        os.replace(partial, path)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            # The message names the final path. An error of writing has no file name at all.
            if error.filename is None or str(error.filename) == str(partial):
                error.filename = str(path)
        raise


def remove_partial_files(folder: Path) -> None:
    """Delete the folder of `partial_file` in a folder."""
    shutil.rmtree(folder / _PARTIAL, ignore_errors=True)


@contextlib.contextmanager
def only_process(folder: str | Path, activity: str, option: str) -> Iterator[None]:
    """Keep other processes from the same activity in a folder, where the files of both would mix.

    Args:
        activity: what the process does there, in one word. It names the lock file.
        option: command-line option of the folder, for the message.

    Raises:
        FolderInUseError: another process works there. The message names it.
    """
    path = Path(folder, f'.{activity}')
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and (problem := problem_of(path)) is not None:
        raise FolderInUseError(f'{option} {folder}: {path} {problem}. Remove it.')
    while True:
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(open(path, 'a+', encoding='utf-8'))
            try:
                stack.enter_context(process_lock(file, path))
            except BlockingIOError as error:
                file.seek(0)
                holder = file.read(200)
                raise FolderInUseError(
                    f'{option} {folder}: in use by {holder} ({activity}). Stop it, or choose '
                    f'another folder with {option}.'
                ) from error
            if not _is_same_file(file.fileno(), path):
                continue  # the other process deleted it before the lock
            try:
                file.truncate(0)
                file.write(f'process {os.getpid()} of {socket.gethostname()}')
                file.flush()
                yield
            finally:
                with contextlib.suppress(PermissionError):  # Windows keeps open files
                    path.unlink(missing_ok=True)
            return


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def what_is_wrong(path: str | Path) -> str | None:
    """Read a checkpoint and describe its damage; None if it is complete.

    PyTorch's files are zip archives with a checksum per tensor, so truncation and flipped bits are
    detected without unpickling. Files in the older format and safetensors have no checksums.
    """
    path = Path(path)
    if (problem := problem_of(path, MAX_BYTES)) is not None:
        return f'it {problem}'
    if path.suffix == SAFETENSORS:
        return _damage_of_safetensors(path)
    try:
        with open_regular(path, MAX_BYTES) as file:
            start = file.read(len(ZIP))
            if start == ZIP:
                require_whole_archive(file)
                return None
    except Exception as error:  # wrong headers can fail anywhere in the readers
        return f'it is damaged: {str(error)[:200]}'
    if not start:
        return 'it is empty'
    return None if start.startswith(_PICKLE) else 'it is not a PyTorch checkpoint'


def _damage_of_safetensors(path: Path) -> str | None:
    try:
        read_safetensors(path)
    except Exception as error:
        text = ' '.join(str(error)[:500].split())[:200]
        return f'it is incomplete ({type(error).__name__}: {text})'
    return None


def require_whole(path: str | Path) -> None:
    """Raise CheckpointError if a checkpoint that is not loaded yet is missing or damaged; addresses
    are not checked.
    """
    if '://' in str(path):
        return
    if not os.path.lexists(path):
        raise CheckpointError(f'checkpoint {path} does not exist. Check the path.')
    if (problem := what_is_wrong(path)) is not None:
        raise CheckpointError(f'checkpoint {path} cannot be read: {problem}. Name a complete file.')


def newest_checkpoint(work_dir: str | Path) -> Path | None:
    """Return the newest complete checkpoint of a run, or None if there are no checkpoints.

    The first candidate is the one that the file `last_checkpoint` names: in `work_dir`, which may
    have been moved, or at its own path. Then come all `epoch_*` and `iter_*` in these two folders,
    newest modification time first. Damaged ones are skipped with a warning.

    Raises:
        CheckpointError: every checkpoint is damaged. Training would silently start again from the
            beginning.
    """
    work_dir = Path(work_dir).absolute()
    paths = _checkpoints_of(work_dir)
    for path in paths:
        problem = what_is_wrong(path)
        if problem is None:
            return path
        print_log(f'Skipping checkpoint {path}: {problem}', logger='current', level=logging.WARNING)
    if paths:
        raise CheckpointError(
            f'all {len(paths)} checkpoints in {work_dir} are damaged. Move them away to start from '
            'the beginning, or name another one with --resume PATH.'
        )
    return None


def _checkpoints_of(work_dir: Path) -> list[Path]:
    """Return the candidates of `newest_checkpoint` in its order."""
    pointer = work_dir / 'last_checkpoint'
    folders = {work_dir}
    paths: list[Path] = []
    if problem_of(pointer) is None:
        last = Path(read_bytes(pointer).decode(errors='replace')[:4096])
        folders.add(last.parent.absolute())
        named = [path for path in (work_dir / last.name, last.absolute()) if path.is_file()]
        paths = named[:1]
    periodic = []
    for folder in folders:
        if folder.is_dir():
            periodic += _periodic_checkpoints(folder)
    for *_, path in sorted(periodic, reverse=True):
        if path not in paths:
            paths.append(path)
    return paths


def _periodic_checkpoints(folder: Path) -> list[tuple[int, int, Path]]:
    """Return modification time, number and path of each `epoch_*` and `iter_*` of a folder."""
    found = []
    for path in folder.iterdir():
        match = _PERIODIC.fullmatch(path.name)
        if match is not None and path.is_file():
            found.append((path.stat().st_mtime_ns, int(match[1]), path))
    return found
