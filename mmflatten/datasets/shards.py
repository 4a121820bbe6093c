"""Packing class folders into tar shards, and indexing folders, lists and shards."""
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from mmflatten.datasets.build import SPLITS, atomic_folder
from mmflatten.datasets.image_index import Entry, write_index
from mmflatten.datasets.tar_files import EXTENSIONS, ShardWriter, is_image, list_images


class Split(NamedTuple):
    """Images of a split, named relative to `folder`, and class names in the order of the labels."""

    folder: Path
    images: list[Entry]
    classes: list[str]


def find_splits(source: Path) -> dict[str, Split]:
    """Find `train` and `val`, or one of them, in the layout of ImageNet.

    Raises:
        FileNotFoundError: there is neither `train/` nor `val/`.
        ValueError: a split has no images, or the two have different classes.
    """
    splits = {}
    for name in SPLITS:
        folder, listing = source / name, source / 'meta' / f'{name}.txt'
        if folder.is_dir():
            images = list(list_file(listing) if listing.is_file() else list_folder(folder))
            if not images:
                raise ValueError(f'{listing if listing.is_file() else folder} has no images in class folders '
                                 f'({", ".join(EXTENSIONS)})')
            splits[name] = Split(folder, images, class_folders(folder))
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
        paths = (os.path.relpath(os.path.join(place, file), folder)
                 for place, _, files in os.walk(folder / name, followlinks=True) for file in files)
        for image in sorted(paths):
            if is_image(image):
                yield Entry(image, label)


def list_file(path: Path) -> Iterator[Entry]:
    """Yield the images listed in a text file with lines such as `n00004475/n00004475_1.JPEG 0`."""
    with open(path, encoding='utf-8', errors='surrogateescape') as lines:
        for number, line in enumerate(lines, 1):
            name, space, label = line.strip().rpartition(' ')
            if not (space and label.isdecimal()):
                raise ValueError(f'{path}, line {number}: expected an image name, a space and a class number, got '
                                 f'{line.strip()[:80]!r}')
            yield Entry(name, int(label))


def build_index(sources: Sequence[Path], out: Path) -> int:
    """Index a folder of class folders, a text file, or tar shards, and return the number of images.

    Shards are stored relative to the folder of `out`.

    Raises:
        FileExistsError: `out` exists.
        FileNotFoundError: a source does not exist.
        ValueError: the sources are mixed, or cannot be read.
    """
    if out.exists():
        raise FileExistsError(f'out: {out} exists. Remove it or choose another name.')
    for source in sources:
        if not source.exists():
            raise FileNotFoundError(f'source: {source} does not exist')
        if source.suffix in ('.zip', '.lmdb'):
            raise ValueError(f'source: expected a tar file, got {source}. Pack class folders with '
                             '`mmflatten data shards`.')
    shards: list[str] = []
    classes: Sequence[str] = ()
    if all(source.is_file() and source.suffix != '.txt' for source in sources):
        shards = [os.path.relpath(source, out.parent) for source in sources]
        entries, classes = list_images(sources)
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
                 skip: Callable[[str], Any] | None = None, on_image: Callable[[], Any] = lambda: None,
                 ) -> dict[str, int]:
    """Pack images into tar shards with an index per split, and return the number of images per split.

    The folder is written completely or not at all.

    Args:
        splits: result of `find_splits`.
        shard_bytes: size at which a shard is closed.
        check: decode every image before it is written.
        skip: called with a message for each broken image, which is left out. By default a broken image is an error.
        on_image: called after each image.
    """
    if out.exists():
        raise FileExistsError(f'out: {out} exists. Remove it or choose another folder.')
    out = out.absolute()
    out.parent.mkdir(parents=True, exist_ok=True)
    _require_space(splits, out.parent)
    counts = {}
    with atomic_folder(out) as folder:
        for name, split in splits.items():
            with ShardWriter(folder, name, shard_bytes) as writer:
                for image in split.images:
                    path = split.folder / image.name
                    content = path.read_bytes()
                    error = decoding_error(content) if check else None
                    if error is None:
                        writer.add(image.name, content, image.label)
                    elif skip is None:
                        raise ValueError(f'{path} cannot be decoded ({error}). Replace it, or leave broken images out '
                                         'with --skip-broken.')
                    else:
                        skip(f'{path} cannot be decoded ({error})')
                    on_image()
            counts[name] = write_index(folder / f'{name}.index', list_images(writer.paths)[0], split.classes,
                                       [path.name for path in writer.paths])
    return counts


def _require_space(splits: Mapping[str, Split], folder: Path) -> None:
    needed = sum((split.folder / image.name).stat().st_size for split in splits.values() for image in split.images)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ValueError(f'out: the images need {needed / 2**30:.2f} GiB, and {folder} has {free / 2**30:.2f} GiB. '
                         'Make room or choose another disk.')


def decoding_error(content: bytes) -> str | None:
    """Return the error of decoding an image, or None. JPEGs are decoded completely, at an eighth of their size."""
    try:
        with Image.open(BytesIO(content)) as image:
            image.draft('RGB', (1, 1))
            image.load()
    except Exception as error:  # Pillow's decoders raise nearly any type
        return f'{type(error).__name__}: {error}'
    return None
