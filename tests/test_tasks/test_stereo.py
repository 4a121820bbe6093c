"""Drawings of a stereo pair: their panels and colours."""

import os

import cv2
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mmengine.registry import VISUALIZERS
from mmengine.structures import PixelData

from mmflatten.datasets.stereo import PackStereoInputs, StereoPad
from mmflatten.datasets.stereo.visualizer import GAP, TITLE_HEIGHT, StereoVisualizer, colour_map
from mmflatten.structures import StereoDataSample

HEIGHT, WIDTH = 100, 300


@pytest.fixture
def image() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3)).astype(np.uint8)


@pytest.fixture
def sample() -> StereoDataSample:
    """Truth from 0 to 60 px from left to right, the upper half unknown; the prediction is 2 px too
    large.
    """
    truth = torch.linspace(0, 60, WIDTH).expand(1, HEIGHT, WIDTH).clone()
    valid = torch.ones_like(truth, dtype=torch.bool)
    valid[:, : HEIGHT // 2] = False
    made = StereoDataSample(gt_disparity=PixelData(data=truth, valid=valid))
    made.pred_disparity = PixelData(data=truth + 2)
    return made


def panels(path) -> list[np.ndarray]:
    """The panels of a drawing without their titles, RGB."""
    drawing = cv2.imread(str(path))[TITLE_HEIGHT:, :, ::-1]
    starts = range(0, drawing.shape[1], WIDTH + GAP)
    return [drawing[:, start : start + WIDTH] for start in starts]


def test_stereo_drawing_shows_image_truth_prediction_and_error(tmp_path, image, sample):
    visualizer = VISUALIZERS.build(
        dict(type='mmflatten.StereoVisualizer', name='four', max_error=4)
    )
    visualizer.add_datasample('x', image, sample, out_file=tmp_path / 'x.png')
    left, true, predicted, error = panels(tmp_path / 'x.png')
    np.testing.assert_array_equal(left, image)
    assert (true[: HEIGHT // 2] == 0).all() and (error[: HEIGHT // 2] == 0).all(), (
        'black where nothing is known'
    )
    scale = colour_map(np.array([[0.0, 60.0, 15.0]]), 60, cv2.COLORMAP_TURBO)[0]
    np.testing.assert_array_equal(true[-1, [0, -1]], scale[:2])
    np.testing.assert_array_equal(predicted[-1, -1], scale[1])
    assert (predicted[0] == predicted[-1]).all()
    half = colour_map(np.array([[0.5]]), 1, cv2.COLORMAP_INFERNO)[0, 0]
    # 2 px of 4 at every known pixel
    assert np.abs(error[HEIGHT // 2 :].astype(int) - half).max() <= 2


def test_stereo_drawing_omits_missing_panels(tmp_path, image, sample):
    visualizer = StereoVisualizer(name='few')
    for options, number in ((dict(draw_pred=False), 2), (dict(draw_gt=False), 2), (dict(), 4)):
        visualizer.add_datasample('x', image, sample, out_file=tmp_path / 'x.png', **options)
        assert len(panels(tmp_path / 'x.png')) == number
    visualizer.add_datasample('x', image, None, out_file=tmp_path / 'x.png')
    assert len(panels(tmp_path / 'x.png')) == 1


def test_stereo_drawing_is_written_to_folder_with_bytes_in_its_name(tmp_path, image, sample):
    (tmp_path / os.fsdecode(b'o\xff')).mkdir()
    StereoVisualizer(name='bytes').add_datasample(
        'x', image, sample, out_file=tmp_path / os.fsdecode(b'o\xff/x.png')
    )
    assert [path.name for path in tmp_path.rglob('*.png')] == ['x.png']


def test_stereo_drawing_enlarges_small_images(image):
    drawing = StereoVisualizer(name='small').draw_pair(
        image[:20, :50], np.zeros((20, 50)), np.ones((20, 50), bool)
    )
    assert drawing.shape == (6 * 20 + TITLE_HEIGHT, 2 * 6 * 50 + GAP, 3)


def test_stereo_drawing_is_stored_by_backends_with_its_step(tmp_path, image, sample):
    visualizer = StereoVisualizer(
        name='saved', vis_backends=[dict(type='LocalVisBackend')], save_dir=str(tmp_path)
    )
    visualizer.add_datasample('pair', image, sample, step=7)
    (found,) = tmp_path.rglob('*.png')
    assert found.name == 'pair_7.png' and len(panels(found)) == 4


def test_stereo_drawing_rejects_map_of_another_size(image, sample):
    with pytest.raises(
        ValueError,
        match=r'gt_disparity has \(100, 300\) \(height, width\) and the image \(90, 300\)',
    ):
        StereoVisualizer(name='odd').add_datasample('x', image[:90], sample)


def test_stereo_drawing_shows_absolute_errors(image, sample):
    truth, valid = sample.gt_disparity.data[0].numpy() + 5, sample.gt_disparity.valid[0].numpy()
    low, high = (
        StereoVisualizer(name='sign').draw_pair(image, truth, valid, truth + error)[
            TITLE_HEIGHT:, -WIDTH:
        ]
        for error in (-3, 3)
    )
    assert np.abs(low.astype(int) - high).max() <= 2 and high.max() > 100


def test_stereo_drawing_crops_padding(tmp_path, image, sample):
    visualizer = StereoVisualizer(name='padded')
    visualizer.add_datasample('x', image, sample, out_file=tmp_path / 'x.png')
    results = StereoPad(size=(HEIGHT + 12, WIDTH + 20))(
        dict(
            left=image,
            right=image,
            disparity=sample.gt_disparity.data[0].numpy(),
            valid=sample.gt_disparity.valid[0].numpy(),
            ori_shape=image.shape[:2],
        )
    )
    padded = PackStereoInputs()(results)['data_samples']
    padded.pred_disparity = PixelData(
        data=F.pad(sample.pred_disparity.data, (0, 20, 12, 0), value=99)
    )
    visualizer.add_datasample('y', image, padded, out_file=tmp_path / 'y.png')
    assert (tmp_path / 'x.png').read_bytes() == (tmp_path / 'y.png').read_bytes()


def test_stereo_drawing_accepts_pairs_without_valid_pixels(image, sample):
    drawing = StereoVisualizer(name='none').draw_pair(
        image,
        np.zeros((HEIGHT, WIDTH)),
        np.zeros((HEIGHT, WIDTH), bool),
        np.full((HEIGHT, WIDTH), 3.0),
    )
    assert drawing.shape[1] == 4 * WIDTH + 3 * GAP


def test_stereo_visualizer_rejects_invalid_max_error():
    with pytest.raises(ValueError, match=r'max_error \(0\) must be positive'):
        StereoVisualizer(name='bad', max_error=0)
