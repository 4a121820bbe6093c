"""Comparison of stereo methods on real pairs: the pairs, the block matchers, and the scale of a network."""
from collections.abc import Callable
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import real_stereo
import torch
from real_stereo import ALOE_FOLDER, StereoPair, load_aloe, load_motorcycle

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
    with pytest.raises(FileNotFoundError, match='aloeL.jpg'):
        load_aloe(tmp_path)


def test_semi_global_matching_beats_a_constant():
    methods = dict(constant=real_stereo.median_disparity, semi_global=real_stereo.semi_global_matching)
    (_, _, constant, constant_d1), (_, _, matched, matched_d1) = real_stereo.rows(load_motorcycle(), methods)
    assert float(matched) < float(constant) / 3 and float(matched_d1) < float(constant_d1) / 3


def test_network_with_a_smaller_range_gets_a_smaller_pair():
    shapes = []

    def predict(views):
        shapes.extend(view.shape for view in views)
        assert views[0][0, 0].tolist() == [3, 2, 1], 'RGB, as the predictor takes pixels'
        return SimpleNamespace(pred_disparity=SimpleNamespace(data=torch.full((1, *views[0].shape[:2]), 10.)))

    predict.cfg = SimpleNamespace(model=SimpleNamespace(max_disp=48))
    view = np.broadcast_to(np.uint8([1, 2, 3]), (60, 90, 3))
    pair = StereoPair('x', view, view, np.full((60, 90), 30, np.float32), search=112)
    np.testing.assert_allclose(real_stereo.network(predict, pair), 30)
    assert shapes == [(20, 30, 3), (20, 30, 3)]
