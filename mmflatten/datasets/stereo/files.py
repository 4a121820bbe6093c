"""Disparity in files: PFM (SceneFlow, Middlebury) and 16-bit PNG (KITTI)."""
from __future__ import annotations

import re
from pathlib import Path

import cv2
import numpy as np

from mmflatten.datasets.stereo.errors import StereoDataError

KITTI_SCALE = 256  # a KITTI PNG holds the disparity in 256ths of a pixel; 0 is "not measured"
_PFM_HEADER = re.compile(rb'(P[fF])\s+(\d+)\s+(\d+)\s+([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s')
_LONGEST_HEADER = 200


def read_disparity(path: str | Path) -> np.ndarray:
    """Disparity in pixels, (H, W) float32, from a `.pfm` or a KITTI `.png`; not finite where there is none.

    Raises:
        FileNotFoundError: there is no such file.
        StereoDataError: the file is damaged or of another format.
    """
    readers = {'.pfm': read_pfm, '.png': read_kitti_disparity}
    suffix = Path(path).suffix.lower()
    if suffix not in readers:
        raise StereoDataError(f'disparity {path} has a format that is not read ({suffix or "no suffix"}); it must be '
                              f'one of {", ".join(readers)}')
    return readers[suffix](path)


def read_pfm(path: str | Path) -> np.ndarray:
    """A grey portable float map, (H, W) float32, first row on top.

    The file holds the text `Pf`, width and height, and a scale that is negative for little-endian numbers; then the
    rows from the lowest to the highest.
    """
    content = Path(path).read_bytes()
    header = _PFM_HEADER.match(content[:_LONGEST_HEADER])
    if header is None:
        raise StereoDataError(f'disparity {path} has no PFM header ("Pf", width, height, scale); copy or unpack it '
                              'again')
    if header[1] != b'Pf':
        raise StereoDataError(f'disparity {path} is a PFM of three channels (PF); a disparity has one (Pf)')
    width, height, scale = int(header[2]), int(header[3]), float(header[4])
    expected, found = 4 * width * height, len(content) - header.end()
    if found != expected or not expected:
        # One byte too many, a line end of two bytes for instance, would move every number by one byte.
        damage = 'is truncated' if found < expected else 'does not hold what its header says'
        raise StereoDataError(f'disparity {path} {damage}: {width} x {height} pixels need {expected} bytes and '
                              f'{found} are there; copy or unpack it again')
    values = np.frombuffer(content, '<f4' if scale < 0 else '>f4', width * height, header.end())
    return np.ascontiguousarray(values.reshape(height, width)[::-1], dtype=np.float32)


def write_pfm(path: str | Path, values: np.ndarray) -> None:
    """Write (H, W) numbers as a grey little-endian portable float map; the same numbers give the same bytes."""
    height, width = values.shape
    header = f'Pf\n{width} {height}\n-1.0\n'.encode('ascii')
    Path(path).write_bytes(header + np.ascontiguousarray(values[::-1], dtype='<f4').tobytes())


def read_kitti_disparity(path: str | Path) -> np.ndarray:
    """A KITTI disparity map, (H, W) float32 in pixels, infinite where nothing was measured (0 in the file)."""
    stored = decode_image(path, cv2.IMREAD_UNCHANGED)
    if stored.dtype != np.uint16 or stored.ndim != 2:
        raise StereoDataError(f'disparity {path} must be a grey PNG of 16 bits, got {8 * stored.itemsize} bits and '
                              f'{1 if stored.ndim == 2 else stored.shape[2]} channels')
    return np.where(stored > 0, stored.astype(np.float32) / KITTI_SCALE, np.float32(np.inf))


def read_image(path: str | Path) -> np.ndarray:
    """An image, (H, W, 3) uint8 BGR, as mmcv reads images; grey ones get three equal channels."""
    return decode_image(path, cv2.IMREAD_COLOR)


def read_mask(path: str | Path) -> np.ndarray:
    """A grey image as (H, W) bool, true where it is not 0."""
    return decode_image(path, cv2.IMREAD_GRAYSCALE) > 0


def decode_image(path: str | Path, flag: int) -> np.ndarray:
    """What OpenCV reads of an image file.

    Raises:
        FileNotFoundError: there is no such file.
        StereoDataError: OpenCV cannot decode it.
    """
    content = np.frombuffer(Path(path).read_bytes(), dtype=np.uint8)
    image = cv2.imdecode(content, flag) if content.size else None
    if image is None:
        raise StereoDataError(f'image {path} cannot be decoded; replace the file or take it out of the data set')
    return image
