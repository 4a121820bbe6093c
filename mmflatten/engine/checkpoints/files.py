"""Checkpoints as files: written aside and renamed, checked before they are trusted, the newest whole one found."""
import contextlib
import logging
import os
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

from mmengine.logging import print_log

from mmflatten.checkpoints.files import SAFETENSORS
from mmflatten.engine.checkpoints.pieces import REST, SHARDED, damaged_piece
from mmflatten.errors import OUT_OF_SPACE, space_hint

LAST_CHECKPOINT = 'last_checkpoint'
_PART_SUFFIX = '.part'
_PERIODIC = re.compile(r'(?:epoch|iter)_(\d+)\.(?:pth|sharded)')
_ZIP_MAGIC = b'PK'
_PICKLE_MAGIC = b'\x80'


class CheckpointError(RuntimeError):
    """A checkpoint that is missing, damaged or made for another model."""


class CheckpointWriteError(OSError):
    """A checkpoint could not be written; what was there before is untouched."""

    def __str__(self) -> str:
        return self.strerror


@contextlib.contextmanager
def written_aside(path: str | Path) -> Iterator[Path]:
    """Give a hidden file or folder beside `path` to write; whole and flushed to the disk, it takes the name `path`.

    So `path` shows either the old content or the new, also after a power cut; a folder that is written over is not
    there in between. Whatever goes wrong leaves it as it was.

    Raises:
        CheckpointWriteError: it cannot be written; where room is missing, says how much is free.
    """
    path = Path(path)
    aside, outdated = aside_of(path), path.with_name(f'.{path.name}.old{_PART_SUFFIX}')
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield aside
        _sync(aside)
        if path.is_dir():
            os.replace(path, outdated)
        os.replace(aside, path)
        _remove(outdated)
        _sync_folder(path.parent)
    except OSError as error:
        hint = f'; {space_hint(error.errno, path)}' if error.errno in OUT_OF_SPACE else ''
        raise CheckpointWriteError(error.errno, f'cannot write {path}: {error.strerror or error}{hint}') from error
    finally:
        _remove(aside)


def aside_of(path: Path) -> Path:
    """What `written_aside` gives to write for `path`."""
    return path.with_name(f'.{path.name}{_PART_SUFFIX}')


def remove_leftovers(folder: str | Path) -> None:
    """Delete what a killed process had begun to write in `folder`."""
    for aside in Path(folder).glob(f'.*{_PART_SUFFIX}'):
        _remove(aside)


def what_is_wrong(path: str | Path) -> str | None:
    """Read a checkpoint through and say what is damaged; None when it is whole.

    PyTorch's files are zip archives with a checksum per tensor, so a cut or a flipped bit is found without unpickling
    anything. Files in the older format carry no checksum and pass if they begin as a pickle does.
    """
    path = Path(path)
    if path.is_dir():
        return _folder_problem(path)
    if path.suffix == SAFETENSORS:
        return _safetensors_problem(path)
    with open(path, 'rb') as file:
        start = file.read(2)
    if start[:1] == _PICKLE_MAGIC:
        return None
    if start != _ZIP_MAGIC:
        return 'it is empty' if not start else 'it is no PyTorch checkpoint'
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except zipfile.BadZipFile:
        return f'it is truncated ({path.stat().st_size} bytes are there)'
    return None if damaged is None else f'its part {damaged} is damaged'


def _folder_problem(folder: Path) -> str | None:
    if not (folder / REST).is_file():
        return f'it has no {REST}'
    if (problem := what_is_wrong(folder / REST)) is not None:
        return f'of its {REST}, {problem}'
    damaged = damaged_piece(folder)
    return None if damaged is None else f'its part {damaged} is missing or damaged'


def _safetensors_problem(path: Path) -> str | None:
    """The format has no checksums; its header tells the length that the file must have."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, 'pt'):
            return None
    except SafetensorError as error:
        return f'it is no whole safetensors file ({error})'


def require_whole(path: str | Path) -> None:
    """Raise CheckpointError when the file is missing or damaged; addresses with a scheme are left to MMEngine."""
    if '://' in str(path):
        return
    if Path(path).is_dir() and Path(path).suffix != SHARDED:
        raise CheckpointError(f'checkpoint {path} is a folder; name a file in it')
    if not Path(path).exists():
        raise CheckpointError(f'checkpoint {path} does not exist; check the path')
    if (problem := what_is_wrong(path)) is not None:
        raise CheckpointError(f'checkpoint {path} cannot be read: {problem}; copy or download it again, or use another')


def newest_checkpoint(work_dir: str | Path) -> Path | None:
    """Find the newest whole checkpoint of a run, passing over damaged ones with a warning.

    Looks at `epoch_*` and `iter_*`, files and folders of pieces, in `work_dir` and in the folder that its
    `last_checkpoint` file points to, newest by modification time first. None when the run has saved none yet.

    Raises:
        CheckpointError: there are checkpoints, and none is whole. Training is not restarted behind the user's back.
    """
    found = _periodic_checkpoints(Path(work_dir))
    for path in found:
        if (problem := what_is_wrong(path)) is None:
            return path
        print_log(f'Passing over checkpoint {path}: {problem}', logger='current', level=logging.WARNING)
    if found:
        raise CheckpointError(
            f'none of the {len(found)} checkpoints in {work_dir} is whole; move them away to start from the beginning, '
            'or name another one with --resume PATH')
    return None


def _periodic_checkpoints(work_dir: Path) -> list[Path]:
    folders = {work_dir.absolute()}
    pointer = work_dir / LAST_CHECKPOINT
    if pointer.is_file() and (last := pointer.read_text(encoding='utf-8').strip()):
        folders.add(Path(last).parent.absolute())
    paths = [path for folder in folders if folder.is_dir() for path in folder.iterdir()
             if _PERIODIC.fullmatch(path.name) and path.is_dir() == (path.suffix == SHARDED)]
    return sorted(paths, key=lambda path: (path.stat().st_mtime_ns, int(_PERIODIC.fullmatch(path.name)[1])),
                  reverse=True)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()


def _sync(path: Path) -> None:
    for part in path.iterdir() if path.is_dir() else [path]:
        with open(part, 'rb') as file:
            os.fsync(file.fileno())
    if path.is_dir():
        _sync_folder(path)


def _sync_folder(folder: Path) -> None:
    """Make the renaming itself last; file systems that cannot sync a folder do it on their own."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
