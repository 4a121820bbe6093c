"""Listing and indexing class folders, text files and tar shards."""

import os
import sys
import tarfile
from collections.abc import Iterator, Sequence
from functools import partial
from io import TextIOWrapper
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from mmflatten.checkpoints.run_files import atomic_write
from mmflatten.datasets.image_index import Entry, is_below, write_index
from mmflatten.untrusted.files import open_regular, problem_of, walk_links

EXTENSIONS = ('.jpg', '.jpeg', '.png', '.ppm', '.bmp', '.pgm', '.tif')  # mmpretrain's
LABEL_SUFFIX = '.cls'
# of one header
MAX_EXTENSION_BYTES = 2**13
MAX_EXTENSIONS = 8
_EXTENSIONS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


def class_folders(folder: Path) -> list[str]:
    """List the class folders in `folder`, sorted."""
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())


def list_folder(folder: Path) -> Iterator[Entry]:
    """Yield the images below class folders, with the order and labels of mmpretrain's data sets."""
    start = len(os.path.join(folder, ''))
    for label, name in enumerate(class_folders(folder)):
        # os.path.relpath is slower than reading a small file
        paths = []
        for place, files in walk_links(os.path.join(folder, name)):
            paths += [f'{place[start:]}{os.sep}{file}' for file in files]
        for path in sorted(paths):
            if _is_image(path):
                yield Entry(path, label)


def list_file(path: Path) -> Iterator[Entry]:
    """Yield the images of a text file with lines such as `n00004475/n00004475_1.JPEG 0`."""
    with TextIOWrapper(open_regular(path), encoding='utf-8', errors='surrogateescape') as lines:
        for number, line in enumerate(lines, 1):
            name, space, label = line.strip().rpartition(' ')
            if not (space and label.isdecimal()):
                raise ValueError(
                    f'{path}, line {number}: expected an image name, a space and a class number,'
                    f' got {line.strip()[:80]!r}'
                )
            yield Entry(name, int(label))


def list_shards(shards: Sequence[Path]) -> tuple[list[Entry], list[str]]:
    """List the images of shards in order, and class names if they are known.

    Labels are read from the `.cls` member of each sample. Without such members, the folders of the
    images are the classes. Raises ValueError for a file that is not an intact, uncompressed tar,
    and for images without label.
    """
    entries = []
    for number, shard in enumerate(shards):
        entries += _list_shard(number, shard)
    unlabelled = [entry for entry in entries if entry.label < 0]
    if not unlabelled:
        return entries, []
    folders = [PurePosixPath(entry.name).parent.name for entry in unlabelled]
    for entry, folder in zip(unlabelled, folders):
        if len(unlabelled) < len(entries) or not folder:
            raise ValueError(
                f'{shards[entry.shard]}: {entry.name} has no {LABEL_SUFFIX} file. Add one for each'
                ' image, or none and put each image into a class folder.'
            )
    classes = sorted(set(folders))
    labels = {name: label for label, name in enumerate(classes)}
    labelled = []
    for entry, folder in zip(entries, folders):
        labelled.append(entry._replace(label=labels[folder]))
    return labelled, classes


def _list_shard(number: int, shard: Path) -> list[Entry]:
    """List the images of a shard; an image without a label gets -1."""
    problem = problem_of(shard, sys.maxsize)
    if problem is not None:
        raise ValueError(f'shard: {shard} {problem}.')
    entries, labels = [], {}
    try:
        with open_regular(shard) as file:
            for tar, info in _members(file, size=shard.stat().st_size):
                if _is_image(info.name):
                    entries.append(Entry(info.name, -1, number, info.offset_data, info.size))
                elif info.name.endswith(LABEL_SUFFIX):
                    labels[_sample_key(info.name)] = _read_label(tar, info)
    # `tarfile` raises all of these for hostile headers
    except (tarfile.TarError, ValueError, ArithmeticError, RecursionError) as error:
        raise ValueError(
            f'shard: expected an intact, uncompressed tar file, got {shard} ({error})'
        ) from error
    return [entry._replace(label=labels.get(_sample_key(entry.name), -1)) for entry in entries]


def _members(file: BinaryIO, size: int) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Yield the regular files of an archive of `size` bytes, and raise ReadError if it is
    damaged.
    """
    _check_extensions(file, 0)
    file.seek(0)
    tar = tarfile.open(fileobj=file, mode='r:')
    while True:
        info = tar.next()
        if info is None:
            break
        _check_extensions(file, tar.offset)
        if info.islnk() or info.issym():
            raise tarfile.ReadError(
                f'{info.name} is a link to {info.linkname}; store the file itself with '
                'tar --dereference --hard-dereference'
            )
        if not 0 <= info.size <= size - info.offset_data:
            raise tarfile.ReadError(
                f'{info.name} states {info.size} bytes at byte {info.offset_data}, but the '
                f'file has {size}'
            )
        if info.isreg():
            yield tar, info
    _check_end(file, tar.offset)


def _check_extensions(file: BinaryIO, offset: int) -> None:
    """Raise ReadError for long or many extensions of the header at `offset`, which `tarfile` parses
    very slowly.
    """
    for _ in range(MAX_EXTENSIONS):
        file.seek(offset)
        header = file.read(tarfile.BLOCKSIZE)
        if header[156:157] not in _EXTENSIONS:
            return
        size = int(header[124:136].rstrip(b'\0 ') or b'0', 8)
        if not 0 <= size <= MAX_EXTENSION_BYTES:
            break
        offset += (1 - -size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
    raise tarfile.ReadError(
        f'more than {MAX_EXTENSION_BYTES} bytes or {MAX_EXTENSIONS} extensions of a header'
    )


def _read_label(tar: tarfile.TarFile, info: tarfile.TarInfo) -> int:
    content = tar.extractfile(info).read(100)
    if not content.strip().isdigit():
        raise tarfile.ReadError(f'{info.name} must contain a class number, got {content[:20]!r}')
    return int(content)


def _check_end(file: BinaryIO, offset: int) -> None:
    """Raise ReadError unless only zeros follow, because `tarfile` silently stops at a header that
    it cannot read.
    """
    file.seek(offset)
    blocks = iter(partial(file.read, 2**20), b'')
    only_zeros = all(not block.strip(b'\0') for block in blocks)
    if not only_zeros or file.tell() < offset + tarfile.BLOCKSIZE:
        raise tarfile.ReadError(f'neither a member nor the end of the archive at byte {offset}')


def _is_image(name: str) -> bool:
    return name.lower().endswith(EXTENSIONS) and not name.rpartition('/')[2].startswith('.')


def _sample_key(name: str) -> str:
    """Return the part of a name that the files of a WebDataset sample share: all up to the first
    dot of the file.
    """
    folder, slash, file = name.rpartition('/')
    return folder + slash + file.partition('.')[0]


def build_index(sources: Sequence[Path], out: Path) -> int:
    """Index a folder of class folders, a text file, or tar shards, and return the number of images.

    Shards are stored relative to the folder of `out`. Raises OSError or ValueError for unusable
    sources.
    """
    if out.exists():
        raise FileExistsError(f'out: {out} exists. Remove it or choose another name.')
    for source in sources:
        problem = problem_of(source, sys.maxsize)
        if problem is not None and not source.is_dir():
            raise FileNotFoundError(f'source: {source} {problem}. Check the path.')
    shards, classes = [], []
    if all(source.is_file() and source.suffix != '.txt' for source in sources):
        shards = [os.path.relpath(source, out.parent) for source in sources]
        outside = [shard for shard in shards if not is_below(shard)]
        if outside:
            raise ValueError(
                f'--out {out}: expected a place beside or above the shards, got {outside[0]}'
                ' below it.'
            )
        entries, classes = list_shards(sources)
    elif len(sources) > 1:
        raise ValueError(
            f'source: expected one folder, one list (.txt) or several tar files, got {sources[0]}'
            f' and {len(sources) - 1} more'
        )
    elif sources[0].is_file():
        entries = list_file(sources[0])
    else:
        entries, classes = list_folder(sources[0]), class_folders(sources[0])
    with atomic_write(out) as folder:
        return write_index(folder, entries, classes=classes, shards=shards)
