"""Storage backend for members of tar shards, for MMEngine's `fileio`, which every loading transform
reads through.

Importing this module registers `shard`, for paths that begin with `shard://`.
"""

import os
import re
import sys

import cv2
import mmcv
import numpy as np
from mmengine.fileio import BaseStorageBackend, register_backend

from mmflatten.untrusted.files import UnusableFile, open_regular, problem_of, read_bytes
from mmflatten.untrusted.images import is_image

_PREFIX = 'shard://'
_MEMBER = re.compile(_PREFIX + r'(.*?)\?offset=(\d+)&size=(\d+)#(.*)', re.DOTALL)


class ShardError(RuntimeError):
    """Shard that does not contain the bytes listed in its index."""


def member_path(shard: str, offset: int, size: int, name: str) -> str:
    """Return the path of `size` bytes at `offset` of a shard. The name of the image is only for
    readers of the path.
    """
    return f'{_PREFIX}{shard}?offset={offset}&size={size}#{name}'


def read_rgb(path: str) -> np.ndarray:
    """Read an image as (H, W, 3) uint8 RGB from a file or a member of a shard, never from a
    server.

    Raises FileNotFoundError if the file does not exist, and ValueError if it cannot be decoded.
    """
    member = _MEMBER.fullmatch(path)
    problem = problem_of(member[1] if member else path, sys.maxsize)
    if problem is not None:
        raise FileNotFoundError(f'image {path} {problem}. Check the path.')
    content = ShardBackend().get(path) if member else read_bytes(path)
    try:
        pixels = mmcv.imfrombytes(content, channel_order='rgb') if is_image(content) else None
    except cv2.error:  # too many pixels
        pixels = None
    if pixels is None:
        raise ValueError(
            f'image {path} cannot be decoded. The file may be damaged, a TIFF of floats or 32 bits '
            '(convert it to 8), or of a type or size that OpenCV does not support.'
        )
    return pixels


@register_backend('shard', prefixes='shard')
class ShardBackend(BaseStorageBackend):
    """Backend for members of tar shards, which are ordinary files."""

    def get(self, filepath: str) -> bytes:
        """Read a member.

        Raises OSError if the shard is not a regular file, and ShardError if it ends before the
        member.
        """
        match = _MEMBER.fullmatch(str(filepath))
        if match is None:
            raise ValueError(f'path: expected {_PREFIX}FILE?offset=N&size=N#NAME, got {filepath}')
        shard, offset, size, name = match[1], int(match[2]), int(match[3]), match[4]
        try:
            with open_regular(shard) as file:
                content = os.pread(file.fileno(), size, offset)
        except (FileNotFoundError, UnusableFile) as error:
            raise FileNotFoundError(
                f'shard {shard} {problem_of(shard, sys.maxsize) or error}.'
            ) from error
        if len(content) != size:
            raise ShardError(
                f'shard {shard} has {len(content)} of the {size} bytes of {name}: it is damaged or'
                ' was changed after indexing. Copy it again, or repeat `mmflatten data index`.'
            )
        return content

    def get_text(self, filepath: str, encoding: str = 'utf-8') -> str:
        return self.get(filepath).decode(encoding)
