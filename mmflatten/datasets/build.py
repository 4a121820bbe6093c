"""Builds a data set in a folder of its own, all or nothing, and knows a finished one again."""
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

SPLITS = ('train', 'val')
MANIFEST = 'dataset.json'
FORMAT = 1  # raised when the same parameters give other files than before
MAX_IMAGES = 999_999


@dataclass(frozen=True)
class BuildOptions:
    """What is made: images per split. Raises ValueError on a number outside of its ``limits``."""

    limits: ClassVar[dict[str, tuple[int, int]]] = dict(train=(1, MAX_IMAGES), val=(1, MAX_IMAGES))

    train: int
    val: int

    def __post_init__(self) -> None:
        for name, (low, high) in self.limits.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f'{name} must be between {low} and {high}, got {value}')


WriteSplit = Callable[[Path, str, Any, Callable[[], Any]], int]


def read_manifest(folder: Path, kind: str) -> dict[str, Any] | None:
    """The manifest of a finished data set of this kind, or None where there is none."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding='ascii'))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) and manifest.get('name') == kind else None


def content_hash(folder: Path) -> str:
    """SHA-256 over the names and bytes of all files but the manifest."""
    digest = hashlib.sha256()
    files = sorted(path for path in folder.rglob('*') if path.is_file() and path != folder / MANIFEST)
    for path in files:
        digest.update(path.relative_to(folder).as_posix().encode() + b'\0')
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def is_finished(folder: Path, kind: str, options: BuildOptions, force: bool = False) -> bool:
    """Whether ``folder`` already holds exactly this data set, unchanged; False where it is free to be written.

    Raises FileExistsError where it holds anything else; ``force`` allows to replace a data set of this kind, no more.
    """
    for path in (folder, *folder.parents):
        if path.is_file():
            raise FileExistsError(f'out ({folder}): {path} is a file; name a folder')
    if not folder.exists() or not any(folder.iterdir()):
        return False
    manifest = read_manifest(folder, kind)
    if manifest is None:
        raise FileExistsError(f'out ({folder}) holds something that is not {kind}; name another folder')
    if force:
        return False
    wanted = dict(asdict(options), format=FORMAT)
    found = dict(manifest.get('options', {}), format=manifest.get('format'))
    if found != wanted:
        raise FileExistsError(f'out ({folder}) holds {kind} made with {_spell(found)}, not with '
                              f'{_spell(wanted)}; name another folder, or replace them with --force')
    if content_hash(folder) != manifest.get('sha256'):
        raise FileExistsError(f'out ({folder}) holds {kind} that were changed or damaged after they were made; '
                              'make them again with --force')
    return True


def build(out: Path, kind: str, options: BuildOptions, write_split: WriteSplit, draw_sheet: Callable[[Path], Any],
          force: bool = False, on_image: Callable[[], Any] = lambda: None) -> dict[str, Any]:
    """Build a data set, whatever its layout, and return its manifest.

    ``kind`` is its name in the manifest and in messages, as 'digit scenes'. ``write_split(folder, split, options,
    on_image)`` writes a split and returns the number of its objects; ``draw_sheet`` draws the whole. The folder is
    written aside and renamed, so an interrupted run leaves ``out`` as it was. The same options give the same bytes.
    """
    out = Path(os.path.abspath(out))
    if is_finished(out, kind, options, force):
        return read_manifest(out, kind)
    with atomic_folder(out) as folder:
        counts = {split: write_split(folder, split, options, on_image) for split in SPLITS}
        draw_sheet(folder)
        manifest = dict(
            name=kind,
            format=FORMAT,
            options=asdict(options),
            scenes={split: getattr(options, split) for split in SPLITS},
            instances=counts,
            sha256=content_hash(folder))
        (folder / MANIFEST).write_text(json.dumps(manifest, sort_keys=True, indent=2) + '\n', encoding='ascii')
    return manifest


@contextmanager
def atomic_folder(out: Path) -> Iterator[Path]:
    """A fresh folder beside ``out`` that takes its place at the end, and disappears when anything goes wrong."""
    out.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(out)
    partial = out.with_name(f'.{out.name}.partial-{os.getpid()}')
    replaced = out.with_name(f'.{out.name}.replaced-{os.getpid()}')
    try:
        partial.mkdir()
        yield partial
        if out.exists():
            out.rename(replaced)
        partial.rename(out)
    finally:
        if replaced.exists() and not out.exists():
            replaced.rename(out)
        for rest in (partial, replaced):
            shutil.rmtree(rest, ignore_errors=True)


def _remove_abandoned(out: Path) -> None:
    """Delete what runs that were killed outright left beside ``out``."""
    for rest in out.parent.glob(f'.{out.name}.partial-*'):
        process = rest.name.rpartition('-')[2]
        if process.isdigit() and not Path('/proc', process).exists() and Path('/proc/self').exists():
            shutil.rmtree(rest, ignore_errors=True)


def _spell(options: dict[str, Any]) -> str:
    return ' '.join(f'{name}={value}' for name, value in sorted(options.items()))
