"""Tar shards in the WebDataset layout: listing images with their byte ranges and labels, and writing."""
from __future__ import annotations

import tarfile
from collections.abc import Sequence
from functools import partial
from io import BytesIO
from pathlib import Path, PurePosixPath

from mmflatten.datasets.image_index import Entry

EXTENSIONS = ('.jpg', '.jpeg', '.png', '.ppm', '.bmp', '.pgm', '.tif')  # mmpretrain's
LABEL_SUFFIX = '.cls'
Member = tuple[str, int, int]  # name, offset, size


def is_image(name: str) -> bool:
    """Return True for the name of an image file that is not hidden."""
    return name.lower().endswith(EXTENSIONS) and not name.rpartition('/')[2].startswith('.')


def list_members(path: Path) -> list[Member]:
    """List name, offset and size of the files in a tar.

    Raises:
        ValueError: the file is compressed, damaged or not a tar, or contains a link.
    """
    members = []
    try:
        with tarfile.open(path, 'r:') as tar:
            for info in tar:
                if info.islnk() or info.issym():
                    raise tarfile.ReadError(f'{info.name} is a link to {info.linkname}; store the file itself with '
                                            'tar --dereference --hard-dereference')
                if info.isreg():
                    members.append((info.name, info.offset_data, info.size))
            _require_end(tar)
    except tarfile.ReadError as error:
        raise ValueError(f'shard: expected an intact, uncompressed tar file, got {path} ({error})') from error
    return members


def _require_end(tar: tarfile.TarFile) -> None:
    """Raise unless only zeros follow the last member: `tarfile` silently stops at a header that it cannot read."""
    tar.fileobj.seek(tar.offset)
    only_zeros = all(not part.strip(b'\0') for part in iter(partial(tar.fileobj.read, 2**20), b''))
    if not only_zeros or tar.fileobj.tell() < tar.offset + tarfile.BLOCKSIZE:
        raise tarfile.ReadError(f'neither a member nor the end of the archive at byte {tar.offset}')


def list_images(shards: Sequence[Path]) -> tuple[list[Entry], list[str]]:
    """List the images of shards in order, and class names if they are known.

    Labels are read from the `.cls` member of each sample. Without such members, the folders of the images are the
    classes.

    Raises:
        ValueError: an image has no label.
    """
    entries = []
    for number, shard in enumerate(shards):
        members = list_members(shard)
        labels = _read_labels(shard, members)
        entries += [Entry(name, labels.get(_sample_key(name), -1), number, offset, size)
                    for name, offset, size in members if is_image(name)]
    unlabelled = [entry for entry in entries if entry.label < 0]
    if not unlabelled:
        return entries, []
    if len(unlabelled) < len(entries):
        raise ValueError(f'{shards[unlabelled[0].shard]}: {unlabelled[0].name} has no {LABEL_SUFFIX} file, but other '
                         'images do')
    folders = [PurePosixPath(entry.name).parent.name for entry in entries]
    if '' in folders:
        first = entries[folders.index('')]
        raise ValueError(f'{shards[first.shard]}: {first.name} has no label: expected a class folder or a '
                         f'{LABEL_SUFFIX} file')
    classes = sorted(set(folders))
    labels = {name: label for label, name in enumerate(classes)}
    return [entry._replace(label=labels[folder]) for entry, folder in zip(entries, folders)], classes


def _read_labels(shard: Path, members: Sequence[Member]) -> dict[str, int]:
    labels = {}
    with open(shard, 'rb') as file:
        for name, offset, size in members:
            if name.endswith(LABEL_SUFFIX):
                file.seek(offset)
                content = file.read(size)
                if not content.strip().isdigit():
                    raise ValueError(f'{shard}: {name} must contain a class number, got {content[:20]!r}')
                labels[_sample_key(name)] = int(content)
    return labels


def _sample_key(name: str) -> str:
    """Return the part of a name that the files of a WebDataset sample share: all up to the first dot of the file."""
    folder, slash, file = name.rpartition('/')
    return folder + slash + file.partition('.')[0]


class ShardWriter:
    """Writer of labelled images to `{split}-000000.tar`, `{split}-000001.tar`, ... of about `limit` bytes each."""

    def __init__(self, folder: Path, split: str, limit: int) -> None:
        self.folder, self.split, self.limit = folder, split, limit
        self.paths: list[Path] = []
        self.tar: tarfile.TarFile | None = None

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(self, *error: object) -> None:
        if self.tar is not None:
            self.tar.close()

    def add(self, name: str, image: bytes, label: int) -> None:
        """Append an image and its label. Dots in the stem become underscores, so that both have one sample key."""
        if self.tar is None or self.num_bytes >= self.limit:
            self.__exit__()
            self.paths.append(self.folder / f'{self.split}-{len(self.paths):06d}.tar')
            self.tar, self.num_bytes = tarfile.open(self.paths[-1], 'w'), 0
        stem, dot, extension = name.rpartition('.')
        folder, slash, file = stem.rpartition('/')
        stem = folder + slash + file.replace('.', '_')
        for member, content in ((stem + dot + extension, image), (stem + LABEL_SUFFIX, str(label).encode())):
            info = tarfile.TarInfo(member)
            info.size = len(content)
            self.tar.addfile(info, BytesIO(content))
            self.num_bytes += len(content)
