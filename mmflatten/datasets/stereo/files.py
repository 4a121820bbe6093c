"""Disparity in files: PFM (SceneFlow, Middlebury) and 16-bit PNG (KITTI)."""

import re
from pathlib import Path

import cv2
import numpy as np

from mmflatten.untrusted.files import read_bytes
from mmflatten.untrusted.images import is_image

KITTI_SCALE = 256  # a KITTI PNG stores disparity in 1/256 pixels; 0 means not measured
_PFM_HEADER = re.compile(
    rb'(P[fF])\s+(\d+)\s+(\d+)\s+([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s'
)


class StereoDataError(ValueError):
    """Error of a stereo file that is missing, damaged or does not match its pair."""


def read_disparity(path: str | Path) -> np.ndarray:
    """Read disparity in pixels, (H, W) float32, from a `.pfm` or a KITTI `.png`; not finite where
    it is unknown.
    """
    readers = {'.pfm': read_pfm, '.png': read_kitti_disparity}
    suffix = Path(path).suffix.lower()
    if suffix not in readers:
        raise StereoDataError(
            f'disparity {path}: expected {" or ".join(readers)}, got {suffix or "no suffix"}.'
        )
    return readers[suffix](path)


def read_pfm(path: str | Path) -> np.ndarray:
    """Read a grey portable float map, (H, W) float32, first row on top.

    The file contains `Pf`, width, height, and a scale that is negative for little-endian numbers,
    then the rows from bottom to top.
    """
    content = read_bytes(path)
    header = _PFM_HEADER.match(content[:200])
    if header is None:
        raise StereoDataError(
            f'disparity {path}: no PFM header (Pf, width, height, scale). Copy or unpack it again.'
        )
    if header[1] != b'Pf':
        raise StereoDataError(
            f'disparity {path}: expected a PFM with one channel (Pf), got three (PF).'
        )
    width, height, scale = int(header[2]), int(header[3]), float(header[4])
    expected, size = 4 * width * height, len(content) - header.end()
    if size != expected or not expected:
        # An extra byte, such as a line end of two bytes, would shift every number.
        damage = 'is truncated' if size < expected else 'does not match its header'
        raise StereoDataError(
            f'disparity {path} {damage}: expected {expected} bytes for {width} x {height} pixels, '
            f'got {size}. Copy or unpack it again.'
        )
    values = np.frombuffer(content, '<f4' if scale < 0 else '>f4', width * height, header.end())
    return np.ascontiguousarray(values.reshape(height, width)[::-1], dtype=np.float32)


def write_pfm(path: str | Path, values: np.ndarray) -> None:
    """Write (H, W) values as a grey little-endian portable float map."""
    height, width = values.shape
    header = f'Pf\n{width} {height}\n-1.0\n'.encode('ascii')
    Path(path).write_bytes(header + np.ascontiguousarray(values[::-1], dtype='<f4').tobytes())


def read_kitti_disparity(path: str | Path) -> np.ndarray:
    """Read a KITTI disparity map, (H, W) float32 in pixels, infinite where nothing was measured (0
    in the file).
    """
    stored = decode_image(path, cv2.IMREAD_UNCHANGED)
    if stored.dtype != np.uint16 or stored.ndim != 2:
        channels = 1 if stored.ndim == 2 else stored.shape[2]
        raise StereoDataError(
            f'disparity {path}: expected a grey PNG with 16 bits, got {8 * stored.itemsize} bits'
            f' and {channels} channels.'
        )
    return np.where(stored > 0, stored.astype(np.float32) / KITTI_SCALE, np.float32(np.inf))


def read_image(path: str | Path) -> np.ndarray:
    """Read an image as (H, W, 3) uint8 BGR, like mmcv; grey images get three equal channels."""
    return decode_image(path, cv2.IMREAD_COLOR)


def read_mask(path: str | Path) -> np.ndarray:
    """Read a grey image as (H, W) bool, True where it is not 0."""
    return decode_image(path, cv2.IMREAD_GRAYSCALE) > 0


def decode_image(path: str | Path, flag: int) -> np.ndarray:
    """Decode an image file with OpenCV. Raises StereoDataError if it is damaged."""
    content = read_bytes(path)
    image = cv2.imdecode(np.frombuffer(content, np.uint8), flag) if is_image(content) else None
    if image is None:
        raise StereoDataError(
            f'image {path} cannot be decoded. Replace it or remove it from the data set.'
        )
    return image
