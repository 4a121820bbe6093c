"""Storage backends for MMEngine's `fileio`, which every loading transform reads through.

Importing this module registers `shard`, for paths that begin with `shard://`, and `fsspec`, by name.
"""
import re
from typing import Any

import cv2
import mmcv
import numpy as np
from fsspec import filesystem
from fsspec.core import url_to_fs
from mmengine.fileio import BaseStorageBackend, register_backend

from mmflatten.user_files import problem_of

_MEMBER = re.compile(r'shard://([\w+.-]+)/(.*?)\?offset=(\d+)&size=(\d+)#(.*)', re.DOTALL)


class ShardError(RuntimeError):
    """Shard that does not contain the bytes listed in its index."""


def member_path(shard: str, offset: int, size: int, name: str) -> str:
    """Return the path of `size` bytes at `offset` of a shard, a file or an address such as `s3://bucket/train.tar`.

    MMEngine selects a backend by the text before the only `://`, so the protocol of the shard becomes a folder:
    `shard://s3/...`, or `shard://file/...` for a file. The name of the image is only for readers of the path.
    """
    place = shard.replace('://', '/', 1) if '://' in shard else f'file/{shard}'
    return f'shard://{place}?offset={offset}&size={size}#{name}'


def read_rgb(path: str) -> np.ndarray:
    """Read an image as (H, W, 3) uint8 RGB from a file, a shard or object storage.

    Raises FileNotFoundError if the file does not exist, and ValueError if it cannot be decoded.
    """
    if '://' not in path and (problem := problem_of(path)) is not None:
        raise FileNotFoundError(f'image {path} {problem}. Relative paths start at the folder of the test run.')
    try:
        pixels = mmcv.imread(path)
    except cv2.error:  # an empty file, or too many pixels
        pixels = None
    if pixels is None:
        raise ValueError(f'image {path} cannot be decoded. Check that the file is complete.')
    return mmcv.bgr2rgb(pixels)


@register_backend('fsspec')
class FsspecBackend(BaseStorageBackend):
    """Backend for any storage that fsspec supports: `backend_args=dict(backend='fsspec')`.

    Args:
        **options: arguments of fsspec's file system, such as `anon=True`. Keys and endpoints belong in fsspec's
            configuration files or environment variables, because configs are logged.
    """

    def __init__(self, **options: Any) -> None:
        self.options = options

    def get(self, filepath: str, start: int | None = None, end: int | None = None) -> bytes:
        """Read the bytes from `start` up to `end`; all by default."""
        # fsspec caches a file system per process and thread. Keeping one here would break forked workers.
        if '://' in str(filepath):
            system, filepath = url_to_fs(filepath, **self.options)
        else:
            system = filesystem('file')  # `url_to_fs` would split a path at `::`
        return system.cat_file(str(filepath), start, end)

    def get_text(self, filepath: str, encoding: str = 'utf-8') -> str:
        return self.get(filepath).decode(encoding)


@register_backend('shard', prefixes='shard')
class ShardBackend(FsspecBackend):
    """Backend for members of shards: one ranged read per image."""

    def get(self, filepath: str) -> bytes:
        match = _MEMBER.fullmatch(str(filepath))
        if match is None:
            raise ValueError(f'path: expected shard://PROTOCOL/PLACE?offset=N&size=N#NAME, got {filepath}')
        protocol, shard, offset, size, name = match.groups()
        if protocol != 'file':
            shard = f'{protocol}://{shard}'
        content = super().get(shard, int(offset), int(offset) + int(size))
        if len(content) != int(size):
            raise ShardError(f'shard {shard} has {len(content)} of the {size} bytes of {name}: it is damaged or was '
                             'changed after indexing. Copy it again, or repeat `mmflatten data index`.')
        return content
