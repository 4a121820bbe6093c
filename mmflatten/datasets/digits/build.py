"""Builds the digit scenes in a folder of their own, all or nothing, and knows a finished one again."""
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .contact_sheet import draw_contact_sheet
from .layouts import SplitWriter
from .scene import sample_scene
from .sources import SPLITS, load_glyphs, load_photographs

MANIFEST = 'dataset.json'
FORMAT = 1  # raised when the same parameters give other files than before
SIZE_LIMITS = (32, 1024)
WriteSplit = Callable[[Path, str, Any, Callable[[], Any]], int]
MAX_SCENES = 999_999


@dataclass(frozen=True)
class DigitSceneOptions:
    """What is made: scenes per split, side of a scene in pixels, and seed. Raises ValueError on what can't be made."""

    train: int = 1000
    val: int = 200
    size: int = 160
    seed: int = 0

    def __post_init__(self) -> None:
        limits = dict(train=(1, MAX_SCENES), val=(1, MAX_SCENES), size=SIZE_LIMITS, seed=(0, 2**32 - 1))
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f'{name} must be between {low} and {high}, got {value}')


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a finished data set, or None where there is none."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding='ascii'))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) and manifest.get('name') == 'digit scenes' else None


def content_hash(folder: Path) -> str:
    """SHA-256 over the names and bytes of all files but the manifest."""
    digest = hashlib.sha256()
    files = sorted(path for path in folder.rglob('*') if path.is_file() and path != folder / MANIFEST)
    for path in files:
        digest.update(path.relative_to(folder).as_posix().encode() + b'\0')
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def is_finished(folder: Path, options: DigitSceneOptions, force: bool = False) -> bool:
    """Whether ``folder`` already holds exactly this data set, unchanged; False where it is free to be written.

    Raises FileExistsError where it holds anything else; ``force`` allows to replace digit scenes, nothing more.
    """
    for path in (folder, *folder.parents):
        if path.is_file():
            raise FileExistsError(f'out ({folder}): {path} is a file; name a folder')
    if not folder.exists() or not any(folder.iterdir()):
        return False
    manifest = read_manifest(folder)
    if manifest is None:
        raise FileExistsError(f'out ({folder}) holds something that is not digit scenes; name another folder')
    if force:
        return False
    wanted = dict(asdict(options), format=FORMAT)
    found = dict(manifest.get('options', {}), format=manifest.get('format'))
    if found != wanted:
        raise FileExistsError(f'out ({folder}) holds digit scenes made with {_spell(found)}, not with '
                              f'{_spell(wanted)}; name another folder, or replace them with --force')
    if content_hash(folder) != manifest.get('sha256'):
        raise FileExistsError(f'out ({folder}) holds digit scenes that were changed or damaged after they were made; '
                              'make them again with --force')
    return True


def build_digit_scenes(out: Path, options: DigitSceneOptions, force: bool = False,
                       on_scene: Callable[[], Any] = lambda: None) -> dict[str, Any]:
    """Write the scenes to ``out`` in all layouts and return the manifest; ``on_scene`` is called after each scene.

    The folder is written aside and renamed, so an interrupted run leaves ``out`` as it was. The same options give the
    same bytes, and a scene does not depend on how many others there are.
    """
    return build_scenes(out, options, _write_split, draw_contact_sheet, force, on_scene)


def build_scenes(out: Path, options: DigitSceneOptions, write_split: WriteSplit, draw_sheet: Callable[[Path], Any],
                 force: bool, on_scene: Callable[[], Any]) -> dict[str, Any]:
    """Build a data set of scenes, whatever its layout: ``write_split`` writes a split, ``draw_sheet`` draws the whole.

    ``write_split(folder, split, options, on_scene)`` returns the number of digits that it wrote.
    """
    out = Path(os.path.abspath(out))
    if is_finished(out, options, force):
        return read_manifest(out)
    with _written_aside(out) as folder:
        counts = {split: write_split(folder, split, options, on_scene) for split in SPLITS}
        draw_sheet(folder)
        manifest = dict(
            name='digit scenes',
            format=FORMAT,
            options=asdict(options),
            scenes={split: getattr(options, split) for split in SPLITS},
            instances=counts,
            sha256=content_hash(folder))
        (folder / MANIFEST).write_text(json.dumps(manifest, sort_keys=True, indent=2) + '\n', encoding='ascii')
    return manifest


def _write_split(folder: Path, split: str, options: DigitSceneOptions, on_scene: Callable[[], Any]) -> int:
    """Write one split; returns its number of digits."""
    glyphs, photographs = load_glyphs(split), load_photographs(split)
    writer = SplitWriter(folder, split)
    for number in range(getattr(options, split)):
        rng = np.random.default_rng([options.seed, SPLITS.index(split), number])
        writer.add(sample_scene(rng, glyphs, photographs, options.size))
        on_scene()
    writer.close()
    return len(writer.annotations)


@contextmanager
def _written_aside(out: Path) -> Iterator[Path]:
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
