"""Packing class folders into tar shards in the WebDataset layout, by several processes."""
import hashlib
import multiprocessing
import os
import shutil
import signal
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO, NamedTuple

from PIL import Image

from mmflatten.datasets.build import atomic_folder
from mmflatten.datasets.image_index import Entry, ImageIndex, merge_rows, write_rows
from mmflatten.datasets.shards import LABEL_SUFFIX, Split
from mmflatten.files import IMAGE_FORMATS, read_bytes

SHARD_IMAGES = 20_000  # at most, so that small images too are packed by several processes
_HEADER = tarfile.TarInfo().tobuf()  # without a name, of size 0
_HEADER_SUM = sum(_HEADER[:124] + _HEADER[135:148] + _HEADER[156:]) + 8 * ord(' ')


class Part(NamedTuple):
    """Images of one shard."""

    path: Path  # of the shard
    source: Path
    images: list[tuple[str, int]]  # names relative to `source`, and labels
    folders: dict[int, str]
    check: bool
    skip: bool
    index: Path  # folder of the rows, which exists when the shard is complete; named after the files and `check`

    def is_complete(self) -> bool:
        """Return True if the shard is written, and no image is left out unless that is allowed."""
        return self.index.exists() and (self.skip or not (self.index / 'skipped.txt').stat().st_size)


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
        parts = _pack_all(_cut(work, name, split, folders, shard_bytes, check, skip is not None), processes, on_shard)
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


def _cut(work: Path, name: str, split: Split, folders: dict[int, str], limit: int, check: bool,
         skip: bool) -> Iterator[Part]:
    """Yield the parts of a split: images of about `limit` bytes, and at most `SHARD_IMAGES`."""
    images: list[tuple[str, int]] = []
    size, number, digest = 0, 0, hashlib.sha256(repr(check).encode())

    def part() -> Part:
        stem = f'{name}-{number:06d}'
        index = work / f'{stem}.{digest.hexdigest()[:16]}'
        return Part(work / f'{stem}.tar', split.folder, images, folders, check, skip, index)

    for image in split.images():
        path = os.path.join(split.folder, image.name)
        try:
            status = os.stat(path)
            facts = status.st_size, status.st_mtime_ns
        except OSError:  # reported when it is read
            facts = 0, 0
        if images and (size >= limit or len(images) == SHARD_IMAGES):
            yield part()
            images, size, number, digest = [], 0, number + 1, hashlib.sha256(repr(check).encode())
        images.append((image.name, image.label))
        size += facts[0]
        digest.update(os.fsencode(f'{path} {image.label} {facts}\n'))
    yield part()


def _pack_all(parts: Iterable[Part], processes: int, on_shard: Callable[[str, int], Any]) -> list[Path]:
    """Pack the parts that are not complete yet, and return the folders of their rows in order."""
    folders, running, others = [], {}, set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(processes, initializer=_end_with_parent)
    try:
        for part in parts:
            folders.append(part.index)
            if not part.is_complete():
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
    with open(unfinished, 'wb', buffering=2**20) as file, atomic_folder(part.index) as folder:
        images = _write_shard(file, _read_images(part, skipped))
        number = write_rows(folder, images, [part.path.name], part.folders, fixed=True)
        file.write(bytes(2 * tarfile.BLOCKSIZE))
        file.flush()
        os.fsync(file.fileno())
        (folder / 'skipped.txt').write_text('\n'.join(skipped), errors='surrogateescape')
        for other in part.path.parent.glob(f'{part.path.stem}.{"[0-9a-f]" * 16}'):  # of the shard that is replaced
            shutil.rmtree(other)
        unfinished.rename(part.path)
    return number


def _read_images(part: Part, skipped: list[str]) -> Iterator[tuple[str, bytes, int]]:
    """Yield name, bytes and label of the images that can be decoded. JPEGs are decoded at an eighth of their size."""
    for name, label in part.images:
        path = os.path.join(part.source, name)
        try:
            content = read_bytes(path)
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
        name, digits = stem + dot + suffix, b'%d' % label
        header = tar_header(name, len(image))
        entry = Entry(name, label, 0, offset + len(header), len(image))
        offset += file.write(b''.join((header, image, bytes(-len(image) % tarfile.BLOCKSIZE), tar_header(
            stem + LABEL_SUFFIX, len(digits)), digits, bytes(-len(digits) % tarfile.BLOCKSIZE))))
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
