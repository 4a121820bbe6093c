"""The list of a large data set as files that every process maps into memory: nothing is read when it is opened."""
import json
import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

FORMAT = 1
# End of the name in `names.bin`, label; for a member of a shard also the shard and its bytes in it.
_FILE = np.dtype([('name_end', '<u4'), ('label', '<i4')])
_MEMBER = np.dtype([*_FILE.descr, ('shard', '<u4'), ('offset', '<u8'), ('size', '<u4')])
_IN_FOLDER = b'\0'  # stands for the folder of the label, which most names begin with


class ImageIndexError(RuntimeError):
    """An index that is missing, damaged, or of other data than the config expects."""


class Entry(NamedTuple):
    """An image: its name, its label, and for a member of a shard the number of the shard and its bytes there."""

    name: str
    label: int
    shard: int = 0
    offset: int = 0
    size: int = 0


class ImageIndex:
    """Names and labels of images, and their places in shards, by number.

    `rows.bin` has a row of fixed width for each image, `names.bin` the names one behind the other, `index.json` the
    number of images, the names of shards and classes, and the folder of each label. The first two are mapped: opening
    reads no row, processes share the pages that they touch, and a copy for another process opens the files again.

    Raises:
        ImageIndexError: there is no index, or its files do not belong together.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            about = json.loads((self.folder / 'index.json').read_text(encoding='utf-8'))
            self.shards, self.classes = about['shards'], tuple(about['classes'])
            self.folders = {int(label): os.fsencode(folder) for label, folder in about['folders'].items()}
            self.rows = np.memmap(self.folder / 'rows.bin', _MEMBER if self.shards else _FILE, 'r').view(np.ndarray)
            self.names = np.memmap(self.folder / 'names.bin', np.uint8, 'r').view(np.ndarray)
        except FileNotFoundError as error:
            raise ImageIndexError(f'index {self.folder} does not exist or lacks {Path(error.filename).name}; make it '
                                  'with `mmflatten data shards` or `mmflatten data index`') from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._damaged(str(error)) from error
        if about.get('format') != FORMAT or len(self.rows) != about['images'] or (
                len(self.names) != self.rows[-1]['name_end']):
            raise self._damaged(f'{len(self.rows)} rows, {len(self.names)} bytes of names, format '
                                f'{about.get("format")} and {about.get("images")} images')

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Entry:
        row = self.rows[number]
        start = self.rows[number - 1]['name_end'] if number else 0
        name, place = self.names[start:row['name_end']].tobytes(), row.item()[1:]
        if name.startswith(_IN_FOLDER):
            name = self.folders[place[0]] + b'/' + name[len(_IN_FOLDER):]
        return Entry(os.fsdecode(name), *place)

    def __reduce__(self) -> tuple:
        return ImageIndex, (self.folder, )

    def _damaged(self, what: str) -> ImageIndexError:
        return ImageIndexError(f'index {self.folder} is damaged or of another version ({what}); make it again')


def write_index(folder: Path, entries: Iterable[Entry], classes: Sequence[str], shards: Sequence[str] = ()) -> int:
    """Write an index, entry by entry, into a folder and return the number of images. Names have 4 GiB at most.

    Args:
        classes: their names in the order of the labels; empty where they are not known.
        shards: names of the shard files, relative to the root of the data set. Empty: every image is a file.

    Raises:
        ValueError: there are no images, or a number is too large for a row.
    """
    row = struct.Struct('<IiIQI' if shards else '<Ii')
    end = images = 0
    folders: dict[int, str] = {}
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / 'names.bin', 'wb') as names, open(folder / 'rows.bin', 'wb') as rows:
        for name, *place in entries:
            parent, _, file = name.rpartition('/')
            same = parent and folders.setdefault(place[0], parent) == parent
            end += names.write(_IN_FOLDER + os.fsencode(file) if same else os.fsencode(name))
            try:
                rows.write(row.pack(end, *(place if shards else place[:1])))
            except struct.error as error:
                where = f'{shards[place[1]]}: {name}' if shards else name
                raise ValueError(f'{where} with the label {place[0]} cannot be listed: a label goes up to '
                                 f'{2**31 - 1}, an image and all names together to 4 GiB') from error
            images += 1
    if not images:
        raise ValueError(f'{folder}: there are no images to list')
    about = dict(format=FORMAT, images=images, shards=list(shards), classes=list(classes), folders=folders)
    (folder / 'index.json').write_text(json.dumps(about) + '\n', encoding='utf-8')
    return images
