"""Where the bytes of an image lie: storage backends for MMEngine's `fileio`, which every loading step reads through.

Importing this module registers them, `shard` for paths that begin with `shard://`, and `fsspec` by its name.
"""
import os
import re
from functools import lru_cache
from io import FileIO
from pathlib import Path
from typing import Any

import cv2
import mmcv
import numpy as np
from mmengine.fileio import BaseStorageBackend, register_backend

from mmflatten.datasets.lmdb_files import is_lmdb, opened_lmdb

_MEMBER = re.compile(r'shard://([\w+.-]+)/(.*?)\?offset=(\d+)&size=(\d+)#(.*)', re.DOTALL)


class ShardError(RuntimeError):
    """A shard does not hold the bytes that its index says."""


def member_path(shard: str, offset: int, size: int, name: str) -> str:
    """The path of `size` bytes at `offset` of a shard, a file or an object such as `s3://bucket/train-000000.tar`.

    MMEngine knows a backend by what stands before the only `://`, so the shard's own becomes a folder: `shard://s3/...`
    or, for a file, `shard://file/...`. The name of the image stands behind, for whoever reads the path.
    """
    place = shard.replace('://', '/', 1) if '://' in shard else f'file/{shard}'
    return f'shard://{place}?offset={offset}&size={size}#{name}'


def read_rgb(path: str) -> np.ndarray:
    """An image (H, W, 3) of 0 to 255, from a file, a shard or an object.

    Raises:
        FileNotFoundError: a file is not there any more.
        ValueError: it is no image.
    """
    if '://' not in path and not Path(path).is_file():
        raise FileNotFoundError(f'image {path} does not exist here; start where the test was started')
    try:
        pixels = mmcv.imread(path)
    except cv2.error:  # an empty file, too many pixels
        pixels = None
    if pixels is None:
        raise ValueError(f'image {path} cannot be decoded; is it whole?')
    return mmcv.bgr2rgb(pixels)


@register_backend('fsspec')
class FsspecBackend(BaseStorageBackend):
    """Objects of any storage that fsspec knows, `s3://` with s3fs installed: `backend_args=dict(backend='fsspec')`.

    Args:
        **options: of fsspec's file system, such as `anon=True`. Keys and endpoints belong in fsspec's own
            configuration (files and variables of the environment), where no log repeats them.
    """

    def __init__(self, **options: Any) -> None:
        self.options = options

    def get(self, filepath: str, start: int | None = None, end: int | None = None) -> bytes:
        from fsspec.core import url_to_fs
        # fsspec keeps a file system for each process and thread; one of our own would not survive a fork.
        system, path = url_to_fs(str(filepath), **self.options)
        return system.cat_file(path, start, end)

    def get_text(self, filepath: str, encoding: str = 'utf-8') -> str:
        return self.get(filepath).decode(encoding)


@register_backend('shard', prefixes='shard')
class ShardBackend(BaseStorageBackend):
    """Bytes of a shard, from a file by one positioned read, from an object by one ranged request through fsspec.

    Positioned reads share no state, so processes forked with an open shard do not disturb each other. An LMDB finds
    the bytes by their name, in a file that each process maps for itself.
    """

    def get(self, filepath: str) -> bytes:
        found = _MEMBER.fullmatch(str(filepath))
        if found is None:
            raise ValueError(f'{filepath} is no path of an image in a shard')
        protocol, place, name = found[1], found[2], found[5]
        offset, size = int(found[3]), int(found[4])
        if is_lmdb(place):
            if protocol != 'file':
                raise ShardError(f'{protocol}://{place} is read by mapping it into memory; copy it to this machine, or '
                                 'keep tar or zip files there')
            content = opened_lmdb(place).get(name)
        elif protocol == 'file':
            content = os.pread(_opened(place).fileno(), size, offset)
        else:
            place = f'{protocol}://{place}'
            content = FsspecBackend().get(place, offset, offset + size)
        if len(content) != size:
            raise ShardError(f'shard {place} has {len(content)} of the {size} bytes of {name} that its index promises: '
                             'it is damaged or has changed; copy it again, or make its index again with '
                             '`mmflatten data index`')
        return content

    def get_text(self, filepath: str, encoding: str = 'utf-8') -> str:
        return self.get(filepath).decode(encoding)


@lru_cache(maxsize=256)
def _opened(path: str | Path) -> FileIO:
    return open(path, 'rb', buffering=0)  # closed when it falls out of the cache
