"""Image files: finding, decoding, comparing by content, and splitting into training and
validation.
"""

import contextlib
import hashlib
import math
import os
import struct
import sys
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from mmengine.utils import track_iter_progress
from PIL import Image

from mmflatten.console import print_progress, quiet_decoders
from mmflatten.custom_data.bands import Moments, moments_of
from mmflatten.custom_data.reading import DataError, Problem
from mmflatten.data_folders import IMAGE_SUFFIXES, OTHER_IMAGES, spelling_hint
from mmflatten.datasets.bands import ARRAY_SUFFIX, BandsError, read_bands
from mmflatten.text import shorten
from mmflatten.untrusted.files import UnusableFile, images_in, problem_of, read_bytes
from mmflatten.untrusted.images import IMAGE_FORMATS, is_image

# names of the folders of training, validation and test data, in any case
SPLITS = ({'train', 'training', 'tr'}, {'val', 'valid', 'validation', 'dev'}, {'test', 'testing'})
PROGRESS_THRESHOLD = 1000  # images
MANY_PIXELS = 2**24  # of an image
ORIENTATION, BITS_PER_SAMPLE = 0x0112, 0x0102  # tags of EXIF and TIFF
_LARGE = threading.Lock()
_PLAIN = ('1', 'L', 'P', 'RGB', 'I;16', 'I;16B')  # modes of TIFFs that training reads as they are
# Errors of Pillow and OpenCV for broken files and for images above the pixel limit.
UNREADABLE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError, cv2.error)


class Picture(NamedTuple):
    """An image file.

    Attributes:
        size: (width, height) as in training, None if the file is broken.
        digest: SHA-1 of the bytes, or the path if the file cannot be opened.
        parts: mode and pages of a TIFF of floats, 32 bits, other bands than 1 and 3, or several
            pages.
        depth: values of an image of 16 bits before and after the 8 bits of training.
        turned: orientation in the EXIF data by which training turns the image, 0 if it does not.
        transparent: share of the pixels that are not opaque, from 0 to 1.
        moments: of an image that is read with all its bands.
    """

    size: tuple[int, int] | None
    digest: str
    parts: str = ''
    depth: str = ''
    turned: int = 0
    transparent: float = 0.0
    moments: Moments | None = None

    @property
    def is_turned_within_its_size(self) -> bool:
        """Return True if the size does not tell the turned image from the stored one."""
        keeps_axes = self.turned in (2, 3, 4)
        is_square = self.size is not None and self.size[0] == self.size[1]
        return keeps_axes or (self.turned > 0 and is_square)


def find_images(folder: Path) -> list[Path]:
    """List image files below a folder, sorted, without hidden files. Raises DataError if there are
    none.
    """
    if not folder.exists():
        raise FileNotFoundError(f'folder {folder} does not exist')
    if not folder.is_dir():
        kind = problem_of(folder) or 'is a file'
        raise FileNotFoundError(f'--images {folder} {kind}. Name a folder.')
    wanted = (*IMAGE_SUFFIXES, ARRAY_SUFFIX)
    found = images_in(folder, (*wanted, *OTHER_IMAGES), deep=True)
    files = [path for path in found if path.suffix.lower() in wanted]
    others = [str(path) for path in found if path.suffix.lower() in OTHER_IMAGES]
    if others:
        raise DataError(
            f'folder {folder}: {len(others)} images of other types ({shorten(others, 3)}), which'
            ' would be left out. Rename .jfif and .jpe to .jpg, convert others to'
            f' {", ".join(IMAGE_SUFFIXES)}, or move them away.'
        )
    if not files:
        raise DataError(f'folder {folder} has no images ({", ".join(wanted)}).')
    return files


def plain_name(name: str, folder: Path) -> str:
    """Return the name of a file in a folder with `/` as separator and in Unicode's composed form;
    Windows and macOS use others. Absolute paths in the folder become relative.
    """
    plain = unicodedata.normalize('NFC', name.replace('\\', '/'))
    if os.path.isabs(plain):
        plain = os.path.realpath(plain).removeprefix(f'{os.path.realpath(folder)}/')
    return plain.removeprefix(f'{folder.name}/')


def names_by_lower_case(names: Iterable[str]) -> dict[str, str]:
    """Return names by their form in lower case, without those that share it; Windows and macOS do
    not tell them apart.
    """
    found: dict[str, str] = {}
    shared = set()
    for name in names:
        key = name.casefold()
        if key in found:
            shared.add(key)
        found[key] = name
    return {key: name for key, name in found.items() if key not in shared}


def file_names(folder: Path, files: Sequence[Path]) -> dict[str, Path]:
    """Return files below a folder by `plain_name`."""
    return {plain_name(path.relative_to(folder).as_posix(), folder): path for path in files}


def names_and_stems(folder: Path, files: Sequence[Path]) -> tuple[dict[str, Path], Counter[str]]:
    """Return `file_names`, also without suffix where only one file has the stem, and the number of
    files by stem.
    """
    names = file_names(folder, files)
    stems = Counter(os.path.splitext(name)[0] for name in names)
    found = {}
    for name, path in names.items():
        stem = os.path.splitext(name)[0]
        if stems[stem] == 1:
            found[stem] = path
    # A full name has priority over an equal stem.
    return found | names, stems


def split_folders(folders: Sequence[Path]) -> list[Path]:
    """Resolve the folders for training and validation, or the only one; its folders named as splits
    are these two.

    Raises DataError for ambiguous splits, or if there is none for training.
    """
    roots = [Path(folder).resolve() for folder in folders]
    if len(roots) != 1 or not roots[0].is_dir():
        return roots
    folders = [path for path in sorted(roots[0].iterdir()) if path.is_dir()]
    inside = [path for path in folders if not path.name.startswith('.')]
    train, val, test = (_named_as(inside, names) for names in SPLITS)
    others = len(inside) - len(train) - len(val) - len(test)
    is_split = not others and bool(train or val) and bool(val or test)
    # Classes may have these names, so other folders, or `train` or `test` alone, make no split.
    if not is_split:
        return roots
    if len(train) != 1 or len(val or test) != 1:
        raise DataError(
            f'--images {roots[0]}: expected one folder for training and one for validation, got '
            f'{shorten([path.name for path in inside])}. Name the two: --images TRAIN VALIDATION.'
        )
    if val and test:
        print_progress(
            f'not used: {shorten([*map(str, test)])}, a split beside {train[0].name} and'
            f' {val[0].name}'
        )
    return [*train, *(val or test)]


def _named_as(folders: Sequence[Path], names: set[str]) -> list[Path]:
    return [path for path in folders if path.name.lower() in names]


def read_pictures(
    paths: Iterable[Path], known: dict[Path, Picture] | None = None, bands: bool = False
) -> dict[Path, Picture]:
    """Read each file once; missing files are left out.

    Args:
        known: a cache, to which new files are added.
        bands: read all bands, as `LoadBands` does in training.
    """
    known = {} if known is None else known
    wanted = [path for path in dict.fromkeys(paths) if os.path.lexists(path)]
    paths = [path for path in wanted if path not in known]
    # OpenCV and Pillow release the GIL while decoding
    with quiet_decoders(), ThreadPoolExecutor() as pool:
        pictures = pool.map(_read_bands if bands else _read, paths)
        if len(paths) >= PROGRESS_THRESHOLD:
            pictures = track_iter_progress((pictures, len(paths)), file=sys.stderr)
        known |= zip(paths, list(pictures))
    return {path: known[path] for path in wanted}


def _read(path: Path) -> Picture:
    try:
        content = read_bytes(path)
    except (OSError, UnusableFile):
        return Picture(None, str(path))
    digest = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    size, parts, depth, turned, transparent = None, '', '', 0, 0.0
    with contextlib.suppress(*UNREADABLE), opened(content) as image:
        orientation = stored_orientation(image)
        image.load()  # fails for a truncated file, which OpenCV fills with grey
        if image.format == 'TIFF' and (image.mode not in _PLAIN or image.n_frames > 1):
            parts = f'mode {image.mode} of Pillow, {image.n_frames} pages'
        bits = _bits(image, content)
        if not parts:  # which tells of a fourth band
            transparent = _transparent_share(image)
        is_tiff = image.format == 'TIFF'
        if not is_tiff:
            orientation = stored_orientation(image)  # a PNG may have it behind its pixels
        image.close()
        # as mmcv reads it for a training
        pixels = _decoded(content, cv2.IMREAD_COLOR)
        size = None if pixels is None else pixels.shape[1::-1]
        if pixels is not None and bits > 8 and not parts:
            depth = _kept_values(content, pixels)
        if orientation != 1 and pixels is not None:
            stored = _decoded(content, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
            # OpenCV turns a TIFF with this flag, too.
            turned = orientation if is_tiff or not np.array_equal(pixels, stored) else 0
    return Picture(size, digest, parts, depth=depth, turned=turned, transparent=transparent)


def _read_bands(path: Path) -> Picture:
    try:
        content = read_bytes(path)
    except (OSError, UnusableFile):
        return Picture(None, str(path))
    digest = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    try:
        image = read_bands(path)
    except BandsError:
        return Picture(None, digest)
    return Picture(image.shape[1::-1], digest, moments=moments_of(image))


def _decoded(content: bytes, flags: int) -> np.ndarray | None:
    return cv2.imdecode(np.frombuffer(content, np.uint8), flags)


def _bits(image: Image.Image, content: bytes) -> int:
    """Return the bits of a value in the file, which Pillow's modes do not tell."""
    if image.format == 'PNG':
        return content[24]  # in the header, behind the sides
    if image.format == 'TIFF':
        return int(np.max(image.tag_v2.get(BITS_PER_SAMPLE, 1)))
    # Pillow reads colours of 16 bits in a PPM as 8; the decoder of `_kept_values` tells them apart.
    return 16 if image.format == 'PPM' else 8


def _transparent_share(image: Image.Image) -> float:
    if not image.has_transparency_data:
        return 0.0
    alpha = np.asarray(image.convert('RGBA').getchannel('A'))
    return float(np.mean(alpha < 255))


def stored_orientation(image: Image.Image) -> int:
    """Return the orientation in the EXIF data or the tags of a TIFF, 1 (upright) without readable
    data.

    Pillow turns a TIFF when it loads the pixels, and forgets the orientation.
    """
    with contextlib.suppress(*UNREADABLE, struct.error, LookupError, TypeError):
        return image.getexif().get(ORIENTATION, 1)
    return 1


def _kept_values(content: bytes, pixels: np.ndarray) -> str:
    """Describe the values of a file of 16 bits, and those that training reads of them."""
    stored = _decoded(content, cv2.IMREAD_UNCHANGED)
    if stored is None or stored.dtype == np.uint8:
        return ''
    before, after = len(np.unique(stored)), len(np.unique(pixels))
    return f'{before} values up to {stored.max()} become {after} up to {pixels.max()}'


@contextlib.contextmanager
def opened(content: bytes) -> Iterator[Image.Image]:
    """Open an image or raise one of `UNREADABLE`."""
    if not is_image(content):
        raise ValueError('expected an image')
    with Image.open(BytesIO(content), formats=IMAGE_FORMATS) as image:
        # A large image occupies gigabytes, so the threads decode such images one after another.
        is_large = image.width * image.height > MANY_PIXELS
        with _LARGE if is_large else contextlib.nullcontext():
            yield image


def picture_problems(pictures: Mapping[Path, Picture], *sides: Iterable[Path]) -> list[Problem]:
    """Report broken files and duplicates, within the training or the validation images and
    across.
    """
    training: dict[str, Path] = {}
    validation: dict[str, Path] = {}
    repeated = []
    for first, side in zip((training, validation), sides):
        repeated += _find_repeated(pictures, side, first)
    shared = []
    for digest, path in validation.items():
        if digest in training:
            shared.append(f'{training[digest]} = {path}')

    broken, unread, cut = [], [], []
    deep = [f'{path} ({picture.depth})' for path, picture in pictures.items() if picture.depth]
    see_through = []
    for path, picture in pictures.items():
        if picture.transparent:
            see_through.append(f'{path} ({picture.transparent:.0%} of the pixels)')
        if picture.parts and picture.size:
            cut.append(f'{path} ({picture.parts})')
        elif picture.parts:
            unread.append(f'{path} ({picture.parts})')
        elif picture.size is None:
            broken.append(str(path))

    problems = [
        Problem(
            name='broken image',
            where=broken,
            fix='replace it or remove it from the annotations; it is truncated, not an image that'
            ' Pillow supports (such as a TIFF of doubles or float colours, or a .npy array, which'
            ' --bands reads), a broken link, a pipe or device, not readable, or above the pixel'
            ' limit',
        ),
        Problem(
            name='TIFF that training cannot read',
            where=unread,
            fix='convert it to 8 bits of grey or RGB, or read all bands with --bands',
        ),
        Problem(
            name='TIFF of which training reads a part',
            where=cut,
            fix='it drops a fourth band and further pages; --bands reads all',
            stops=False,
        ),
        Problem(
            name='image of 16 bits of which training reads 8',
            where=deep,
            fix='training divides the values by 256; read them all with --bands, stretch them to 0'
            ' to 65535, or convert the range that matters to 8 bits',
            stops=False,
        ),
        Problem(
            name='image with transparent pixels, of which training reads the hidden colours',
            where=see_through,
            fix='viewers show what lies behind them; draw the image on a background',
            stops=False,
        ),
        Problem(
            name='leakage: same image in training and validation',
            where=shared,
            fix='remove it from one of them, or pass one annotation file or folder that --val-share'
            ' splits',
        ),
        Problem(name='same image twice', where=repeated, fix='it counts twice', stops=False),
    ]
    return [problem for problem in problems if problem.where]


def _find_repeated(
    pictures: Mapping[Path, Picture], side: Iterable[Path], first: dict[str, Path]
) -> list[str]:
    """Return the images that repeat another one; `first` receives the first image by digest."""
    repeated = []
    for path in side:
        if path not in pictures:
            continue
        original = first.setdefault(pictures[path].digest, path)
        if original != path:
            repeated.append(f'{original} = {path}')
    return repeated


def turned_images(
    pictures: Mapping[Path, Picture], labels: str, sizes_are_listed: bool = True
) -> list[Problem]:
    """Report images that training turns by their EXIF orientation, while their labels may belong to
    the stored pixels.

    Args:
        labels: kind of the labels, for the message.
        sizes_are_listed: the labels have the size of the image, so that an error of the size
            reports quarter turns of images that are not square.
    """
    turned = []
    for path, picture in pictures.items():
        if picture.is_turned_within_its_size or (picture.turned and not sizes_are_listed):
            turned.append(f'{path} (orientation {picture.turned})')
    if not turned:
        return []
    fix = (
        f'training turns the image by its EXIF orientation, and not its {labels}: if they were'
        ' drawn on the stored pixels, remove the tag or turn the image (exiftran -ai,'
        ' ImageOps.exif_transpose of Pillow)'
    )
    return [Problem(name='image turned by EXIF', where=turned, fix=fix, stops=False)]


def missing(place: str | Path, name: str) -> str:
    """Return the place of a missing file, with a hint on the spelling of its name in the labels if
    there is one.
    """
    hint = spelling_hint(name)
    return f'{place} ({hint})' if hint else str(place)


def too_thin(pictures: Mapping[Path, Picture], base: Mapping[str, Any] | None) -> list[Problem]:
    """Report images of which the `Resize` of a base's training would leave no pixel, such as 3000 x
    1.
    """
    longest = _smallest_resize((base or {}).get('train_dataloader'))
    if not longest:
        return []
    thin = []
    for path, picture in pictures.items():
        size = picture.size
        if size and longest * min(size) / max(size) < 0.5:
            thin.append(f'{path} ({size[0]} x {size[1]})')
    if not thin:
        return []
    fix = f'crop it, or leave it out; resized to {longest:g} pixels, its shorter side has none'
    return [Problem(name='image too thin to resize', where=thin, fix=fix)]


def _smallest_resize(loader: Any) -> float:
    """Return the smallest length in pixels to which a pipeline resizes a longer side, 0 if there is
    no resizing.
    """
    lengths = []
    for step in _steps(loader):
        if 'Resize' not in str(step.get('type')):
            continue
        ratio = min(step.get('ratio_range') or [1])
        for name in ('scale', 'scales'):
            if step.get(name):
                lengths.append(max(np.ravel(step[name])) * ratio)
    return min(lengths, default=0)


def _steps(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the dictionaries in nested containers."""
    parts: Iterable[Any] = ()
    if isinstance(value, Mapping):
        yield value
        parts = value.values()
    elif isinstance(value, (list, tuple)):
        parts = value
    for part in parts:
        yield from _steps(part)


def split(pictures: Mapping[Path, Picture], val_fraction: float) -> tuple[list[Path], list[Path]]:
    """Split files into training and validation, the same on every machine. Duplicates stay
    together.
    """
    # a reproducible random order
    digests = sorted({picture.digest for picture in pictures.values()})
    if len(digests) < 2:
        raise DataError(
            '--images: expected at least two different images to split into training and'
            f' validation, got {shorten([*map(str, pictures)], 3)}.'
        )
    # Each part has at least one image.
    count = min(max(round(val_fraction * len(digests)), 1), len(digests) - 1)
    chosen = set(digests[:count])
    train = [path for path, picture in pictures.items() if picture.digest not in chosen]
    val = [path for path, picture in pictures.items() if picture.digest in chosen]
    return train, val


def size_range(pictures: Mapping[Path, Picture]) -> str:
    """Format the range of the image sizes."""
    different = {picture.size for picture in pictures.values() if picture.size}
    if not different:
        return 'unknown'
    sizes = sorted(different, key=math.prod)
    text = [f'{width} x {height}' for width, height in sizes]
    return text[0] if len(text) == 1 else f'{text[0]} to {text[-1]} ({len(text)} sizes)'
