"""Images of any number of bands and bits: TIFF, NumPy arrays, and the formats of OpenCV."""

import io
import struct
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
from mmcv.transforms import BaseTransform

from mmflatten.datasets.storage import read_rgb
from mmflatten.registry import TRANSFORMS
from mmflatten.untrusted.files import read_bytes
from mmflatten.untrusted.images import is_image
from mmflatten.untrusted.published import MAX_BANDS

ARRAY_SUFFIX = '.npy'
TIFF_SUFFIXES = ('.tif', '.tiff')
DRAWN_RANGE = (2, 98)  # percentiles of a band that are drawn as black and white
# of NumPy, tifffile and OpenCV, for damaged files
_DECODING_ERRORS = (
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    RuntimeError,
    struct.error,
    cv2.error,
)


class BandsError(ValueError):
    """A file is not an image of bands."""


def read_bands(path: str | Path) -> np.ndarray:
    """Read all bands of an image, `(H, W, C)` in the type of the file.

    Colours of PNG and JPEG files are in the order red, green, blue (and alpha), and EXIF
    orientations are not applied. Bands of an array may also come first, `(C, H, W)`, if they are
    fewer than the pixels of each side.

    Raises:
        BandsError: the file is damaged, or not an image of 1 to 64 bands of real numbers.
        OSError: the file does not exist or cannot be read.
    """
    content = read_bytes(path)
    suffix = Path(path).suffix.lower()
    try:
        if suffix == ARRAY_SUFFIX:
            image = _bands_last(np.load(io.BytesIO(content), allow_pickle=False))
        elif suffix in TIFF_SUFFIXES:
            image = _read_tiff(content)
        else:
            image = _read_colours(content)
    except _DECODING_ERRORS as error:
        raise BandsError(f'image {path}: expected an image of bands, got {error}.') from error
    if image.dtype.kind not in 'buif' or image.size == 0 or image.shape[2] > MAX_BANDS:
        raise BandsError(
            f'image {path}: expected real numbers in 1 to {MAX_BANDS} bands, got the shape'
            f' {image.shape} of {image.dtype}.'
        )
    return image


def drawn_bands(path: str | Path) -> np.ndarray:
    """Return RGB pixels `(H, W, 3)` to draw on: the first three bands, or the first one as grey,
    each stretched to 8 bits.
    """
    image = read_bands(path).astype(np.float64)
    image = image[..., :3] if image.shape[2] >= 3 else image[..., [0, 0, 0]]
    low, high = np.nanpercentile(image, DRAWN_RANGE, axis=(0, 1))
    scaled = (image - low) / np.maximum(high - low, 1e-12)
    return (np.nan_to_num(scaled).clip(0, 1) * 255).astype(np.uint8)


def read_drawable(path: str) -> np.ndarray:
    """Return RGB pixels `(H, W, 3)` to draw on, of a picture or of bands.

    Raises FileNotFoundError if the file does not exist, and ValueError if it is neither.
    """
    try:
        return read_rgb(path)
    except ValueError as error:
        try:
            return drawn_bands(path)
        except (OSError, BandsError):
            raise error from None


def _bands_last(array: np.ndarray) -> np.ndarray:
    if array.ndim == 2:
        return array[..., None]
    if array.ndim != 3:
        raise ValueError(f'an array of shape {array.shape}')
    is_first = array.shape[0] < min(array.shape[1:])
    return array.transpose(1, 2, 0) if is_first else array


def _read_tiff(content: bytes) -> np.ndarray:
    """Read the first image of a TIFF; bands may be samples of a pixel, planes, or pages of one
    size.
    """
    import tifffile

    with tifffile.TiffFile(io.BytesIO(content)) as file:
        series = file.series[0]
        array, axes = series.asarray(), series.axes
        pages = [part.asarray() for part in file.series if part.shape == series.shape]
    if array.ndim == 2 and len(pages) > 1:
        return np.stack(pages, axis=-1)
    if array.ndim == 2:
        return array[..., None]
    if array.ndim != 3 or 'Y' not in axes or 'X' not in axes:
        raise ValueError(f'a TIFF with the axes {axes} and the shape {array.shape}')
    bands = next(index for index, name in enumerate(axes) if name not in 'YX')
    return np.moveaxis(array, bands, -1)


def _read_colours(content: bytes) -> np.ndarray:
    if not is_image(content):
        raise ValueError('a file of another type')
    flags = cv2.IMREAD_UNCHANGED | cv2.IMREAD_IGNORE_ORIENTATION
    image = cv2.imdecode(np.frombuffer(content, np.uint8), flags)
    if image is None:
        raise ValueError('a damaged file')
    if image.ndim == 2:
        return image[..., None]
    # OpenCV's order is blue, green, red, alpha.
    return image[..., [2, 1, 0, *range(3, image.shape[2])]]


def read_chosen_bands(path: str | Path, bands: Sequence[int] | None = None) -> np.ndarray:
    """Read bands of an image, `(H, W, C)` float32, in the order of `bands`; None reads all.

    Errors are those of `read_bands`. BandsError also means that a band is missing.
    """
    image = read_bands(path)
    if bands is not None:
        number = image.shape[2]
        if max(bands) >= number:
            raise BandsError(f'image {path}: expected the bands {list(bands)}, got {number}.')
        image = image[..., list(bands)]
    return image.astype(np.float32)


@TRANSFORMS.register_module()
class LoadBands(BaseTransform):
    """Load all bands of `img_path` as float32 and normalise them, in place of `LoadImageFromFile`.

    The data preprocessor then needs neither mean nor standard deviation, and padding with zeros
    means the average.

    Args:
        mean: of each band; `mmflatten init --bands` computes it. None with `std` keeps the values.
        std: standard deviation of each band.
        bands: indices of the bands to use, from 0; by default all.
    """

    def __init__(
        self,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        bands: Sequence[int] | None = None,
    ) -> None:
        if (mean is None) != (std is None) or len(mean or ()) != len(std or ()):
            raise ValueError(f'mean, std: expected a number for each band, got {mean} and {std}.')
        self.mean = None if mean is None else np.array(mean, np.float32)
        self.std = None if std is None else np.array(std, np.float32)
        self.bands = None if bands is None else list(bands)

    def transform(self, results: dict) -> dict:
        path = results['img_path']
        image = read_chosen_bands(path, self.bands)
        if self.mean is not None:
            if image.shape[2] != len(self.mean):
                raise BandsError(
                    f'image {path}: expected {len(self.mean)} bands, as in mean of LoadBands, got'
                    f' {image.shape[2]}.'
                )
            image = (image - self.mean) / self.std
        results['img'] = np.ascontiguousarray(image)
        results['img_shape'] = results['ori_shape'] = image.shape[:2]
        return results
