"""Storage backends for MMEngine's `fileio`, which every loading transform reads through.

Importing this module registers `shard`, for paths that begin with `shard://`, and `fsspec`, by name.
"""
import errno
import os
import re
import sys
import time
from collections.abc import Sequence
from typing import Any

import cv2
import mmcv
import numpy as np
from fsspec import AbstractFileSystem, filesystem
from fsspec.core import url_to_fs
from mmengine.fileio import BaseStorageBackend, get, register_backend

from mmflatten.files import is_image, problem_of, read_bytes

IN_FLIGHT = 128  # requests of a process at the same time
ATTEMPTS = 4  # of a request
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
    content = get(path) if '://' in path else read_bytes(path)
    try:
        pixels = mmcv.imfrombytes(content, channel_order='rgb') if is_image(content) else None
    except cv2.error:  # too many pixels
        pixels = None
    if pixels is None:
        raise ValueError(f'image {path} cannot be decoded. Check that the file is complete.')
    return pixels


@register_backend('fsspec')
class FsspecBackend(BaseStorageBackend):
    """Backend for any storage that fsspec supports: `backend_args=dict(backend='fsspec')`.

    Args:
        **options: arguments of fsspec's file system, such as `anon=True`. Keys and endpoints belong in fsspec's
            configuration files or environment variables, because configs are logged.
    """

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.prefetched: dict[str, bytes] = {}

    def prefetch(self, paths: Sequence[str]) -> None:
        """Read the contents of several paths, with up to `IN_FLIGHT` requests at the same time.

        The next `get` of each path returns its content. A path that cannot be read is left to `get`, which repeats the
        request and names the path.
        """
        places, starts, ends = zip(*map(self.locate, paths))
        system, _ = self._system(places[0])
        if not system.async_impl:  # files and memory, where reading one after the other is as fast
            return
        contents = system.cat_ranges([self._system(place)[1] for place in places], list(starts), list(ends),
                                     batch_size=IN_FLIGHT, on_error='return')
        self.prefetched = {path: content for path, content in zip(paths, contents) if isinstance(content, bytes)}

    def get(self, filepath: str) -> bytes:
        """Read a path; a request that is interrupted is repeated.

        Raises FileNotFoundError if there is no such object, and the last error after `ATTEMPTS` attempts.
        """
        if (content := self.prefetched.pop(str(filepath), None)) is not None:
            return content
        place, start, end = self.locate(str(filepath))
        if '://' not in place and (problem := problem_of(place, sys.maxsize)) is not None:
            raise OSError(errno.EINVAL if os.path.lexists(place) else errno.ENOENT, problem, place)
        system, path = self._system(place)
        for attempt in range(ATTEMPTS):
            try:
                return system.cat_file(path, start=start, end=end)
            except FileNotFoundError as error:
                raise FileNotFoundError(errno.ENOENT, 'no such file or object', place) from error
            except Exception:  # the libraries of the storages have no common class for interrupted requests
                if attempt + 1 == ATTEMPTS or '://' not in place:
                    raise
                time.sleep(2**attempt / 4)

    def get_text(self, filepath: str, encoding: str = 'utf-8') -> str:
        return self.get(filepath).decode(encoding)

    def locate(self, path: str) -> tuple[str, int | None, int | None]:
        """Return the file or address of a path, and the byte range in it."""
        return path, None, None

    def _system(self, place: str) -> tuple[AbstractFileSystem, str]:
        # fsspec caches a file system per process and thread. Keeping one here would break forked workers.
        if '://' not in place:
            return filesystem('file'), place  # `url_to_fs` would split a path at `::`
        connections = dict(config_kwargs=dict(max_pool_connections=IN_FLIGHT)) if place.startswith('s3://') else {}
        return url_to_fs(place, **{**connections, **self.options})


@register_backend('shard', prefixes='shard')
class ShardBackend(FsspecBackend):
    """Backend for members of shards: one ranged read per image."""

    def get(self, filepath: str) -> bytes:
        content, (shard, start, end) = super().get(filepath), self.locate(str(filepath))
        if len(content) != end - start:
            raise ShardError(f'shard {shard} has {len(content)} of the {end - start} bytes of '
                             f'{_MEMBER.fullmatch(str(filepath))[5]}: it is damaged or was changed after indexing. '
                             'Copy it again, or repeat `mmflatten data index`.')
        return content

    def locate(self, path: str) -> tuple[str, int, int]:
        match = _MEMBER.fullmatch(path)
        if match is None:
            raise ValueError(f'path: expected shard://PROTOCOL/PLACE?offset=N&size=N#NAME, got {path}')
        protocol, shard, offset, size, _ = match.groups()
        return shard if protocol == 'file' else f'{protocol}://{shard}', int(offset), int(offset) + int(size)
