"""Locks between processes.

Linux and macOS have the module `fcntl`, whose locks end with their process. Windows does not.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def process_lock(file: IO, path: Path) -> Iterator[None]:
    """Hold the lock of an open file. Processes that this one starts do not inherit it.

    Without `fcntl`, the lock is that of `PATH.lock`.

    Args:
        path: path of the file.

    Raises:
        BlockingIOError: another process holds the lock.
    """
    if fcntl is not None:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends when the file is closed
        yield
        return
    lock = FileLock(f'{path}.lock', timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise BlockingIOError(f'{path} is locked') from error
    try:
        yield
    finally:
        lock.release()
        with contextlib.suppress(OSError):  # another process may hold it already
            os.unlink(lock.lock_file)


@contextlib.contextmanager
def folder_lock(folder: str | Path) -> Iterator[bool]:
    """Hold the lock of a folder; yield False where folders cannot be locked.

    Raises:
        BlockingIOError: another process holds the lock.
    """
    if fcntl is None:
        yield False
        return
    # O_DIRECTORY, because opening a pipe would block.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    finally:
        os.close(descriptor)


def lock_file(file: IO, shared: bool = False, wait: bool = False) -> bool:
    """Lock an open file until it is closed here and in the processes that inherit it.

    Returns False if another process holds the lock.

    Raises:
        OSError: the system has no such locks.
    """
    if fcntl is None:
        raise OSError(
            f'{file.name}: expected a system with locks of files, as Linux and macOS have. On'
            ' Windows, use the Windows Subsystem for Linux.'
        )
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
