"""Two real stereo pairs with measured disparity, shipped by packages, to test networks trained on rendered pairs.

Motorcycle (Scharstein et al., *High-Resolution Stereo Datasets with Subpixel-Accurate Ground Truth*, GCPR 2014) is in
scikit-image's wheel. Aloe (Scharstein and Pal, *Learning Conditional Random Fields for Stereo*, CVPR 2007) is among the
examples of OpenCV's Debian package `opencv-doc`. Both are of Middlebury College.
"""
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from mmflatten.datasets.scenes.source import skimage_file
from mmflatten.datasets.stereo.files import decode_image, read_image

ALOE_FOLDER = Path('/usr/share/doc/opencv-doc/examples/data')


@dataclass(frozen=True, eq=False)
class StereoPair:
    """A rectified pair: `left[y, x]` shows the same point as `right[y, x - disparity[y, x]]`.

    Attributes:
        left, right: (H, W, 3) uint8 BGR.
        disparity: (H, W) float32 in pixels, NaN where it was not measured.
        search: search range of all methods, a multiple of 16 above the largest disparity.
    """

    name: str
    left: np.ndarray
    right: np.ndarray
    disparity: np.ndarray
    search: int


def load_motorcycle() -> StereoPair:
    """Load 500 x 741 pixels with disparities of 7.2 to 59.9 pixels. Raises ImportError without scikit-image."""
    left, right = (read_image(skimage_file(f'motorcycle_{side}.png')) for side in ('left', 'right'))
    disparity = np.load(skimage_file('motorcycle_disp.npz'))['arr_0'].astype(np.float32)
    return StereoPair('Motorcycle', left, right, np.where(np.isfinite(disparity), disparity, np.nan), 64)


def load_aloe(folder: Path = ALOE_FOLDER) -> StereoPair:
    """Load at half size, 555 x 641 pixels with disparities of 21.5 to 105.5 pixels.

    Raises:
        FileNotFoundError: a file is missing in `folder`.
    """
    missing = [name for name in ('aloeL.jpg', 'aloeR.jpg', 'aloeGT.png') if not (folder / name).is_file()]
    if missing:
        raise FileNotFoundError(f'{folder / missing[0]} does not exist. Install the Debian package opencv-doc, or name '
                                'the folder of its examples/data.')
    left, right = (cv2.resize(read_image(folder / name), None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
                   for name in ('aloeL.jpg', 'aloeR.jpg'))
    whole = decode_image(folder / 'aloeGT.png', cv2.IMREAD_GRAYSCALE)[::2, ::2].astype(np.float32)
    return StereoPair('Aloe', left, right, np.where(whole > 0, whole / 2, np.nan), 112)
