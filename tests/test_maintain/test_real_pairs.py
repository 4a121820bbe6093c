"""Two real stereo pairs: their disparities map the left image to the right image."""
from collections.abc import Callable

import cv2
import numpy as np
import pytest
from real_pairs import ALOE_FOLDER, StereoPair, load_aloe, load_motorcycle

ALOE = pytest.param(load_aloe, marks=pytest.mark.skipif(
    not (ALOE_FOLDER / 'aloeGT.png').is_file(), reason='the Debian package opencv-doc is not installed'))


@pytest.mark.parametrize('load', [load_motorcycle, ALOE])
def test_right_image_warped_by_disparity_resembles_left_image(load: Callable[[], StereoPair]):
    pair = load()
    valid = np.isfinite(pair.disparity)
    assert pair.left.shape == pair.right.shape == (*pair.disparity.shape, 3) and valid.mean() > 0.9
    assert 0 < pair.disparity[valid].min() and pair.disparity[valid].max() < pair.search and pair.search % 16 == 0

    def difference(sign: int) -> float:
        rows, columns = np.indices(valid.shape, dtype=np.float32)
        columns -= sign * np.where(valid, pair.disparity, np.float32(0))
        warped = cv2.remap(pair.right, columns, rows, cv2.INTER_LINEAR)
        return np.abs(pair.left.astype(float) - warped)[valid].mean()

    assert difference(1) < difference(0) / 2 < difference(-1) / 2


def test_missing_aloe_pair_names_the_package(tmp_path):
    with pytest.raises(FileNotFoundError, match='aloeL.jpg.*opencv-doc'):
        load_aloe(tmp_path)
