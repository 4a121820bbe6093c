"""Two real stereo pairs: that their disparities lead from the left picture to the right one."""
from collections.abc import Callable

import numpy as np
import pytest

from mmflatten.datasets.stereo.real_pairs import ALOE_FOLDER, StereoPair, load_aloe, load_motorcycle, warp_right

ALOE = pytest.param(load_aloe, marks=pytest.mark.skipif(
    not (ALOE_FOLDER / 'aloeGT.png').is_file(), reason='the Debian package opencv-doc is not there'))


@pytest.mark.parametrize('load', [load_motorcycle, ALOE])
def test_warping_by_the_disparity_explains_the_left_picture(load: Callable[[], StereoPair]):
    pair = load()
    valid = np.isfinite(pair.disparity)
    assert pair.left.shape == pair.right.shape == (*pair.disparity.shape, 3) and valid.mean() > 0.9
    assert 0 < pair.disparity[valid].min() and pair.disparity[valid].max() < pair.search and pair.search % 16 == 0

    def difference(sign: int) -> float:
        warped = warp_right(pair, sign * np.where(valid, pair.disparity, 0))
        return np.abs(pair.left.astype(float) - warped)[valid].mean()

    assert difference(1) < difference(0) / 2 < difference(-1) / 2


def test_a_missing_pair_is_named_with_the_package(tmp_path):
    with pytest.raises(FileNotFoundError, match='aloeL.jpg.*opencv-doc'):
        load_aloe(tmp_path)
