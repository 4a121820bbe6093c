"""Images in LMDB files: each under its name, read from the mapped file without locks."""
from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any

_ORDER = b'.order'  # the names as they were written, where LMDB itself sorts them
_MAP_SIZE = 2**40  # of addresses; the file itself grows with its content
_MAX_OPEN = 256
_READERS: dict[tuple[int, int], LmdbReader] = {}  # by device and number of the file


def is_lmdb(path: str | Path) -> bool:
    """Whether a path names an LMDB: a file `train-000000.lmdb`, or a folder of that name with a `data.mdb`."""
    return str(path).endswith('.lmdb')


def opened_lmdb(path: str | Path) -> LmdbReader:
    """The reader of a file, which stays open; LMDB opens a file once, under whatever name it is asked for."""
    place = os.path.join(path, 'data.mdb') if os.path.isdir(path) else str(path)
    found = os.stat(place)
    key = found.st_dev, found.st_ino
    if key not in _READERS:
        if len(_READERS) == _MAX_OPEN:
            _READERS.pop(next(iter(_READERS))).close()
        _READERS[key] = LmdbReader(place)
    _READERS[key].path = place  # it may have been renamed
    return _READERS[key]


class LmdbReader:
    """A file to read from, which every process opens for itself, once it asks for something.

    Without locks: a file of images is not written to any more, and may lie where nobody may write. With the system's
    read-ahead: without it an image is fetched from a disk page by page, at a seventh of the speed.

    Raises:
        ImportError: the library is not installed.
        ValueError: it is no LMDB file, or has been cut off, which would end the process by a signal later on.
    """

    def __init__(self, path: str) -> None:
        self.path, self.process, self.environment = path, 0, None

    def get(self, name: str) -> bytes:
        """What lies under a name, empty where there is nothing."""
        return self._get(os.fsencode(name)) or b''

    def members(self) -> list[tuple[str, int, int]]:
        """Name, 0 and size of every entry, as they were written where that is known, and else sorted by name."""
        order = self._get(_ORDER)
        with self.environment.begin(buffers=True) as transaction:
            sizes = {bytes(key): len(value) for key, value in transaction.cursor()}
        return [(os.fsdecode(key), 0, sizes[key]) for key in (order.split(b'\0') if order else sizes)]

    def close(self) -> None:
        """Close the file until something is asked for again."""
        if self.environment is not None:
            self.environment.close()
        self.environment, self.process = None, 0

    def _get(self, key: bytes) -> bytes | None:
        if self.process != os.getpid():
            self.close()  # what a fork has left open: the library does not open a file twice
            self.environment, self.process = self._open(), os.getpid()
        with self.environment.begin() as transaction:
            return transaction.get(key)

    def _open(self) -> Any:
        lmdb = _library()
        try:
            found = lmdb.open(self.path, subdir=False, readonly=True, lock=False)
        except lmdb.Error as error:
            raise ValueError(f'{self.path} cannot be read as an LMDB ({error})') from error
        size, expected = os.path.getsize(self.path), (found.info()['last_pgno'] + 1) * found.stat()['psize']
        if size < expected:
            found.close()
            raise ValueError(f'{self.path} has {size} of its {expected} bytes; copy it again')
        return found


class LmdbWriter:
    """Writes a new file; a name has 511 bytes at most.

    Raises:
        ImportError: the library is not installed.
        OSError: the disk is full, or does not take the file for another reason.
        ValueError: a name is too long, or that of two images.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environment = _library().open(str(path), subdir=False, lock=False, sync=False, map_size=_MAP_SIZE)
        self.order: list[bytes] = []

    def write(self, name: str, content: bytes) -> None:
        key, limit = os.fsencode(name), self.environment.max_key_size()
        if len(key) > limit:
            raise ValueError(f'{name} has {len(key)} bytes and LMDB takes {limit} for a name; shorten it, or make tar '
                             'or zip files')
        self._put(key, content)
        self.order.append(key)

    def close(self) -> None:
        with self.environment:
            self._put(_ORDER, b'\0'.join(self.order))

    def _put(self, key: bytes, content: bytes) -> None:
        try:
            with self.environment.begin(write=True) as transaction:
                if not transaction.put(key, content, overwrite=False) and transaction.get(key) != content:
                    raise ValueError(f'{os.fsdecode(key)} is the name of two images; rename one, a point counts as _')
        except _library().Error as error:
            raise OSError(f'{self.path} cannot be written ({error})') from error


def _library() -> ModuleType:
    try:
        import lmdb
    except ImportError as error:
        raise ImportError(f"LMDB files require the package lmdb ({error}): pip install 'lmdb>=1.4'") from error
    return lmdb
