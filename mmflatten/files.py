"""Files that a user names, or that such a file names: regular ones of a bounded size are read,
others refused.
"""

import json
import os
import re
import stat
import sys
import types
from collections.abc import Collection, Iterator
from dataclasses import is_dataclass
from functools import cache
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import yaml

# Pillow would give an EPS to Ghostscript
IMAGE_FORMATS = ('BMP', 'JPEG', 'PNG', 'PPM', 'TIFF', 'WEBP')
# Decoding time grows with the scans of a JPEG, of which encoders write about ten and a hostile file
# thousands.
MAX_JPEG_SCANS = 100
_START_OF_SCAN, _END_OF_IMAGE = b'\xda', b'\xd9'
# The other bytes after 0xff belong to the coded pixels.
_JPEG_MARKER = re.compile(rb'\xff([\x02-\xcf\xd9-\xfe])', re.DOTALL)
_SIGNATURES = re.compile(
    rb'BM|\xff\xd8\xff|\x89PNG\r\n\x1a\n|P[1-6][\s#]|II[*+]\0|MM\0[*+]|RIFF....WEBP', re.DOTALL
)
MAX_BYTES = 2**31
MAX_JSON_BYTES = 2**26  # of a file that this project writes
MAX_YAML_BYTES, MAX_YAML_VALUES = 2**20, 100_000
FEW = 100  # characters of a value in a message
MAX_DIGITS = 300  # of a number: more do not fit a float, and take long to convert
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


def problem_of_image(path: str | os.PathLike) -> str | None:
    """Say why a path cannot be read as an image of `IMAGE_FORMATS`; None if it can."""
    if (problem := problem_of(path)) is not None:
        return problem
    try:
        with open_regular(path) as file:
            content = file.read(12)
            if content.startswith(b'\xff\xd8'):
                content += file.read()
    except OSError as error:  # such as /proc/self/mem
        return f'cannot be read: {error.strerror}'
    if is_image(content):
        return None
    return (
        f'is not an image of {", ".join(IMAGE_FORMATS)} (JPEG: of at most {MAX_JPEG_SCANS} scans)'
    )


def is_image(content: bytes) -> bool:
    """Return True if content begins as one of `IMAGE_FORMATS`, and is not a JPEG of more than
    `MAX_JPEG_SCANS`.

    OpenCV reads a dozen more formats, by content.
    """
    return _SIGNATURES.match(content) is not None and _has_few_scans(content)


def _has_few_scans(content: bytes) -> bool:
    is_jpeg = content.startswith(b'\xff\xd8')
    # Nearly all files end here. Other data of a file, such as a video behind the image, may have
    # these bytes, too.
    if not is_jpeg or content.count(b'\xff' + _START_OF_SCAN) <= MAX_JPEG_SCANS:
        return True
    scans = 0
    marker = _JPEG_MARKER.search(content, 2)
    while marker is not None and marker[1] != _END_OF_IMAGE:
        if marker[1] == _START_OF_SCAN:
            scans += 1
        if scans > MAX_JPEG_SCANS:
            return False
        segment = int.from_bytes(content[marker.end() : marker.end() + 2])
        marker = _JPEG_MARKER.search(content, marker.end() + segment)
    return True


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
        parts, total = [content], len(content)
        # interrupted, growing, or of unknown size
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
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # does not block on a pipe
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


def parse_json(path: str | os.PathLike, text: str) -> Any:
    """Parse the text of a JSON file, whose integers of more than `MAX_DIGITS` become floats. Raises
    UnusableFile.
    """
    try:
        return json.loads(
            text, parse_int=lambda digits: (int if len(digits) < MAX_DIGITS else float)(digits)
        )
    except (ValueError, RecursionError) as error:
        where = f'{path}:{error.lineno}' if isinstance(error, json.JSONDecodeError) else path
        raise UnusableFile(f'{where}: expected JSON, got {error}.') from error


def read_json(
    path: Path, kind: type | None = None, required: Collection[str] = ()
) -> dict[str, Any]:
    """Read the fields of a JSON file; {} if it does not exist.

    Args:
        kind: class whose annotations are the types of the fields. Fields that it does not have are
            left out. None for any fields.
        required: fields that may not be missing.

    Raises:
        DamagedFile: the file cannot be read as such fields. The message has its path and the first
            wrong field.
    """
    if not os.path.lexists(path):
        return {}
    try:
        content = parse_json(path, read_text(path, MAX_JSON_BYTES))
    except UnusableFile as error:
        raise DamagedFile(str(error)) from error
    if not isinstance(content, dict):
        raise DamagedFile(f'{path}: expected a dictionary, got {str(content)[:FEW]}.')
    missing = [name for name in required if name not in content]
    if missing:
        raise DamagedFile(
            f'{path}: expected the field {missing[0]}, got'
            f' {", ".join(content)[:FEW] or "no field"}.'
        )
    hints = dict.fromkeys(content, Any) if kind is None else _hints(kind)
    for name, value in content.items():
        if name in hints and not fits(value, hints[name]):
            raise DamagedFile(
                f'{path}: expected {getattr(hints[name], "__name__", hints[name])} for {name}, got '
                f'{str(value)[:FEW]}.'
            )
    return {name: value for name, value in content.items() if name in hints}


def fits(value: Any, hint: Any) -> bool:
    """Return True if a value from JSON has an annotated type. Integers fit float, and dictionaries
    a data class.
    """
    arguments = get_args(hint)
    match get_origin(hint):
        case types.UnionType:
            return any(fits(value, argument) for argument in arguments)
        case origin if origin is dict:
            return isinstance(value, dict) and all(
                fits(item, arguments[1]) for item in value.values()
            )
        case origin if origin is list:
            return isinstance(value, list) and all(fits(item, arguments[0]) for item in value)
    if is_dataclass(hint):
        hints = _hints(hint)
        return isinstance(value, dict) and all(
            fits(item, hints.get(name, Any)) for name, item in value.items()
        )
    return hint is Any or type(value) is hint or hint is float and type(value) is int


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def read_yaml(path: str | os.PathLike) -> Any:
    """Read YAML of at most `MAX_YAML_BYTES`, and of at most `MAX_YAML_VALUES` with its aliases
    written out.

    Raises UnusableFile; the message has the line, if it is known.
    """
    text = read_text(path, MAX_YAML_BYTES)
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if _num_values(node, {}) > MAX_YAML_VALUES:
            raise yaml.YAMLError(f'more than {MAX_YAML_VALUES} values, aliases included')
        return loader.construct_document(node) if node else None
    except RecursionError as error:
        raise UnusableFile(
            f'{path}: expected YAML, got values that are nested too deeply.'
        ) from error
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, 'problem_mark', None)
        where = f'{path}:{mark.line + 1}' if mark else path
        raise UnusableFile(
            f'{where}: expected YAML, got {str(getattr(error, "problem", error))[:200]}.'
        ) from error


def _num_values(node: yaml.Node | None, known: dict[yaml.Node, int]) -> int:
    if isinstance(node, yaml.CollectionNode) and node not in known:
        parts = (
            chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
        )
        known[node] = 1 + sum(_num_values(part, known) for part in parts)
    elif (
        isinstance(node, yaml.ScalarNode)
        and len(node.value) > MAX_DIGITS
        and not node.tag.endswith(':str')
    ):
        raise yaml.MarkedYAMLError(
            problem=f'a number of {len(node.value)} digits', problem_mark=node.start_mark
        )
    return known.get(node, 1)


class _Loader(yaml.SafeLoader):
    """YAML without repeated keys, where 1e-4 is a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        names = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != '<<':
                if key.value in names:
                    raise yaml.MarkedYAMLError(
                        problem=f'{key.value} is repeated', problem_mark=key.start_mark
                    )
                names.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    'tag:yaml.org,2002:float', re.compile(r'[-+]?\d+(\.\d*)?[eE][-+]?\d+$'), list('-+0123456789')
)


def walk_links(folder: str | os.PathLike) -> Iterator[tuple[str, list[str]]]:
    """Yield each folder below one once, with its files. Links are followed, also if they lead in a
    circle.

    A link to a folder above this one, such as to `/`, is not followed: it would lead to everything
    beside the data. Nothing is yielded if the folder itself is such a link.
    """
    beside = Path(os.path.abspath(folder)).parent.resolve()
    above = {beside, *beside.parents, *Path(folder).resolve().parents}
    seen = {(status.st_dev, status.st_ino) for status in map(os.stat, above)}
    for place, folders, files in os.walk(folder, followlinks=True):
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
    return sorted(
        path
        for place, files in places
        for path in map(Path(place).joinpath, files)
        if path.suffix.lower() in suffixes
        and not path.is_dir()
        and not any(part.startswith('.') for part in path.relative_to(folder).parts)
    )
