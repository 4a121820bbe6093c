"""Files that a user names, or that such a file names: regular ones of a bounded size are read,
others refused.
"""

import os
import stat
import sys
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

MAX_BYTES = 2**31
# O_NONBLOCK does not block on a pipe. Windows lacks it, and has a text mode.
_READ = os.O_RDONLY | getattr(os, 'O_NONBLOCK', 0) | getattr(os, 'O_BINARY', 0)
_KINDS = {
    stat.S_IFDIR: 'a folder',
    stat.S_IFIFO: 'a pipe',
    stat.S_IFSOCK: 'a socket',
    stat.S_IFCHR: 'a device',
    stat.S_IFBLK: 'a device',
}


class UnusableFile(ValueError):
    """A file cannot be read. The message begins with its path."""


class DamagedFile(ValueError):
    """A file is not what this project writes: cut off, of another type or with wrong values."""


def problem_of(path: str | os.PathLike, max_bytes: int = MAX_BYTES) -> str | None:
    """Say why a path cannot be read as a file, such as 'is a pipe'; None if it can.

    Links are followed. A pipe would be waited for without end, and a device such as `/dev/zero`
    read without end.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return 'is a link to a missing file' if os.path.islink(path) else 'does not exist'
    # a link to itself, a name that is too long, a folder without permission
    except OSError as error:
        return f'cannot be opened: {error.strerror}'
    except ValueError as error:  # a null byte
        return f'cannot be opened: {error}'
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        return f'is {_KINDS.get(kind, "no regular file")}'
    if status.st_size > max_bytes:
        return f'has {status.st_size / 2**30:.1f} GiB, more than {max_bytes / 2**30:g}'
    return None if os.access(path, os.R_OK) else 'cannot be opened: no permission'


def absolute_name(path: str | os.PathLike) -> str:
    """Return the absolute path of a file, for a library.

    FFmpeg takes a relative name such as `http:host.mp4` or `concat:a|b.mp4` for an address.
    """
    return str(Path(path).absolute())


def read_bytes(path: str | os.PathLike, max_bytes: int = MAX_BYTES) -> bytes:
    """Read a regular file, a small one with four system calls, which take most of its time.

    Raises FileNotFoundError, or UnusableFile for anything else, such as a pipe, which would be
    waited for without end.
    """
    file, size = _open(path, max_bytes)
    try:
        content = os.read(file, size + 1)
        if content and len(content) == size:
            return content
        # The read was interrupted, or the file grows or has no size, such as those of /proc.
        parts = [content]
        total = len(content)
        while total <= max_bytes and (more := os.read(file, 2**24)):
            parts.append(more)
            total += len(more)
        return b''.join(parts)
    except OSError as error:
        raise UnusableFile(f'{path} cannot be read: {error.strerror}.') from error
    finally:
        os.close(file)


def open_regular(path: str | os.PathLike, max_bytes: int = sys.maxsize) -> BufferedReader:
    """Open a regular file for reading, one that is too large for `read_bytes`, or of which only a
    part is read.

    Raises FileNotFoundError, or UnusableFile for anything else, as `read_bytes`.
    """
    return open(_open(path, max_bytes)[0], 'rb')


def _open(path: str | os.PathLike, max_bytes: int) -> tuple[int, int]:
    """Return the descriptor and the size of a regular file."""
    try:
        file = os.open(path, _READ)
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) and not os.path.islink(path):
            raise
        raise UnusableFile(f'{path} {problem_of(path, max_bytes) or error}.') from error
    status = os.fstat(file)
    if stat.S_ISREG(status.st_mode) and status.st_size <= max_bytes:
        return file, status.st_size
    os.close(file)
    raise UnusableFile(f'{path} {problem_of(path, max_bytes) or "changed while it was read"}.')


def read_text(path: str | os.PathLike, max_bytes: int = MAX_BYTES) -> str:
    """Read a text in UTF-8, with or without a byte order mark. Raises UnusableFile."""
    content = read_bytes(path, max_bytes)
    try:
        return content.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        line = content.count(b'\n', 0, error.start) + 1
        raise UnusableFile(
            f'{path}:{line}: expected text in UTF-8, got the byte {content[error.start]:#x}.'
        ) from error


def walk_links(folder: str | os.PathLike[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each folder below one once, with its files. Links are followed, also if they lead in a
    circle.

    A link to a folder above this one, such as to `/`, is not followed: it would lead to everything
    beside the data. Nothing is yielded if the folder itself is such a link.
    """
    beside = Path(os.path.abspath(folder)).parent.resolve()
    above = {beside, *beside.parents, *Path(folder).resolve().parents}
    seen = {(status.st_dev, status.st_ino) for status in map(os.stat, above)}
    for place, folders, files in os.walk(os.fspath(folder), followlinks=True):
        folders.sort()
        status = os.stat(place)
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
        else:
            seen.add((status.st_dev, status.st_ino))
            yield place, files


def images_in(folder: Path, suffixes: tuple[str, ...], deep: bool = False) -> list[Path]:
    """List what has one of these suffixes in a folder, sorted, without folders and without hidden
    files.

    Pipes, devices and broken links are listed; `problem_of` tells them from files.

    Args:
        deep: list the folders below, too; linked ones are followed, each once.
    """
    places = walk_links(folder) if deep else [(str(folder), os.listdir(folder))]
    found = []
    for place, files in places:
        for name in files:
            path = Path(place, name)
            if path.suffix.lower() not in suffixes or path.is_dir():
                continue
            parts = path.relative_to(folder).parts
            if not any(part.startswith('.') for part in parts):
                found.append(path)
    return sorted(found)
