"""Transforms of stereo pairs: images and maps stay consistent, and errors name pairs of different
sizes.
"""

import cv2
import numpy as np
import pytest
import torch

from mmflatten.datasets.stereo import (
    LoadDisparity,
    LoadStereoPair,
    PackStereoInputs,
    StereoDataError,
    StereoPad,
    StereoPhotometricJitter,
    StereoRandomCrop,
    write_pfm,
)
from mmflatten.datasets.stereo.transforms import jitter

HEIGHT, WIDTH = 12, 20


@pytest.fixture
def pair() -> dict:
    """Every pixel of every image and map holds a number of its place."""
    place = np.arange(HEIGHT * WIDTH, dtype=np.float32).reshape(HEIGHT, WIDTH)
    image = np.repeat((place % 251).astype(np.uint8)[..., None], 3, axis=2)
    return dict(
        left=image,
        right=image.copy(),
        disparity=place,
        valid=place % 2 == 0,
        occlusion=place % 3 == 0,
        img_shape=(HEIGHT, WIDTH),
    )


@pytest.fixture
def files(tmp_path) -> dict:
    rng = np.random.default_rng(0)
    paths = {key: str(tmp_path / f'{key}.png') for key in ('img_path', 'right_path')}
    for path in paths.values():
        cv2.imwrite(path, rng.integers(0, 256, (HEIGHT, WIDTH, 3)).astype(np.uint8))
    paths['disparity_path'] = str(tmp_path / 'disparity.pfm')
    values = rng.uniform(0, 9, (HEIGHT, WIDTH)).astype(np.float32)
    values[0] = np.inf, *values[0, 1:]
    write_pfm(paths['disparity_path'], values)
    return paths


def test_loading_marks_unknown_disparities(files):
    results = LoadDisparity()(LoadStereoPair()(dict(files)))
    assert results['left'].shape == results['right'].shape == (HEIGHT, WIDTH, 3)
    assert results['img_shape'] == results['ori_shape'] == (HEIGHT, WIDTH)
    assert not results['valid'][0, 0] and results['valid'].sum() == HEIGHT * WIDTH - 1
    assert results['disparity'][0, 0] == 0 and np.isfinite(results['disparity']).all()


def test_mostly_negative_disparities_are_an_error(files):
    values = np.full((HEIGHT, WIDTH), -5, np.float32)
    write_pfm(files['disparity_path'], values)
    with pytest.raises(
        StereoDataError, match=r'disparity .*disparity.pfm: .*negative values .*sign'
    ):
        LoadDisparity()(LoadStereoPair()(dict(files)))
    values[1:] = 5
    write_pfm(files['disparity_path'], values)
    assert LoadDisparity()(LoadStereoPair()(dict(files)))['valid'].all()


def test_pair_without_ground_truth_is_named(files):
    del files['disparity_path']
    with pytest.raises(
        StereoDataError, match='img_path.png has no disparity .*Remove LoadDisparity'
    ):
        LoadDisparity()(LoadStereoPair()(dict(files)))


def test_different_image_sizes_are_named(files):
    cv2.imwrite(files['right_path'], np.zeros((HEIGHT, WIDTH + 2, 3), np.uint8))
    with pytest.raises(
        StereoDataError,
        match=r'right_path.png: expected 20 x 12 .*img_path.png, '
        'got 22 x 12',
    ):
        LoadStereoPair()(dict(files))


def test_different_disparity_size_is_named(files):
    write_pfm(files['disparity_path'], np.zeros((HEIGHT // 2, WIDTH), np.float32))
    with pytest.raises(
        StereoDataError,
        match=r'disparity_path .*disparity.pfm: expected 20 x 12 '
        r'.*img_path.png, got 20 x 6',
    ):
        LoadDisparity()(LoadStereoPair()(dict(files)))


def test_crop_uses_one_window_for_images_and_maps(pair):
    np.random.seed(0)
    corners = set()
    for _ in range(40):
        results = StereoRandomCrop((5, 8))(dict(pair))
        place = results['disparity']
        corners.add(place[0, 0])
        assert place.shape == (5, 8) and results['img_shape'] == (5, 8)
        np.testing.assert_array_equal(results['left'][..., 0], place % 251)
        np.testing.assert_array_equal(results['right'], results['left'])
        np.testing.assert_array_equal(results['valid'], place % 2 == 0)
        np.testing.assert_array_equal(results['occlusion'], place % 3 == 0)
    assert len(corners) > 20


def test_crop_larger_than_the_image_is_an_error(pair):
    np.testing.assert_array_equal(
        StereoRandomCrop((HEIGHT, WIDTH))(dict(pair))['left'], pair['left']
    )
    with pytest.raises(ValueError, match=r'crop_size: .*\(12, 20\), got \(12, 21\)'):
        StereoRandomCrop((HEIGHT, WIDTH + 1))(dict(pair))


def test_pad_adds_invalid_pixels_at_top_and_right(pair):
    results = StereoPad(size=(10, 24), size_divisor=8, pad_val=7)(dict(pair))
    assert (
        results['img_shape'] == results['left'].shape[:2] == results['disparity'].shape == (16, 24)
    )
    np.testing.assert_array_equal(results['left'][4:, :WIDTH], pair['left'])
    np.testing.assert_array_equal(results['disparity'][4:, :WIDTH], pair['disparity'])
    assert (results['right'][:4] == 7).all() and (results['right'][:, WIDTH:] == 7).all()
    assert results['valid'].sum() == pair['valid'].sum() and not results['valid'][:4].any()


def test_jitter_differs_between_images_only_if_asymmetric(pair):
    np.random.seed(0)
    rng = np.random.default_rng(0)
    pair['left'] = pair['right'] = rng.integers(0, 256, (HEIGHT, WIDTH, 3)).astype(np.uint8)
    same = StereoPhotometricJitter(asymmetric_prob=0)(dict(pair))
    assert (same['left'] == same['right']).all() and (same['left'] != pair['left']).any()
    assert same['left'].dtype == np.uint8
    other = StereoPhotometricJitter(asymmetric_prob=1)(dict(pair))
    assert (other['left'] != other['right']).any()
    assert StereoPhotometricJitter(prob=0)(dict(pair))['left'] is pair['left']
    assert other['disparity'] is pair['disparity']


def test_jitter_factors():
    image = np.random.default_rng(0).integers(60, 120, (4, 6, 3)).astype(np.uint8)
    one = dict(brightness=1, contrast=1, saturation=1, gamma=1)
    np.testing.assert_array_equal(jitter(image, **one), image)
    np.testing.assert_allclose(jitter(image, **{**one, 'brightness': 1.5}), 1.5 * image, atol=0.51)
    assert np.ptp(jitter(image, **{**one, 'saturation': 0}), axis=2).max() == 0
    assert jitter(image, **{**one, 'contrast': 0.01}).std() < 1
    np.testing.assert_allclose(
        jitter(image, **{**one, 'gamma': 2}), 255 * (image / 255) ** 2, atol=0.51
    )


def test_pack_inputs_and_ground_truth(files):
    packed = PackStereoInputs()(LoadDisparity()(LoadStereoPair()(dict(files, sample_id=3))))
    left = packed['inputs']['left']
    assert set(packed['inputs']) == {'left', 'right'}
    assert left.dtype == torch.uint8
    assert left.is_contiguous()
    np.testing.assert_array_equal(left.permute(1, 2, 0).numpy(), cv2.imread(files['img_path']))
    sample = packed['data_samples']
    assert sample.gt_disparity.data.shape == sample.gt_disparity.valid.shape == (1, HEIGHT, WIDTH)
    assert sample.left_path == sample.img_path == files['img_path'] and sample.sample_id == 3
    assert sample.img_shape == sample.ori_shape == (HEIGHT, WIDTH)


@pytest.mark.parametrize(
    'build, words',
    [
        (lambda: StereoRandomCrop(256), r'crop_size \(256\) must be \(height, width\)'),
        (lambda: StereoRandomCrop((0, 4)), r'crop_size \(\(0, 4\)\) must be'),
        (lambda: StereoPad(size_divisor=0), r'size_divisor \(0\) must be 1 or more'),
        (
            lambda: StereoPhotometricJitter(gamma=1.5),
            r'gamma \(1.5\) must be at least 0 and below 1',
        ),
        (lambda: StereoPhotometricJitter(prob=-1), r'prob \(-1\) must be a probability'),
    ],
)
def test_argument_out_of_range_is_an_error(build, words):
    with pytest.raises(ValueError, match=words):
        build()
