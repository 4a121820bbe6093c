"""Images in tar files of the WebDataset format, in zip and in LMDB files, where each lies as it is, in one piece."""
from __future__ import annotations

import stat
import struct
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path, PurePosixPath

from mmflatten.datasets.image_index import Entry
from mmflatten.datasets.lmdb_files import LmdbWriter, is_lmdb, opened_lmdb

EXTENSIONS = ('.jpg', '.jpeg', '.png', '.ppm', '.bmp', '.pgm', '.tif')  # mmpretrain's
_LABEL = '.cls'
_ZIP_MEMBER = b'PK\3\4'
Member = tuple[str, int, int]  # name, offset, size


def is_image(name: str) -> bool:
    """Whether the name of a file is that of an image, and not of one that the system hides."""
    return name.lower().endswith(EXTENSIONS) and not name.rpartition('/')[2].startswith('.')


def members(path: Path) -> list[Member]:
    """Name, offset and size of every file in a tar or zip file; an LMDB finds its members by name, their offset is 0.

    Raises:
        ValueError: it is damaged, or holds a member that is no range of its bytes: compressed, encrypted, a link.
    """
    if is_lmdb(path):
        return opened_lmdb(path).members()
    with open(path, 'rb') as file:
        is_zip = file.read(2) == b'PK'  # at its end a tar may look like a zip, whose beginning is its last member
    try:
        return _zip_members(path) if is_zip else _tar_members(path)
    except (tarfile.ReadError, zipfile.BadZipFile, struct.error) as error:
        raise ValueError(f'{path} is no tar or zip file whose members lie in it uncompressed and whole ({error})') \
            from error


def _tar_members(path: Path) -> list[Member]:
    found = []
    with tarfile.open(path, 'r:') as archive:
        for info in archive:
            if info.islnk() or info.issym():
                raise tarfile.ReadError(f'{info.name} is a link to {info.linkname}; store what it links to, '
                                        'tar --dereference --hard-dereference')
            if info.isreg():
                found.append((info.name, info.offset_data, info.size))
        _require_end(archive)
    return found


def _require_end(archive: tarfile.TarFile) -> None:
    """Raise where the last member that was found is not the last: the library ends at any header it cannot read."""
    archive.fileobj.seek(archive.offset)
    zeros = all(not part.strip(b'\0') for part in iter(partial(archive.fileobj.read, 2**20), b''))
    if not zeros or archive.fileobj.tell() < archive.offset + tarfile.BLOCKSIZE:
        raise tarfile.ReadError(f'at byte {archive.offset} is neither a member nor the end')


def _zip_members(path: Path) -> list[Member]:
    found = []
    with zipfile.ZipFile(path) as archive, open(path, 'rb') as file:
        for info in archive.infolist():
            if info.is_dir():
                continue
            if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
                how = 'encrypted' if info.flag_bits & 1 else 'compressed'
                raise zipfile.BadZipFile(f'{info.filename} is {how}; store it as it is, zip -0')
            if stat.S_ISLNK(info.external_attr >> 16):
                raise zipfile.BadZipFile(f'{info.filename} is a link; store what it links to')
            file.seek(max(info.header_offset, 0))
            mark, name, extra = struct.unpack('<4s22xHH', file.read(30))
            if info.header_offset < 0 or mark != _ZIP_MEMBER:  # the beginning of the file is missing, or damaged
                raise zipfile.BadZipFile(f'{info.filename} does not begin at byte {info.header_offset}')
            found.append((info.filename, info.header_offset + 30 + name + extra, info.file_size))
    return found


def entries(shards: Sequence[Path], classes: Sequence[str] | None = None) -> Iterator[Entry]:
    """The images of shards, in their order.

    Labels are in the `.cls` file of the same sample, as in WebDataset's format; where `classes` are given instead, the
    folder of an image is its class.
    """
    numbers = {name: label for label, name in enumerate(classes or ())}
    for number, shard in enumerate(shards):
        found = members(shard)
        labels = {} if classes is not None else _labels(shard, found)
        for name, offset, size in found:
            if not is_image(name):
                continue
            label = labels.get(_sample(name)) if classes is None else numbers[_folder(name)]
            if label is None:
                raise ValueError(f'{shard}: {name} has no {_LABEL} file, and other images have one')
            yield Entry(name, label, number, offset, size)


def folder_classes(shards: Sequence[Path]) -> list[str] | None:
    """The folders of the images, sorted; None where labels are in files, be it in one shard.

    Raises:
        ValueError: an image is in no folder, and there are no files with labels.
    """
    images: dict[str, str] = {}  # the first of each folder
    for shard in shards:
        for name, _, _ in members(shard):
            if name.endswith(_LABEL):
                return None
            if is_image(name):
                images.setdefault(_folder(name), f'{shard}: {name}')
    if '' in images:
        raise ValueError(f'{images[""]} is in no folder, which would be its class, and no shard has {_LABEL} files')
    return sorted(images)


def _labels(shard: Path, found: Iterable[Member]) -> dict[str, int]:
    labels = {}
    numbers = [member for member in found if member[0].endswith(_LABEL)]
    for (name, _, _), content in zip(numbers, _contents(shard, numbers)):
        if not content.strip().isdigit():
            raise ValueError(f'{shard}: {name} holds {content[:20]!r} and not the number of a class')
        labels[_sample(name)] = int(content)
    return labels


def _contents(shard: Path, wanted: Iterable[Member]) -> Iterator[bytes]:
    if is_lmdb(shard):
        yield from (opened_lmdb(shard).get(name) for name, _, _ in wanted)
    else:
        with open(shard, 'rb') as file:
            for _, offset, size in wanted:
                file.seek(offset)
                yield file.read(size)


def _sample(name: str) -> str:
    """What the files of a sample have in common: the name up to the first point behind the last slash."""
    folder, slash, file = name.rpartition('/')
    return folder + slash + file.partition('.')[0]


def _folder(name: str) -> str:
    return PurePosixPath(name).parent.name


class TarWriter:
    def __init__(self, path: Path) -> None:
        self.file = tarfile.open(path, 'w')

    def write(self, name: str, content: bytes) -> None:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        self.file.addfile(info, BytesIO(content))

    def close(self) -> None:
        self.file.close()


class ZipWriter:
    def __init__(self, path: Path) -> None:
        self.file = zipfile.ZipFile(path, 'w')

    def write(self, name: str, content: bytes) -> None:
        self.file.writestr(zipfile.ZipInfo(name), content)

    def close(self) -> None:
        self.file.close()


WRITERS = {'tar': TarWriter, 'zip': ZipWriter, 'lmdb': LmdbWriter}


class ShardWriter:
    """Writes samples into `{split}-000000.{kind}` and on; the next begins when one has `limit` bytes."""

    def __init__(self, folder: Path, split: str, kind: str, limit: int) -> None:
        self.folder, self.split, self.kind, self.limit = folder, split, kind, limit
        self.paths: list[Path] = []
        self.archive: TarWriter | ZipWriter | LmdbWriter | None = None

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(self, *error: object) -> None:
        if self.archive is not None:
            self.archive.close()

    def add(self, name: str, image: bytes, label: int) -> None:
        """Append an image and its label; the point of the file extension stays the only one in the name."""
        if self.archive is None or self.written >= self.limit:
            self._next()
        stem, point, extension = name.rpartition('.')
        folder, slash, file = stem.rpartition('/')
        stem = folder + slash + file.replace('.', '_')
        for member, content in ((stem + point + extension, image), (stem + _LABEL, str(label).encode())):
            self.archive.write(member, content)
            self.written += len(content)

    def _next(self) -> None:
        self.__exit__()
        path = self.folder / f'{self.split}-{len(self.paths):06d}.{self.kind}'
        self.paths.append(path)
        self.archive = WRITERS[self.kind](path)
        self.written = 0
