"""Stereo metrics on hand-computed examples."""

import numpy as np
import pytest
import torch
from mmengine.evaluator import Evaluator
from mmengine.registry import METRICS
from mmengine.structures import PixelData

from mmflatten.evaluation import StereoMetric
from mmflatten.structures import StereoDataSample


def sample(true, predicted, valid=None, occlusion=None, **meta) -> StereoDataSample:
    true, predicted = (
        torch.as_tensor(values, dtype=torch.float32).reshape(1, 1, -1)
        for values in (true, predicted)
    )
    made = StereoDataSample(metainfo=meta)
    made.gt_disparity = PixelData(
        data=true,
        valid=torch.ones_like(true, dtype=torch.bool)
        if valid is None
        else torch.tensor(valid).reshape(true.shape),
    )
    if occlusion is not None:
        made.gt_disparity.set_field(torch.tensor(occlusion).reshape(true.shape), 'occlusion')
    made.pred_disparity = PixelData(data=predicted)
    return made


def evaluate(*samples, **options) -> dict:
    evaluator = Evaluator(StereoMetric(**options))
    for one in samples:
        evaluator.process([one])
    return {
        key.removeprefix('stereo/'): value
        for key, value in evaluator.evaluate(len(samples)).items()
    }


def test_stereo_metric_of_four_pixels():
    # Errors 0, 2, 4 and 4. The last is below 5 % of 100 and does not count for D1.
    figures = evaluate(sample([10, 20, 30, 100], [10, 22, 26, 96]))
    assert figures == dict(epe=2.5, bad1=75, bad3=50, d1=25, epe_mean_disparity=30)


def test_stereo_metric_thresholds_are_exclusive():
    assert evaluate(sample([10, 10, 100], [11, 13, 105])) == dict(
        epe=3,
        bad1=pytest.approx(200 / 3),
        bad3=pytest.approx(100 / 3),
        d1=0,
        epe_mean_disparity=pytest.approx(40),
    )


def test_stereo_metric_d1_is_relative_to_true_disparity():
    assert evaluate(sample([100, 100], [105.1, 94.9]))['d1'] == 100  # 5.1 is below 5 % of 105.1


def test_stereo_metric_counts_nan_as_wrong():
    figures = evaluate(sample([10, 10, 10, 10], [10, np.nan, np.nan, 10]))
    assert (figures['bad1'], figures['bad3'], figures['d1']) == (50, 50, 50)
    assert np.isnan(figures['epe'])


def test_stereo_metric_averages_over_pixels():
    figures = evaluate(sample([5], [9]), sample([5, 5, 5], [5, 5, 5]))
    assert figures['epe'] == 1 and figures['bad3'] == 25


def test_stereo_metric_ignores_invalid_and_large_disparities():
    one = sample([5, 0, 192, 191], [6, 99, 0, 191], valid=[True, False, True, True])
    assert evaluate(one)['epe'] == 0.5
    assert evaluate(one, max_disp=None)['epe'] == pytest.approx((1 + 192) / 3)
    assert evaluate(one, max_disp=6)['epe'] == 1


def test_stereo_metric_separates_occluded_pixels():
    known = sample([1, 1, 1, 1], [1, 1, 2, 5], occlusion=[False, False, False, True])
    figures = evaluate(known)
    assert (figures['epe_noc'], figures['epe_occ']) == (pytest.approx(1 / 3), 4)
    assert 'epe_noc' not in evaluate(known, sample([1], [1]))


def test_stereo_metric_constant_is_mean_true_disparity():
    rng = np.random.default_rng(0)
    truth = rng.gamma(2, 8, size=4000)
    images = [sample(part, part) for part in np.array_split(truth, 7)]
    counted = truth[truth < 60]
    expected = np.abs(counted - counted.mean()).mean()
    assert evaluate(*images, max_disp=60)['epe_mean_disparity'] == pytest.approx(expected, rel=2e-3)
    assert evaluate(*images, max_disp=60)['epe'] == 0


def test_stereo_metric_stores_results_per_image():
    metric = StereoMetric()
    for value in (0, 1, 2):
        metric.process({}, [sample([5], [5 + value]).to_dict()])
    assert len(metric.results) == 3  # MMEngine drops repeated samples of the last batch
    assert metric.compute_metrics(metric.results[:2])['epe'] == 0.5


def test_stereo_metric_is_nan_without_counted_pixels():
    assert all(np.isnan(value) for value in evaluate(sample([5], [5], valid=[False])).values())


def test_stereo_metric_rejects_invalid_max_disp():
    assert METRICS.build(dict(type='mmflatten.StereoMetric', max_disp=48)).max_disp == 48
    with pytest.raises(ValueError, match=r'max_disp.*0'):
        StereoMetric(max_disp=0)


def test_stereo_metric_rejects_missing_or_mismatched_ground_truth():
    bare = StereoDataSample(metainfo=dict(img_path='a/left.png'))
    bare.pred_disparity = PixelData(data=torch.zeros(1, 2, 2))
    with pytest.raises(ValueError, match='gt_disparity of a/left.png.*LoadDisparity'):
        evaluate(bare)
    with pytest.raises(ValueError, match=r'pred_disparity of b.png.*\(1, 1, 2\).*\(1, 1, 3\)'):
        evaluate(sample([1, 2], [1, 2, 3], img_path='b.png'))
