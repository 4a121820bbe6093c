"""Predictor and commands on exported files: results of known graphs, and those of checkpoints."""

import csv
import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.fileio import load

from mmflatten.apis import Predictor
from mmflatten.cli.export import main as export
from mmflatten.cli.predict import main as predict
from mmflatten.cli.test import main as evaluate
from mmflatten.export.wrappers import ExportError
from mmflatten.predict.predictor import PredictionError
from mmflatten.runtime import RUNTIMES
from mmflatten.runtime.model import FileModel


@pytest.mark.parametrize('runtime', RUNTIMES)
def test_classes_of_photos_of_several_sizes(write_file, photo, runtime):
    predictor = Predictor(write_file(), runtime=runtime)
    photos = [photo, photo[:40], photo, photo[:, :50]]
    for pixels, sample in zip(photos, predictor.predict(photos, batch_size=4), strict=True):
        expected = torch.from_numpy(pixels).float().mean((0, 1)) / 255
        torch.testing.assert_close(sample.pred_score, expected, rtol=1e-5, atol=1e-6)
        assert sample.pred_label.tolist() == [int(expected.argmax())]
    assert predictor.classes == ('red', 'green', 'blue')


def test_detections_in_the_photo_before_resizing(write_file, photo):
    resize = dict(resize=dict(scale=[160, 120], keep_ratio=True))
    predictor = Predictor(write_file('detection', transforms=resize))
    instances = predictor(photo).pred_instances
    # The photo is enlarged twice. Boxes are clipped to it, and the row of padding is missing.
    assert instances.bboxes.tolist() == [[5, 10, 25, 30], [15, 0, 80, 20]]
    assert instances.labels.tolist() == [2, 0]
    scores = photo.reshape(-1, 3).mean(0)[:2] / 255
    np.testing.assert_allclose(instances.scores, scores, atol=1e-3)
    assert instances.masks.shape == (2, 48, 80)
    np.testing.assert_array_equal(instances.masks[0], photo[..., 0] > 127)
    np.testing.assert_array_equal(instances.masks[1], photo[..., 1] > 127)


def test_label_map_of_the_photo_before_resizing(write_file, photo):
    resize = dict(resize=dict(scale=[160, 120], keep_ratio=True))
    sample = Predictor(write_file('segmentation', transforms=resize))(photo)
    # The logits of the enlarged photo are reduced, not its labels: a pixel is the mean of four.
    enlarged = cv2.resize(photo, (160, 96), interpolation=cv2.INTER_LINEAR)
    logits = enlarged.reshape(48, 2, 80, 2, 3).mean((1, 3))
    np.testing.assert_array_equal(sample.pred_sem_seg.data[0], logits.argmax(-1))


def test_segments_of_the_photo_before_resizing(write_file, photo):
    resize = dict(resize=dict(scale=[160, 120], keep_ratio=True))
    sample = Predictor(write_file('panoptic', transforms=resize))(photo)
    # Segments are numbers: none between those of two neighbours appears.
    segments = sample.pred_panoptic_seg.sem_seg
    assert segments.shape == (1, 48, 80)
    np.testing.assert_array_equal(segments[0, :, [0, 79]], photo[:, [0, 79], 0])


def test_disparity_of_a_pair(write_file, photo):
    left, right = photo, photo // 2
    sample = Predictor(write_file('stereo'))((left, right))
    expected = (left.astype(np.float32) - right).mean(-1)
    np.testing.assert_allclose(sample.pred_disparity.data[0], expected, rtol=1e-5)


def test_fixed_size_pads_detections_and_label_maps_with_the_mean_colour(write_file, photo):
    fixed = dict(sides=None, batch=None, size=[64, 96])
    samples = Predictor(write_file('detection', **fixed)).predict([photo, photo], batch_size=2)
    for sample in samples:
        instances = sample.pred_instances
        assert instances.masks.shape == (2, 48, 80)
        assert instances.bboxes[1].tolist() == [30, 0, 80, 40]
        padded = (photo[..., 0].sum() + 123.675 * (64 * 96 - 48 * 80)) / (64 * 96 * 255)
        assert instances.scores[0].item() == pytest.approx(padded, rel=1e-4)
    sample = Predictor(write_file('segmentation', **fixed))(photo)
    np.testing.assert_array_equal(sample.pred_sem_seg.data[0], photo.argmax(-1))
    with pytest.raises(PredictionError, match='size:.*64 x 96.*100 x 80'):
        Predictor(write_file('detection', **fixed))(np.zeros((100, 80, 3), np.uint8))
    with pytest.raises(PredictionError, match='size:.*64 x 96.*48 x 80'):
        Predictor(write_file(**fixed))(photo)


def test_small_photo_fails_alone(write_file, photo):
    predictor = Predictor(write_file())
    first, second = predictor.predict([photo[:20], photo], batch_size=2)
    assert isinstance(first, PredictionError)
    assert 'size' in str(first) and '33' in str(first) and '20 x 80' in str(first)
    assert second.pred_label.tolist() == [1]


@pytest.mark.parametrize(
    ('changes', 'arguments', 'message'),
    [
        (dict(task='features'), {}, 'task:.*features'),
        (dict(outputs=['logits']), {}, 'outputs:.*probabilities.*logits'),
        (dict(inputs=['left', 'right']), {}, 'inputs:.*left, right'),
        (dict(transforms=None), {}, 'transforms:.*config'),
        ({}, dict(device='cuda'), 'device:.*cuda'),
        ({}, dict(runtime='tvm'), 'runtime:.*tvm'),
    ],
)
def test_file_that_cannot_predict_is_named(write_file, changes, arguments, message):
    with pytest.raises(ValueError, match=message):
        Predictor(write_file(**changes), **arguments)


def test_preprocessor_beside_a_file_is_an_error(write_file):
    with pytest.raises(ExportError, match='data_preprocessor:'):
        FileModel(write_file(), data_preprocessor=dict(type='ClsDataPreprocessor'))


def test_predict_command_writes_the_results_of_the_task(write_file, photo, tmp_path, capsys):
    photos = tmp_path / 'photos'
    photos.mkdir()
    for name in 'ab':
        cv2.imwrite(str(photos / f'{name}.png'), photo[..., ::-1])
    out = tmp_path / 'out'
    assert predict([write_file(), str(photos), '--out', str(out), '--runtime', 'openvino']) == 0
    with open(out / 'classes.csv', newline='') as file:
        rows = list(csv.reader(file))
    assert [row[1] for row in rows] == ['class_1', 'green', 'green']
    file = write_file('detection')
    assert predict([file, str(photos), '--out', str(out), '--batch', '2', '--score', '0.45']) == 0
    coco = json.loads((out / 'predictions.json').read_text())
    assert [category['name'] for category in coco['categories']] == ['red', 'green', 'blue']
    assert [entry['category_id'] for entry in coco['annotations']] == [0, 0]
    assert (out / 'drawings' / 'b.png').is_file()
    with pytest.raises(SystemExit) as stopped:
        predict([file, '--out', str(out)])
    assert stopped.value.code == 2
    assert 'INPUT' in capsys.readouterr().err


def test_runtime_of_a_checkpoint_is_an_error(train_on, tmp_path, capsys):
    run = train_on('flatten-swin-nano_digits')
    assert evaluate([run.config, run.checkpoint, '--runtime', 'openvino']) == 1
    assert 'runtime' in capsys.readouterr().err.splitlines()[-1]


def test_file_of_other_classes_or_task_is_named(train_on, write_file, capsys):
    config = train_on('flatten-swin-nano_digits').config
    assert evaluate([config, write_file()]) == 1
    assert 'red' in capsys.readouterr().err.splitlines()[-1]
    assert evaluate([config, write_file('segmentation')]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert 'task' in error and 'segmentation' in error


def assert_same(found, expected, tolerance):
    """Compare stored predictions of a file with those of the checkpoint."""
    for ours, theirs in zip(found, expected, strict=True):
        assert ours['img_path'] == theirs['img_path']
        if 'pred_score' in theirs:
            torch.testing.assert_close(
                ours['pred_score'], theirs['pred_score'], rtol=0, atol=tolerance
            )
        elif 'pred_sem_seg' in theirs:
            differs = ours['pred_sem_seg']['data'] != theirs['pred_sem_seg']['data']
            assert differs.float().mean() < 1e-3
        elif 'pred_panoptic_seg' in theirs:
            differs = ours['pred_panoptic_seg']['sem_seg'] != theirs['pred_panoptic_seg']['sem_seg']
            assert differs.float().mean() < 1e-3
        else:
            ours, theirs = ours['pred_instances'], theirs['pred_instances']
            assert ours['labels'].tolist() == theirs['labels'].tolist()
            torch.testing.assert_close(ours['scores'], theirs['scores'], rtol=0, atol=1e-4)
            torch.testing.assert_close(ours['bboxes'], theirs['bboxes'], rtol=0, atol=1e-2)
            assert len(ours['masks']) == len(theirs['masks'])


NAMES = (
    'flatten-swin-nano_digits',
    pytest.param('semantic-fpn_flatten-swin-nano_digits', marks=pytest.mark.full),
    pytest.param('mask-rcnn_flatten-swin-nano_fpn_digits', marks=pytest.mark.full),
    pytest.param('encoder-mask_flatten-swin-nano_digits-panoptic', marks=pytest.mark.full),
)


@pytest.mark.parametrize('name', NAMES)
def test_tested_file_equals_the_checkpoint(train_on, tmp_path, name):
    run = train_on(name)
    file, out = tmp_path / 'model.onnx', tmp_path / 'results.pkl'
    assert export([run.config, run.checkpoint, '--dynamic', '--out', str(file)]) == 0
    for runtime in RUNTIMES:
        words = [run.config, file, '--out', out, '--runtime', runtime]
        words += ['--show-dir', tmp_path / 'drawings']
        assert evaluate([str(word) for word in words]) == 0
        assert_same(load(out), load(run.results), tolerance=1e-5)
        ours = json.loads(out.with_suffix('.json').read_text())
        theirs = json.loads(Path(run.results).with_suffix('.json').read_text())
        assert ours['metrics'] == pytest.approx(theirs['metrics'], abs=1e-3)
        assert ours['checkpoint'] == str(file)
    assert any((tmp_path / 'drawings').iterdir())
