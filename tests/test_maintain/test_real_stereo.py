"""The tool that tries a stereo network on real pairs: its rivals, and how a network of a shorter range is asked."""
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from real_pairs import StereoPair, load_motorcycle


@pytest.fixture(scope='module')
def tool(load_tool) -> ModuleType:
    return load_tool('real_stereo')


def test_matching_beats_a_constant_on_a_real_pair(tool):
    methods = dict(constant=tool.median_disparity, semi_global=tool.semi_global_matching)
    (_, _, constant, constant_d1), (_, _, matched, matched_d1) = tool.rows(load_motorcycle(), methods)
    assert float(matched) < float(constant) / 3 and float(matched_d1) < float(constant_d1) / 3


def test_a_network_of_a_shorter_range_sees_a_smaller_pair(tool):
    shapes = []

    def predict(views):
        shapes.extend(view.shape for view in views)
        assert views[0][0, 0].tolist() == [3, 2, 1], 'RGB, as the predictor takes pixels'
        return SimpleNamespace(pred_disparity=SimpleNamespace(data=torch.full((1, *views[0].shape[:2]), 10.)))

    predict.cfg = SimpleNamespace(model=SimpleNamespace(max_disp=48))
    view = np.broadcast_to(np.uint8([1, 2, 3]), (60, 90, 3))
    pair = StereoPair('x', view, view, np.full((60, 90), 30, np.float32), search=112)
    np.testing.assert_allclose(tool.network(predict, pair), 30)
    assert shapes == [(20, 30, 3), (20, 30, 3)]
