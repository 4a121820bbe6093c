"""Files that a user names: regular ones may be read, and everything else has a reason why not."""
import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mmflatten.text import Escaped

IMAGE_FORMATS = ('BMP', 'JPEG', 'PNG', 'PPM', 'TIFF', 'WEBP')  # Pillow would give an EPS to Ghostscript
MAX_IMAGE_BYTES = 2**31
_KINDS = {stat.S_IFDIR: 'a folder', stat.S_IFIFO: 'a pipe', stat.S_IFSOCK: 'a socket', stat.S_IFCHR: 'a device',
          stat.S_IFBLK: 'a device'}


def problem_of(path: str | os.PathLike, max_bytes: int = MAX_IMAGE_BYTES) -> str | None:
    """Say why a path cannot be read as a file, such as 'is a pipe'; None if it can.

    Links are followed. A pipe would be waited for without end, and a device such as `/dev/zero` read without end.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return 'is a link to a missing file' if os.path.islink(path) else 'does not exist'
    except OSError as error:  # a link to itself, a name that is too long, a folder without permission
        return f'cannot be opened: {error.strerror}'
    except ValueError as error:  # a null byte
        return f'cannot be opened: {error}'
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        return f'is {_KINDS.get(kind, "no regular file")}'
    if status.st_size > max_bytes:
        return f'has {status.st_size / 2**30:.1f} GiB, more than {max_bytes / 2**30:g}'
    return None if os.access(path, os.R_OK) else 'cannot be opened: no permission'


def images_in(folder: Path, suffixes: tuple[str, ...], pattern: str = '*') -> list[Path]:
    """List what has one of these suffixes in a folder, sorted, without folders and without hidden files.

    Pipes, devices and broken links are listed; `problem_of` tells them from files.
    """
    return sorted(path for path in folder.glob(pattern) if path.suffix.lower() in suffixes and not path.is_dir()
                  and not any(part.startswith('.') for part in path.relative_to(folder).parts))


def read_deep(path: str | os.PathLike) -> np.ndarray | None:
    """Read an image with 16 bits as BGR pixels (H, W, 3) of dtype uint16; None for any other file."""
    import cv2
    if problem_of(path) is not None:
        return None
    try:
        with open(path, 'rb') as file:
            if (header := file.read(25)).startswith(b'\x89PNG') and header[24:] != b'\x10':
                return None  # an ordinary PNG need not be decoded
        pixels = cv2.imread(os.fsencode(path), cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH)
    except (OSError, cv2.error):  # reported when it is read as a picture
        return None
    return pixels if pixels is not None and pixels.dtype == np.uint16 else None


def to_eight_bits(pixels: np.ndarray, low: int, high: int) -> np.ndarray:
    """Map the values from `low` to `high` to 0 to 255, as uint8; values outside become 0 or 255."""
    if low >= high:
        raise ValueError(f'--range: expected the lower value first, got {low} {high}.')
    return np.clip((pixels.astype(np.float32) - low) * (255 / (high - low)), 0, 255).round().astype(np.uint8)


@contextlib.contextmanager
def quiet_decoders() -> Iterator[None]:
    """Hide what OpenCV, libpng and libjpeg print about broken images; `sys.stderr` still works.

    The last two write to file descriptor 2, which leads nowhere inside this context, in all threads.
    """
    import cv2  # mmcv brings it, which not every command needs
    with contextlib.ExitStack() as stack:
        stack.callback(cv2.utils.logging.setLogLevel, cv2.utils.logging.setLogLevel(0))
        before, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        stack.callback(os.close, before)
        if getattr(sys.stderr, 'stream', sys.stderr) is sys.__stderr__:  # of a command, too
            sys.stderr.flush()
            stack.enter_context(contextlib.redirect_stderr(Escaped(os.fdopen(os.dup(2), 'w', buffering=1))))
        os.dup2(nowhere, 2)
        os.close(nowhere)
        stack.callback(os.dup2, before, 2)
        yield
