"""Building a data set in a folder: written completely or not at all, and recognised when it exists
already.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mmflatten.checkpoints.run_files import atomic_write
from mmflatten.untrusted.files import DamagedFile, read_bytes
from mmflatten.untrusted.json_files import read_json

SPLITS = ('train', 'val')
MANIFEST = 'dataset.json'
BUILD_VERSION = 1  # increased when the same options give other files than before
LIMITS = dict(train=(1, 999_999), val=(1, 999_999), size=(32, 1024), seed=(0, 2**32 - 1))


@dataclass(frozen=True)
class BuildOptions:
    """Number of images per split. Raises ValueError for an option outside of `LIMITS`."""

    train: int
    val: int

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            low, high = LIMITS.get(name, (value, value))
            if not low <= value <= high:
                raise ValueError(f'{name} must be between {low} and {high}, got {value}')


def content_hash(folder: Path) -> str:
    """Compute the SHA-256 over names and bytes of all files except the manifest."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob('*')):
        if not path.is_file() or path == folder / MANIFEST:
            continue
        digest.update(path.relative_to(folder).as_posix().encode() + b'\0')
        digest.update(hashlib.sha256(read_bytes(path)).digest())
    return digest.hexdigest()


def is_finished(folder: Path, kind: str, options: BuildOptions, force: bool = False) -> bool:
    """Return True if `folder` contains exactly this data set, False if it may be written.

    Raises FileExistsError if it contains something else. `force` allows replacing a data set of
    this kind.
    """
    for path in (folder, *folder.parents):
        if path.is_file():
            raise FileExistsError(f'out ({folder}): {path} is a file. Choose a folder.')
    if not folder.exists() or not any(folder.iterdir()):
        return False
    try:
        manifest = read_json(folder / MANIFEST)
    except DamagedFile:
        manifest = {}
    if manifest.get('name') != kind:
        raise FileExistsError(
            f'out ({folder}): the folder contains other files than {kind}. Choose another folder.'
        )
    if force:
        return False
    existing = _describe(manifest.get('options', {}), manifest.get('format'))
    requested = _describe(asdict(options), BUILD_VERSION)
    if existing != requested:
        raise FileExistsError(
            f'out ({folder}): {kind} exist with {existing}, but {requested} were requested. Choose '
            'another folder, or replace them with --force.'
        )
    if content_hash(folder) != manifest.get('sha256'):
        raise FileExistsError(
            f'out ({folder}): the {kind} were changed or damaged. Build them again with --force.'
        )
    return True


def _describe(options: dict[str, Any], version: Any) -> str:
    fields = sorted(dict(options, format=version).items())
    return ' '.join(f'{name}={value}' for name, value in fields)


def build(
    out: Path,
    kind: str,
    options: BuildOptions,
    write_split: Callable[[Path, str], Iterator[int]],
    force: bool = False,
    on_image: Callable[[], Any] = lambda: None,
) -> dict[str, Any]:
    """Build a data set in any layout and return its manifest. The same options give the same bytes.

    Args:
        kind: name in the manifest and in messages, such as 'digit scenes'.
        write_split: writes a split into a folder and yields the number of objects in each image.
    """
    out = Path(os.path.abspath(out))
    if is_finished(out, kind=kind, options=options, force=force):
        return read_json(out / MANIFEST)
    objects = dict.fromkeys(SPLITS, 0)
    with atomic_write(out) as folder:
        folder.mkdir()
        for split in SPLITS:
            for number in write_split(folder, split):
                objects[split] += number
                on_image()
        manifest = dict(
            name=kind,
            format=BUILD_VERSION,
            options=asdict(options),
            instances=objects,
            scenes={split: getattr(options, split) for split in SPLITS},
            sha256=content_hash(folder),
        )
        text = json.dumps(manifest, sort_keys=True, indent=2) + '\n'
        (folder / MANIFEST).write_text(text, encoding='ascii')
    return manifest
