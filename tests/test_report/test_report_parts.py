"""Layers of samples, charts of analyses, and how large a page may become."""
import pickle
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from mmflatten.report.detection import layers
from mmflatten.report.figures import chart_of
from mmflatten.results.figures import Bars, Confusion, Histogram, PrecisionRecall


@pytest.fixture
def pairs(tmp_path) -> Path:
    """A work dir with nothing but the predictions of 50 stereo pairs, photographs of 640 x 480."""
    rng = np.random.default_rng(0)
    true = dict(data=torch.linspace(1, 60, 480 * 640).view(1, 480, 640), valid=torch.ones(1, 480, 640).bool())
    entries = []
    for number in range(50):
        coarse = rng.integers(0, 256, (48, 64, 3), np.uint8)
        path = str(tmp_path / f'{number:02d}.jpg')
        cv2.imwrite(path, cv2.resize(coarse, (640, 480), interpolation=cv2.INTER_CUBIC))
        entries.append(dict(img_path=path, ori_shape=(480, 640), gt_disparity=true,
                            pred_disparity=dict(data=true['data'] + number / 10)))
    work_dir = tmp_path / 'stereo'
    work_dir.mkdir()
    (work_dir / 'results.pkl').write_bytes(pickle.dumps(entries))
    return work_dir


def test_fifty_large_photographs_stay_under_15_mb(pairs, written):
    page = written(pairs, '--images', '50')
    assert page.size < 15e6
    assert len(page.all('figure', class_='sample')) == 50
    assert len(page.all('img')) == 50 * 4  # the left image, truth, prediction, error
    assert [text for _, text in page.all('button', class_='toggle')] == ['Truth', 'Prediction', 'Error']
    captions = [text for _, text in page.all('figcaption')]
    assert captions[-50].startswith('49.jpg worst, 4.9') and sum('random' in text for text in captions) == 25


def test_instances_are_outlines_with_class_and_score():
    entry = dict(gt_instances=dict(bboxes=torch.tensor([[1., 2, 5, 8]]), labels=torch.tensor([1])),
                 pred_instances=dict(bboxes=torch.tensor([[1., 2, 5, 8.04], [0, 0, 9, 9]]), labels=torch.tensor([0, 1]),
                                     scores=torch.tensor([0.9, 0.2])))
    results = type('Results', (), dict(origin=dict(classes=['cat', '<b>']), names=None))
    (truth, prediction), names = layers(results, entry, None, 0.3)
    assert [(shape['name'], shape['path']) for shape in truth.shapes] == [('<b>', 'M1.0 2.0H5.0V8.0H1.0Z')]
    assert [(shape['name'], shape['path']) for shape in prediction.shapes] == [('cat 0.90', 'M1.0 2.0H5.0V8.0H1.0Z')]
    assert names == ['<b>', 'cat']


@pytest.mark.parametrize('plot, axis, values', [
    (Confusion(np.array([[3, 1], [0, 0]]), ['a', 'b']), 'z', [[.75, .25], [0, 0]]),
    (PrecisionRecall(np.array([0., 1]), dict(mean=np.array([1., np.nan])), 'mean'), 'y', [1, None]),
    (Bars(dict(a=.5, b=float('nan')), 'IoU'), 'x', [.5, None]),
    (Histogram(np.array([0, 1, 2]), np.array([7, 8]), 'error'), 'y', [7, 8])])
def test_charts_have_the_numbers_of_the_analysis(plot, axis, values):
    chart = chart_of(plot, 'title', 'run')
    assert chart.data[0][axis] == values and chart.alt
