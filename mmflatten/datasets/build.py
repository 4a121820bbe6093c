"""Building a data set in a folder: written completely or not at all, and recognised when it exists already."""
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
BUILD_VERSION = 1  # increased when the same options give other files than before
MAX_IMAGES = 999_999


@dataclass(frozen=True)
class BuildOptions:
    """Number of images per split. Raises ValueError for a value outside `limits`."""

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
    """Read the manifest of a finished data set of this kind; None if there is none."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding='ascii'))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) and manifest.get('name') == kind else None


def content_hash(folder: Path) -> str:
    """Compute the SHA-256 over names and bytes of all files except the manifest."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob('*') if path.is_file() and path != folder / MANIFEST):
        digest.update(path.relative_to(folder).as_posix().encode() + b'\0')
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def is_finished(folder: Path, kind: str, options: BuildOptions, force: bool = False) -> bool:
    """Return True if `folder` contains exactly this data set, False if it may be written.

    Raises:
        FileExistsError: the folder contains something else. `force` allows replacing a data set of this kind.
    """
    for path in (folder, *folder.parents):
        if path.is_file():
            raise FileExistsError(f'out ({folder}): {path} is a file. Choose a folder.')
    if not folder.exists() or not any(folder.iterdir()):
        return False
    manifest = read_manifest(folder, kind)
    if manifest is None:
        raise FileExistsError(f'out ({folder}): the folder contains other files than {kind}. Choose another folder.')
    if force:
        return False
    requested = dict(asdict(options), format=BUILD_VERSION)
    existing = dict(manifest.get('options', {}), format=manifest.get('format'))
    if existing != requested:
        raise FileExistsError(f'out ({folder}): {kind} exist with {_format(existing)}, but {_format(requested)} were '
                              'requested. Choose another folder, or replace them with --force.')
    if content_hash(folder) != manifest.get('sha256'):
        raise FileExistsError(f'out ({folder}): the {kind} were changed or damaged. Build them again with --force.')
    return True


def build(out: Path, kind: str, options: BuildOptions, write_split: WriteSplit, draw_sheet: Callable[[Path], Any],
          force: bool = False, on_image: Callable[[], Any] = lambda: None) -> dict[str, Any]:
    """Build a data set in any layout and return its manifest. The same options give the same bytes.

    Args:
        kind: name in the manifest and in messages, such as 'digit scenes'.
        write_split: writes a split, given folder, split, options and `on_image`; returns its number of objects.
        draw_sheet: draws the contact sheet, given the folder.
        on_image: called after each image.
    """
    out = Path(os.path.abspath(out))
    if is_finished(out, kind, options, force):
        return read_manifest(out, kind)
    with atomic_folder(out) as folder:
        counts = {split: write_split(folder, split, options, on_image) for split in SPLITS}
        draw_sheet(folder)
        manifest = dict(
            name=kind,
            format=BUILD_VERSION,
            options=asdict(options),
            scenes={split: getattr(options, split) for split in SPLITS},
            instances=counts,
            sha256=content_hash(folder))
        (folder / MANIFEST).write_text(json.dumps(manifest, sort_keys=True, indent=2) + '\n', encoding='ascii')
    return manifest


@contextmanager
def atomic_folder(out: Path) -> Iterator[Path]:
    """Yield a new folder beside `out` that replaces it on success and is deleted on failure."""
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
        for folder in (partial, replaced):
            shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(out: Path) -> None:
    """Delete partial folders left beside `out` by killed processes."""
    for folder in out.parent.glob(f'.{out.name}.partial-*'):
        process = folder.name.rpartition('-')[2]
        if process.isdigit() and not Path('/proc', process).exists() and Path('/proc/self').exists():
            shutil.rmtree(folder, ignore_errors=True)


def _format(options: dict[str, Any]) -> str:
    return ' '.join(f'{name}={value}' for name, value in sorted(options.items()))
