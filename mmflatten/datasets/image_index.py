"""Memory-mapped index of a large image data set. Opening it reads no rows."""

import errno
import json
import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from mmflatten.untrusted.files import open_regular
from mmflatten.untrusted.json_files import read_json

FORMAT = 2
# End of the name in `names.bin` and label; for members of shards also the shard and the byte range
# in it.
_FILE = np.dtype([('name_end', '<u8'), ('label', '<i4')])
_MEMBER = np.dtype([*_FILE.descr, ('shard', '<u4'), ('offset', '<u8'), ('size', '<u4')])
_IN_FOLDER = b'\0'  # replaces the folder of the label at the beginning of a name


class ImageIndexError(RuntimeError):
    """Index that is missing or damaged, or does not match the config."""


def is_below(name: str) -> bool:
    """Return True if a name in an index stays below the root of its data set, and names no other
    protocol.
    """
    if '::' in name or '://' in name:
        return False
    return not name.startswith('/') and '..' not in name.split('/')


class Entry(NamedTuple):
    """Name and label of an image; for a member of a shard also the number of the shard and the byte
    range in it.
    """

    name: str
    label: int
    shard: int = 0
    offset: int = 0
    size: int = 0


class About(TypedDict):
    """Fields of `index.json`."""

    format: int
    images: int
    shards: list[str]
    classes: list[str]
    folders: dict[str, str]  # label -> folder


class ImageIndex:
    """Names, labels and byte ranges of images, by number.

    `rows.bin` has a fixed-width row per image, `names.bin` the concatenated names, `index.json` the
    number of images, the names of shards and classes, and the folder of each label. The two binary
    files are memory-mapped, so processes share their pages. Pickling stores the path only.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            about = read_json(self.folder / 'index.json', About, tuple(About.__annotations__))
            if not about:
                raise FileNotFoundError(errno.ENOENT, 'no such file', 'index.json')
            self.shards, self.classes = about['shards'], tuple(about['classes'])
            self.folders = {
                int(label): os.fsencode(folder) for label, folder in about['folders'].items()
            }
            row = _MEMBER if self.shards else _FILE
            self.rows = _mapped(self.folder / 'rows.bin', row)
            self.names = _mapped(self.folder / 'names.bin', np.uint8)
            sizes = about['images'], self.rows[-1]['name_end']
            usable = about['format'] == FORMAT and all(map(is_below, self.shards))
            if (len(self.rows), len(self.names)) != sizes or not usable:
                raise ValueError(
                    f'{len(self.rows)} rows, {len(self.names)} bytes of names, format'
                    f' {about["format"]}, {about["images"]} images and shards {self.shards[:1]}'
                )
        except FileNotFoundError as error:
            raise ImageIndexError(
                f'index {self.folder}: {Path(error.filename).name} does not exist. Create the index'
                ' with `mmflatten data index`.'
            ) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ImageIndexError(
                f'index {self.folder} is damaged or has another version ({error}). Create it again.'
            ) from error

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Entry:
        row = self.rows[number]
        start = int(self.rows[number - 1]['name_end']) if number else 0
        name, place = self.names[start : row['name_end']].tobytes(), row.item()[1:]
        if name.startswith(_IN_FOLDER):
            if place[0] not in self.folders:
                raise ImageIndexError(
                    f'index {self.folder}: index.json: folders: expected that of label {place[0]}, '
                    'which an image names, got none. Create the index again.'
                )
            name = self.folders[place[0]] + b'/' + name[len(_IN_FOLDER) :]
        return Entry(os.fsdecode(name), *place)

    def __reduce__(self) -> tuple:
        return ImageIndex, (self.folder,)


def _mapped(path: Path, kind: npt.DTypeLike) -> np.ndarray:
    """Memory-map a regular file."""
    with open_regular(path) as file:
        return np.memmap(file, kind, 'r').view(np.ndarray)


def write_index(
    folder: Path, entries: Iterable[Entry], classes: Sequence[str], shards: Sequence[str] = ()
) -> int:
    """Write an index into a folder, entry by entry, and return the number of images.

    Args:
        classes: class names in the order of the labels; empty if unknown.
        shards: names of the shards, relative to the root of the data set; empty if every image is a
            file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folders: dict[int, str] = {}
    row = struct.Struct('<QiIQI' if shards else '<Qi')
    end = images = 0
    with open(folder / 'names.bin', 'wb') as names, open(folder / 'rows.bin', 'wb') as rows:
        for name, *place in entries:
            parent, _, file = name.rpartition('/')
            known = folders.setdefault(place[0], parent) if parent else None
            stored = os.fsencode(name)
            if parent and known == parent:
                stored = _IN_FOLDER + os.fsencode(file)
            end += names.write(stored)
            try:
                rows.write(row.pack(end, *(place if shards else place[:1])))
            except struct.error as error:
                where = f'{shards[place[1]]}: {name}' if shards else name
                raise ValueError(
                    f'{where}: cannot be indexed with label {place[0]}. Labels must be below 2**31 '
                    f'({2**31}), an image below 4 GiB.'
                ) from error
            images += 1
    if not images:
        raise ValueError(
            'source: no images found. Expected images in class folders, in a list (.txt) or in tar'
            ' files.'
        )
    about = dict(
        format=FORMAT, images=images, shards=list(shards), classes=list(classes), folders=folders
    )
    (folder / 'index.json').write_text(json.dumps(about) + '\n', encoding='utf-8')
    return images
