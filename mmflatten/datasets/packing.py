"""Packing class folders into tar shards in the WebDataset layout, by several processes."""
import multiprocessing
import os
import signal
import tarfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, BinaryIO, NamedTuple

from PIL import Image

from mmflatten.checkpoints.run_files import atomic_write
from mmflatten.datasets.image_index import Entry, merge_rows, write_rows
from mmflatten.datasets.shards import LABEL_SUFFIX, Split
from mmflatten.files import IMAGE_FORMATS, read_bytes

SHARD_IMAGES = 20_000  # at most, so that small images too are packed by several processes


class Part(NamedTuple):
    """Images of one shard."""

    path: Path  # of the shard
    source: Path
    images: list[tuple[str, int]]  # names relative to `source`, and labels
    folders: dict[int, str]
    check: bool
    skip: bool


def build_shards(splits: Mapping[str, Split], out: Path, shard_bytes: int = 2**30, check: bool = True,
                 skip: Callable[[str], Any] | None = None, on_shard: Callable[[str, int], Any] = lambda *args: None,
                 processes: int = 1) -> dict[str, int]:
    """Pack images into tar shards with an index per split, and return the number of images per split.

    Args:
        shard_bytes: size at which a shard is closed.
        check: decode every image before it is written.
        skip: called with a message for each broken image, which is left out. By default a broken image is an error.
        on_shard: called with the name and number of images of each complete shard.
        processes: processes that read and write, one shard each.
    """
    if out.exists():
        raise FileExistsError(f'out: {out} exists. Remove it or choose another folder.')
    counts = {}
    with atomic_write(out.absolute()) as work, TemporaryDirectory(prefix=f'.{out.name}.', dir=work.parent) as scratch:
        work.mkdir()
        for name, split in splits.items():
            folders, paths = dict(enumerate(split.classes)), []
            parts = _cut(work / name, split, folders, shard_bytes, check, skip is not None)
            for path, number, skipped in _pack_all(parts, Path(scratch), processes):
                paths.append(path)
                on_shard(path.name, number)
                for message in skipped:
                    skip(message)
            counts[name] = merge_rows(work / f'{name}.index', [Path(scratch, path.stem) for path in paths],
                                      split.classes, [path.name for path in paths], folders)
    return counts


def _cut(stem: Path, split: Split, folders: dict[int, str], limit: int, check: bool, skip: bool) -> Iterator[Part]:
    """Yield the parts of a split: images of about `limit` bytes, and at most `SHARD_IMAGES`."""
    images: list[tuple[str, int]] = []
    size = number = 0
    for image in split.images():
        if images and (size >= limit or len(images) == SHARD_IMAGES):
            yield Part(Path(f'{stem}-{number:06d}.tar'), split.folder, images, folders, check, skip)
            images, size, number = [], 0, number + 1
        images.append((image.name, image.label))
        with suppress(OSError):  # reported when it is read
            size += os.stat(os.path.join(split.folder, image.name)).st_size
    yield Part(Path(f'{stem}-{number:06d}.tar'), split.folder, images, folders, check, skip)


def _pack_all(parts: Iterable[Part], rows: Path, processes: int) -> Iterator[tuple[Path, int, list[str]]]:
    """Pack parts, and yield the path of each shard, the number of its images and messages on those left out."""
    running: deque[tuple[Path, Future]] = deque()
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(processes, initializer=_end_with_parent)
    try:
        for part in parts:
            running.append((part.path, pool.submit(_pack, part, rows / part.path.stem)))
            if len(running) > 2 * processes:
                path, future = running.popleft()
                yield path, *future.result()
        while running:
            path, future = running.popleft()
            yield path, *future.result()
    except BrokenProcessPool as error:
        raise OSError('a process was killed, usually because memory was full. Use fewer --processes.') from error
    finally:
        pool.shutdown(wait=not running, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()


def _end_with_parent() -> None:
    """End this process when the main process is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process stops the others
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Thread(target=lambda: (multiprocessing.parent_process().join(), os._exit(1)), daemon=True).start()


def _pack(part: Part, rows: Path) -> tuple[int, list[str]]:
    """Write a shard and the rows of its index; return the number of its images and messages on those left out."""
    skipped: list[str] = []
    rows.mkdir()
    with open(part.path, 'wb', buffering=2**20) as file:
        images = _write_shard(file, _read_images(part, skipped))
        number = write_rows(rows, images, [part.path.name], part.folders, fixed=True)
        file.write(bytes(2 * tarfile.BLOCKSIZE))
    return number, skipped


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
                raise ValueError(f'{message}. Replace it, or leave broken images out with --skip-broken.') from error
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
        header = _header(name, len(image))
        entry = Entry(name, label, 0, offset + len(header), len(image))
        offset += file.write(b''.join((header, image, bytes(-len(image) % tarfile.BLOCKSIZE), _header(
            stem + LABEL_SUFFIX, len(digits)), digits, bytes(-len(digits) % tarfile.BLOCKSIZE))))
        yield entry


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf()
