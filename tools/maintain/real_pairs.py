"""Two real stereo pairs with measured disparity, which come with packages: a test of networks trained on rendered ones.

Motorcycle (Scharstein et al., *High-Resolution Stereo Datasets with Subpixel-Accurate Ground Truth*, GCPR 2014) is in
scikit-image's wheel, Aloe (Scharstein and Pal, *Learning Conditional Random Fields for Stereo*, CVPR 2007) among the
examples of OpenCV's Debian package `opencv-doc`. Both are of Middlebury College.
"""
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from mmflatten.datasets.packages import skimage_file
from mmflatten.datasets.stereo.files import decode_image, read_image

ALOE_FOLDER = Path('/usr/share/doc/opencv-doc/examples/data')


@dataclass(frozen=True, eq=False)
class StereoPair:
    """A rectified pair: ``left[y, x]`` shows what ``right[y, x - disparity[y, x]]`` shows.

    ``left`` and ``right`` are (H, W, 3) uint8 BGR; ``disparity`` is (H, W) float32 in pixels, NaN where it was not
    measured; ``search`` is a multiple of 16 above all disparities, which every method may know.
    """

    name: str
    left: np.ndarray
    right: np.ndarray
    disparity: np.ndarray
    search: int


def load_motorcycle() -> StereoPair:
    """500 x 741 pixels, disparities of 7.2 to 59.9 pixels. Raises ImportError without scikit-image."""
    left, right = (read_image(skimage_file(f'motorcycle_{side}.png')) for side in ('left', 'right'))
    disparity = np.load(skimage_file('motorcycle_disp.npz'))['arr_0'].astype(np.float32)
    return StereoPair('Motorcycle', left, right, np.where(np.isfinite(disparity), disparity, np.nan), 64)


def load_aloe(folder: Path = ALOE_FOLDER) -> StereoPair:
    """Halved to 555 x 641 pixels: disparities of 21.5 to 105.5 pixels, in halves.

    Raises FileNotFoundError where the three files are not in ``folder``.
    """
    missing = [name for name in ('aloeL.jpg', 'aloeR.jpg', 'aloeGT.png') if not (folder / name).is_file()]
    if missing:
        raise FileNotFoundError(f'{folder / missing[0]} does not exist; install the Debian package opencv-doc, or name '
                                'the folder of its examples/data')
    left, right = (cv2.resize(read_image(folder / name), None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
                   for name in ('aloeL.jpg', 'aloeR.jpg'))
    whole = decode_image(folder / 'aloeGT.png', cv2.IMREAD_GRAYSCALE)[::2, ::2].astype(np.float32)
    return StereoPair('Aloe', left, right, np.where(whole > 0, whole / 2, np.nan), 112)


def warp_right(pair: StereoPair, disparity: np.ndarray) -> np.ndarray:
    """The right picture as the left camera would see it by disparities (H, W) without NaN; (H, W, 3) uint8."""
    rows, columns = np.indices(disparity.shape, dtype=np.float32)
    return cv2.remap(pair.right, columns - disparity.astype(np.float32), rows, cv2.INTER_LINEAR)
