"""Packing class folders into tar shards in the WebDataset layout, and indexing folders, lists and shards."""
import hashlib
import multiprocessing
import os
import shutil
import signal
import sys
import tarfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from io import BytesIO
from pathlib import Path, PurePosixPath
from threading import Thread
from typing import Any, BinaryIO, NamedTuple

from PIL import Image

from mmflatten.datasets.build import SPLITS, atomic_folder
from mmflatten.datasets.image_index import Entry, ImageIndex, merge_rows, write_index, write_rows
from mmflatten.user_files import IMAGE_FORMATS, problem_of

EXTENSIONS = ('.jpg', '.jpeg', '.png', '.ppm', '.bmp', '.pgm', '.tif')  # mmpretrain's
LABEL_SUFFIX = '.cls'
SHARD_IMAGES = 20_000  # at most, so that small images too are packed by several processes
_HEADER = tarfile.TarInfo().tobuf()  # without a name, of size 0
_HEADER_SUM = sum(_HEADER[:124] + _HEADER[135:148] + _HEADER[156:]) + 8 * ord(' ')


class Split(NamedTuple):
    """Folder of a split, text file of its images if there is one, and class names in the order of the labels."""

    folder: Path
    listing: Path | None
    classes: list[str]

    def images(self) -> Iterator[Entry]:
        """Yield the images, named relative to the folder."""
        return list_folder(self.folder) if self.listing is None else list_file(self.listing)


class Part(NamedTuple):
    """Images of one shard."""

    path: Path  # of the shard
    source: Path
    images: list[Entry]
    folders: dict[int, str]
    check: bool
    skip: bool
    index: Path  # folder of the rows, which exists when the shard is complete; named after the files in the shard


def find_splits(source: Path) -> dict[str, Split]:
    """Find `train` and `val`, or one of them, in the layout of ImageNet.

    Raises FileNotFoundError if both are missing, and ValueError if a split has no images or the classes differ.
    """
    splits = {}
    for name in SPLITS:
        folder, listing = source / name, source / 'meta' / f'{name}.txt'
        if folder.is_dir():
            splits[name] = split = Split(folder, listing if listing.is_file() else None, class_folders(folder))
            images = split.images()
            if next(images, None) is None:
                raise ValueError(f'{split.listing or folder} has no images in class folders ({", ".join(EXTENSIONS)})')
            if split.listing is not None:
                deque(images, maxlen=0)  # reports an invalid line now
    if not splits:
        raise FileNotFoundError(f'source: expected {source}/train/<class>/*.JPEG or {source}/val/<class>/*.JPEG, got '
                                'neither train/ nor val/')
    if len(splits) == 2 and (different := set(splits['train'].classes) ^ set(splits['val'].classes)):
        raise ValueError(f'source: train/ and val/ of {source} must have the same class folders, got '
                         f'{min(different)} in only one. Create an empty folder for a class without images.')
    return splits


def class_folders(folder: Path) -> list[str]:
    """List the class folders in `folder`, sorted."""
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())


def list_folder(folder: Path) -> Iterator[Entry]:
    """Yield the images below class folders, with the order and labels of mmpretrain's data sets."""
    for label, name in enumerate(class_folders(folder)):
        paths = sorted(os.path.relpath(os.path.join(place, file), folder)
                       for place, _, files in os.walk(folder / name, followlinks=True) for file in files)
        yield from (Entry(path, label) for path in paths if _is_image(path))


def list_file(path: Path) -> Iterator[Entry]:
    """Yield the images of a text file with lines such as `n00004475/n00004475_1.JPEG 0`."""
    with open(path, encoding='utf-8', errors='surrogateescape') as lines:
        for number, line in enumerate(lines, 1):
            name, space, label = line.strip().rpartition(' ')
            if not (space and label.isdecimal()):
                raise ValueError(f'{path}, line {number}: expected an image name, a space and a class number, got '
                                 f'{line.strip()[:80]!r}')
            yield Entry(name, int(label))


def list_shards(shards: Sequence[Path]) -> tuple[list[Entry], list[str]]:
    """List the images of shards in order, and class names if they are known.

    Labels are read from the `.cls` member of each sample. Without such members, the folders of the images are the
    classes. Raises ValueError for a file that is not an intact, uncompressed tar, and for images without label.
    """
    entries = [entry for number, shard in enumerate(shards) for entry in _list_shard(number, shard)]
    unlabelled = [entry for entry in entries if entry.label < 0]
    if not unlabelled:
        return entries, []
    folders = [PurePosixPath(entry.name).parent.name for entry in unlabelled]
    for entry, folder in zip(unlabelled, folders):
        if len(unlabelled) < len(entries) or not folder:
            raise ValueError(f'{shards[entry.shard]}: {entry.name} has no {LABEL_SUFFIX} file. Add one for each image, '
                             'or none and put each image into a class folder.')
    classes = sorted(set(folders))
    labels = {name: label for label, name in enumerate(classes)}
    return [entry._replace(label=labels[folder]) for entry, folder in zip(entries, folders)], classes


def _list_shard(number: int, shard: Path) -> list[Entry]:
    """List the images of a shard; an image without a label gets -1."""
    if (problem := problem_of(shard, sys.maxsize)) is not None:
        raise ValueError(f'shard: {shard} {problem}.')
    entries, labels, shard_size = [], {}, shard.stat().st_size
    try:
        with tarfile.open(shard, 'r:') as tar:
            for info in tar:
                if info.islnk() or info.issym():
                    raise tarfile.ReadError(f'{info.name} is a link to {info.linkname}; store the file itself with '
                                            'tar --dereference --hard-dereference')
                if not 0 <= info.size <= shard_size - info.offset_data:
                    raise tarfile.ReadError(f'{info.name} states {info.size} bytes at byte {info.offset_data}, but the '
                                            f'file has {shard_size}')
                if info.isreg() and _is_image(info.name):
                    entries.append(Entry(info.name, -1, number, info.offset_data, info.size))
                elif info.isreg() and info.name.endswith(LABEL_SUFFIX):
                    content = tar.extractfile(info).read(100)
                    if not content.strip().isdigit():
                        raise ValueError(f'{shard}: {info.name} must contain a class number, got {content[:20]!r}')
                    labels[_sample_key(info.name)] = int(content)
            # `tarfile` silently stops at a header that it cannot read, but only zeros may follow the last member.
            tar.fileobj.seek(tar.offset)
            only_zeros = all(not part.strip(b'\0') for part in iter(partial(tar.fileobj.read, 2**20), b''))
            if not only_zeros or tar.fileobj.tell() < tar.offset + tarfile.BLOCKSIZE:
                raise tarfile.ReadError(f'neither a member nor the end of the archive at byte {tar.offset}')
    except tarfile.ReadError as error:
        raise ValueError(f'shard: expected an intact, uncompressed tar file, got {shard} ({error})') from error
    return [entry._replace(label=labels.get(_sample_key(entry.name), -1)) for entry in entries]


def _is_image(name: str) -> bool:
    return name.lower().endswith(EXTENSIONS) and not name.rpartition('/')[2].startswith('.')


def _sample_key(name: str) -> str:
    """Return the part of a name that the files of a WebDataset sample share: all up to the first dot of the file."""
    folder, slash, file = name.rpartition('/')
    return folder + slash + file.partition('.')[0]


def build_index(sources: Sequence[Path], out: Path) -> int:
    """Index a folder of class folders, a text file, or tar shards, and return the number of images.

    Shards are stored relative to the folder of `out`. Raises OSError or ValueError for unusable sources.
    """
    if out.exists():
        raise FileExistsError(f'out: {out} exists. Remove it or choose another name.')
    for source in sources:
        if not source.exists():
            raise FileNotFoundError(f'source: {source} does not exist')
    shards, classes = [], []
    if all(source.is_file() and source.suffix != '.txt' for source in sources):
        shards = [os.path.relpath(source, out.parent) for source in sources]
        entries, classes = list_shards(sources)
    elif len(sources) > 1:
        raise ValueError(f'source: expected one folder, one list (.txt) or several tar files, got {sources[0]} and '
                         f'{len(sources) - 1} more')
    elif sources[0].is_file():
        entries = list_file(sources[0])
    else:
        entries, classes = list_folder(sources[0]), class_folders(sources[0])
    with atomic_folder(out) as folder:
        return write_index(folder, entries, classes, shards)


def build_shards(splits: Mapping[str, Split], out: Path, shard_bytes: int = 2**30, check: bool = True,
                 skip: Callable[[str], Any] | None = None, on_shard: Callable[[str, int], Any] = lambda *args: None,
                 processes: int = 1) -> dict[str, int]:
    """Pack images into tar shards with an index per split, and return the number of images per split.

    Until all shards are complete, they are in `.NAME.packing` beside `out`. A call with the same arguments continues
    there, after any interruption.

    Args:
        shard_bytes: size at which a shard is closed.
        check: decode every image before it is written.
        skip: called with a message for each broken image, which is left out. By default a broken image is an error.
        on_shard: called with the name and number of images of each complete shard.
        processes: processes that read and write, one shard each.
    """
    if out.exists():
        raise FileExistsError(f'out: {out} exists. Remove it or choose another folder.')
    out = out.absolute()
    work, counts = out.with_name(f'.{out.name}.packing'), {}
    work.mkdir(parents=True, exist_ok=True)
    for unfinished in work.glob('*.unfinished-*'):
        unfinished.unlink()
    for name, split in splits.items():
        shutil.rmtree(work / f'{name}.index', ignore_errors=True)
        folders = dict(enumerate(split.classes))
        parts = _pack_all(_cut(work, name, split, folders, shard_bytes, (check, skip is not None)), processes, on_shard)
        for part in parts:
            for message in (part / 'skipped.txt').read_text(errors='surrogateescape').splitlines() if skip else ():
                skip(message)
        paths = [part.with_name(part.name.partition('.')[0] + '.tar') for part in parts]
        counts[name] = merge_rows(work / f'{name}.index', parts, split.classes, [path.name for path in paths], folders)
    wanted = {f'{name}.index' for name in splits} | {path for name in splits for path in
                                                     ImageIndex(work / f'{name}.index').shards}
    for path in work.iterdir():
        if path.name not in wanted:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    work.rename(out)
    return counts


def _cut(work: Path, name: str, split: Split, folders: dict[int, str], limit: int,
         options: tuple[bool, bool]) -> Iterator[Part]:
    """Yield the parts of a split: images of about `limit` bytes, and at most `SHARD_IMAGES`."""
    images: list[Entry] = []
    size, number, digest = 0, 0, hashlib.sha256(repr(options).encode())
    for image in split.images():
        path = os.path.join(split.folder, image.name)
        try:
            status = os.stat(path)
            facts = status.st_size, status.st_mtime_ns
        except OSError:  # reported when it is read
            facts = 0, 0
        if images and (size >= limit or len(images) == SHARD_IMAGES):
            yield Part(work / f'{name}-{number:06d}.tar', split.folder, images, folders, *options,
                       work / f'{name}-{number:06d}.{digest.hexdigest()[:16]}')
            images, size, number, digest = [], 0, number + 1, hashlib.sha256(repr(options).encode())
        images.append(image)
        size += facts[0]
        digest.update(os.fsencode(f'{path} {image.label} {facts}\n'))
    yield Part(work / f'{name}-{number:06d}.tar', split.folder, images, folders, *options,
               work / f'{name}-{number:06d}.{digest.hexdigest()[:16]}')


def _pack_all(parts: Iterable[Part], processes: int, on_shard: Callable[[str, int], Any]) -> list[Path]:
    """Pack the parts that are not complete yet, and return the folders of their rows in order."""
    folders, running, others = [], {}, set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(processes, initializer=_end_with_parent)
    try:
        for part in parts:
            folders.append(part.index)
            if not part.index.exists():
                running[pool.submit(_pack, part)] = part.path.name
            if len(running) > 2 * processes:
                _finish(running, on_shard)
        while running:
            _finish(running, on_shard)
    except BrokenProcessPool as error:
        raise OSError('a process was killed, usually because memory was full. The same command continues; use fewer '
                      '--processes.') from error
    finally:
        pool.shutdown(wait=not running, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
    return folders


def _finish(running: dict[Future, str], on_shard: Callable[[str, int], Any]) -> None:
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        on_shard(running[future], future.result())
        del running[future]


def _end_with_parent() -> None:
    """End this process when the main process is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process stops the others
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Thread(target=lambda: (multiprocessing.parent_process().join(), os._exit(1)), daemon=True).start()


def _pack(part: Part) -> int:
    """Write a shard and the rows of its index, and return the number of its images."""
    skipped: list[str] = []
    unfinished = part.path.with_name(f'{part.path.name}.unfinished-{os.getpid()}')
    with open(unfinished, 'wb') as file, atomic_folder(part.index) as folder:
        images = _write_shard(file, _read_images(part, skipped))
        number = write_rows(folder, images, [part.path.name], part.folders, fixed=True)
        file.write(bytes(2 * tarfile.BLOCKSIZE))
        file.flush()
        os.fsync(file.fileno())
        (folder / 'skipped.txt').write_text('\n'.join(skipped), errors='surrogateescape')
        unfinished.rename(part.path)
    return number


def _read_images(part: Part, skipped: list[str]) -> Iterator[tuple[str, bytes, int]]:
    """Yield name, bytes and label of the images that can be decoded. JPEGs are decoded at an eighth of their size."""
    for name, label, *_ in part.images:
        path = os.path.join(part.source, name)
        try:
            if (problem := problem_of(path)) is not None:
                raise ValueError(problem)
            with open(path, 'rb', buffering=0) as file:
                content = file.readall()
            if part.check:
                with Image.open(BytesIO(content), formats=IMAGE_FORMATS) as image:
                    image.draft('RGB', (1, 1))
                    image.load()
        except Exception as error:  # Pillow's decoders raise nearly any type
            message = f'{path} cannot be decoded ({type(error).__name__}: {error})'
            if not part.skip:
                raise ValueError(f'{message}. Replace it, or leave broken images out with --skip-broken. The same '
                                 'command continues.') from error
            skipped.append(message.replace('\n', ' '))
        else:
            yield name, content, label


def _write_shard(file: BinaryIO, images: Iterable[tuple[str, bytes, int]]) -> Iterator[Entry]:
    """Write the members of a shard, and yield the entry of each image in the index.

    Dots in the stem of an image become underscores, so that image and label have one sample key.
    """
    offset = 0
    for name, image, label in images:
        stem, dot, suffix = name.rpartition('.')
        folder, slash, stem = stem.rpartition('/')
        stem = folder + slash + stem.replace('.', '_')
        for member, content in ((stem + dot + suffix, image), (stem + LABEL_SUFFIX, b'%d' % label)):
            header = tar_header(member, len(content))
            if content is image:
                entry = Entry(member, label, 0, offset + len(header), len(image))
            offset += file.write(header + content + bytes(-len(content) % tarfile.BLOCKSIZE))
        yield entry


def tar_header(name: str, size: int) -> bytes:
    """Return the header that `tarfile` writes for a file, without its 28 us for a short ASCII name."""
    if len(name) > tarfile.LENGTH_NAME or not name.isascii() or size >= 8**11:
        info = tarfile.TarInfo(name)
        info.size = size
        return info.tobuf()
    encoded, digits = name.encode(), b'%011o' % size
    checksum = _HEADER_SUM + sum(encoded) + sum(digits)
    return b''.join((encoded.ljust(tarfile.LENGTH_NAME, b'\0'), _HEADER[100:124], digits, _HEADER[135:148],
                     b'%06o\0 ' % checksum, _HEADER[156:]))
