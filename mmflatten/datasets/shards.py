"""From a folder for each class to shards, and from folders, lists and shards to an index of them."""
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from mmflatten.datasets.archives import EXTENSIONS, WRITERS, ShardWriter, entries, folder_classes, is_image
from mmflatten.datasets.build import SPLITS, written_aside
from mmflatten.datasets.image_index import Entry, write_index
from mmflatten.datasets.lmdb_files import is_lmdb

KINDS = tuple(WRITERS)


class Split(NamedTuple):
    """Images of a split, with names below its folder, and the classes in the order of the labels."""

    folder: Path
    images: list[Entry]
    classes: list[str]


def find_splits(source: Path) -> dict[str, Split]:
    """`train` and `val` of a data set in the layout of ImageNet, as far as they are there.

    Raises FileNotFoundError where there is neither `train/` nor `val/`, and ValueError where their classes differ.
    """
    found = {}
    for split in SPLITS:
        if (source / split).is_dir():
            listed = source / 'meta' / f'{split}.txt'
            images = list(list_file(listed) if listed.is_file() else list_folder(source / split))
            if not images:
                raise ValueError(f'{listed if listed.is_file() else source / split} has no images in class folders '
                                 f'({", ".join(EXTENSIONS)})')
            found[split] = Split(source / split, images, class_folders(source / split))
    if not found:
        raise FileNotFoundError(f'{source} has neither train/ nor val/; expected are {source}/train/<class>/*.JPEG')
    if len(found) == 2 and (other := set(found['train'].classes) ^ set(found['val'].classes)):
        raise ValueError(f'train/ and val/ of {source} do not have the same classes, so labels would differ; only one '
                         f'has {sorted(other)[0]} (make an empty folder where a class has no images)')
    return found


def class_folders(folder: Path) -> list[str]:
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())


def list_folder(folder: Path) -> Iterator[Entry]:
    """The images below a folder for each class, in the order and with the labels of mmpretrain's data sets."""
    for label, name in enumerate(class_folders(folder)):
        below = (os.path.relpath(os.path.join(place, file), folder)
                 for place, _, files in os.walk(folder / name, followlinks=True) for file in files)
        for image in sorted(below):
            if is_image(image):
                yield Entry(image, label)


def list_file(path: Path) -> Iterator[Entry]:
    """The images that a text file names, `n00004475/n00004475_1.JPEG 0` in a line."""
    with open(path, encoding='utf-8', errors='surrogateescape') as lines:
        for number, line in enumerate(lines, 1):
            name, space, label = line.strip().rpartition(' ')
            if not (space and label.isdecimal()):
                raise ValueError(f'{path}, line {number}: {line.strip()[:80]!r} is not the name of an image, a space '
                                 'and the number of its class')
            yield Entry(name, int(label))


def _is_shard(source: Path) -> bool:
    return source.exists() and (is_lmdb(source) or source.is_file() and source.suffix != '.txt')


def build_index(sources: Sequence[Path], out: Path) -> int:
    """List a folder of class folders, a text file, or shards, whose names are relative to the folder of `out`.

    Returns the number of images. Raises FileExistsError where `out` is there, and what the readers raise.
    """
    if out.exists():
        raise FileExistsError(f'out ({out}) exists; remove it or name another')
    shards: list[str] = []
    classes: Sequence[str] | None = None
    if all(map(_is_shard, sources)):
        shards = [os.path.relpath(source, out.parent) for source in sources]
        classes = folder_classes(sources)
        listed = entries(sources, classes)
    elif len(sources) == 1 and sources[0].is_file():
        listed = list_file(sources[0])
    elif len(sources) == 1 and sources[0].is_dir():
        listed, classes = list_folder(sources[0]), class_folders(sources[0])
    else:
        missing = next((source for source in sources if not source.exists()), None)
        raise FileNotFoundError(f'{missing} does not exist') if missing else ValueError(
            f'{sources[0]} and {len(sources) - 1} more: give one folder, one list (.txt), or shards alone')
    with written_aside(out) as folder:
        return write_index(folder, listed, classes or (), shards)


def build_shards(splits: Mapping[str, Split], out: Path, kind: str = 'tar', shard_bytes: int = 2**30,
                 check: bool = True, skip: Callable[[str], Any] | None = None,
                 on_image: Callable[[], Any] = lambda: None) -> dict[str, int]:
    """Pack images into shards, with an index for each split; all or nothing.

    Args:
        splits: what `find_splits` found.
        kind: 'tar', which WebDataset reads too, 'zip' or 'lmdb'.
        shard_bytes: a shard is closed when it has that many.
        check: decode every image before it is written.
        skip: called with the message on an image that cannot be decoded, which is left out; None raises it.

    Returns the number of images of each split.
    """
    if out.exists():
        raise FileExistsError(f'out ({out}) exists; remove it or name another folder')
    out = out.absolute()
    out.parent.mkdir(parents=True, exist_ok=True)
    needed = sum((part.folder / image.name).stat().st_size for part in splits.values() for image in part.images)
    free = shutil.disk_usage(out.parent).free
    if needed > free:
        raise ValueError(f'the images have {needed / 2**30:.2f} GiB and {out.parent} has room for '
                         f'{free / 2**30:.2f}; make room or name a folder elsewhere')
    counts = {}
    with written_aside(out) as made:
        for name, split in splits.items():
            with ShardWriter(made, name, kind, shard_bytes) as writer:
                for image in split.images:
                    content = (split.folder / image.name).read_bytes()
                    if not check or _is_whole(content, split.folder / image.name, skip):
                        writer.add(image.name, content, image.label)
                    on_image()
            counts[name] = write_index(made / f'{name}.index', entries(writer.paths), split.classes,
                                       [path.name for path in writer.paths])
    return counts


def _is_whole(content: bytes, path: Path, skip: Callable[[str], Any] | None) -> bool:
    problem = what_is_wrong(content)
    if problem is None:
        return True
    message = f'{path} cannot be decoded ({problem})'
    if skip is None:
        raise ValueError(f'{message}; replace it, or leave such images out with --skip-broken')
    skip(message)
    return False


def what_is_wrong(content: bytes) -> str | None:
    """Why bytes are no whole image, or None; of a JPEG everything is decoded, at an eighth of its size."""
    try:
        with Image.open(BytesIO(content)) as image:
            image.draft('RGB', (1, 1))
            image.load()
    except Exception as error:  # Pillow's decoders raise nearly anything
        return f'{type(error).__name__}: {error}'
    return None
