"""Stereo pairs of digit scenes: the right view is the left view moved by exactly the disparity."""

import dataclasses
import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from mmflatten.datasets.build import content_hash, is_finished
from mmflatten.datasets.scenes.build import SceneOptions, build_scenes
from mmflatten.datasets.scenes.canvas import Sprite
from mmflatten.datasets.scenes.digits import DIGITS, load_glyphs
from mmflatten.datasets.scenes.stereo_build import (
    SUPERSAMPLING,
    SceneLayer,
    StereoSceneOptions,
    add_grain,
    build_stereo_scenes,
    compose,
    max_disparity,
    sample_stereo_scene,
    to_cells,
)
from mmflatten.datasets.stereo import SceneFlowDataset, read_pfm

TINY = StereoSceneOptions(train=3, val=2, size=32)
PIPELINE = [
    dict(type='mmflatten.LoadStereoPair'),
    dict(type='mmflatten.LoadDisparity'),
    dict(type='mmflatten.PackStereoInputs'),
]
S = SUPERSAMPLING


@pytest.fixture(scope='module')
def stereo_root(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp('data') / 'digits_stereo'
    build_stereo_scenes(root, TINY)
    return root


def files(root: Path) -> dict:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob('*')
        if path.is_file()
    }


def square(value: float, side: int, top: int, left: int) -> Sprite:
    """A square sprite; all lengths in pixels."""
    opacity = np.ones((S * side, S * side), dtype=np.float32)
    colour = np.full((*opacity.shape, 3), value, dtype=np.float32)
    return Sprite(opacity, colour, label=1, number=7, top=S * top, left=S * left)


def flat(disparity: float, rows: int) -> np.ndarray:
    return to_cells(np.full(S * rows, disparity))


def noise(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype(np.uint8)


BACKGROUND = dict(photograph='x.jpg', box=[0, 0, 1, 1])


def test_integer_disparities_move_layers_by_whole_pixels():
    layer = SceneLayer(square(250, side=4, top=2, left=9), flat(5, 4))
    scene = compose(noise(8, 28), flat(2, 8), [layer], width=20, background=BACKGROUND)
    assert (scene.left[2:6, 9:13] == 250).all() and (scene.right[2:6, 4:8] == 250).all()
    expected = np.full((8, 20), 2.0)
    expected[2:6, 9:13] = 5
    np.testing.assert_array_equal(scene.disparity, expected)
    # The floor at x is seen at x - 2, and the square lies over the columns 4 to 7 there.
    hidden = np.zeros((8, 20), dtype=bool)
    # columns 6 to 9, of which the square itself stands before 9 in the left view
    hidden[2:6, 6:9] = True
    hidden[:, :2] = True  # outside of the right view
    np.testing.assert_array_equal(scene.occluded, hidden)


def test_visible_pixels_have_equal_colours_at_integer_disparities():
    layers = [
        SceneLayer(square(200, 5, 1, 12), flat(4, 5)),
        SceneLayer(square(90, 3, 4, 15), flat(7, 3)),
    ]
    scene = compose(noise(10, 40), flat(3, 10), layers, width=30, background=BACKGROUND)
    # A pixel of the fine grid blends its neighbours when enlarged, the same ones in both views:
    # equal to the last bit.
    rows, columns = np.nonzero(~scene.occluded)
    partner = columns - scene.disparity[rows, columns].astype(int)
    np.testing.assert_array_equal(scene.left[rows, columns], scene.right[rows, partner])
    assert 0.6 < (~scene.occluded).mean() < 1


def test_quarter_pixel_disparity_is_exact():
    layer = SceneLayer(square(240, side=4, top=2, left=8), flat(2.25, 4))
    scene = compose(
        np.zeros((8, 28, 3), np.uint8), flat(1, 8), [layer], width=20, background=BACKGROUND
    )
    assert scene.disparity[3, 9] == 2.25
    row = scene.right[3, :, 0].astype(float) / 240
    assert row[5:11].tolist() == [0.25, 1, 1, 1, 0.75, 0]  # from 5.75 to 9.75
    assert (row * np.arange(20)).sum() / row.sum() == pytest.approx(9.5 - 2.25)


def test_tilted_layer_moves_each_row_by_its_disparity():
    sprite = square(250, side=4, top=0, left=10)
    layer = SceneLayer(sprite, to_cells(np.repeat([3.0, 4.0, 5.0, 6.0], S)))
    scene = compose(
        np.zeros((4, 28, 3), np.uint8), flat(1, 4), [layer], width=20, background=BACKGROUND
    )
    for row, disparity in enumerate((3, 4, 5, 6)):
        assert np.flatnonzero(scene.right[row, :, 0]).tolist() == list(
            range(10 - disparity, 14 - disparity)
        )
        assert (scene.disparity[row, 10:14] == disparity).all()


@pytest.mark.parametrize('height', [32, 96])
def test_random_scene_views_agree(height):
    glyphs, photographs = load_glyphs('train'), DIGITS.load_photographs('train')
    shares = []
    for number in range(6):
        scene = sample_stereo_scene(np.random.default_rng(number), glyphs, photographs, height)
        assert scene.left.shape == scene.right.shape == (height, 2 * height, 3)
        assert scene.disparity.dtype == np.float32 and scene.disparity.shape == scene.occluded.shape
        assert 0 < scene.disparity.min()
        assert scene.disparity.max() <= max_disparity(height) + 0.5 / S
        np.testing.assert_array_equal(scene.disparity * S, np.rint(scene.disparity * S))
        columns = np.arange(2 * height) - scene.disparity
        rows = np.repeat(np.arange(height, dtype=np.float32)[:, None], 2 * height, axis=1)
        warped = cv2.remap(scene.right, columns.astype(np.float32), rows, cv2.INTER_LINEAR).astype(
            int
        )
        error = np.abs(warped - scene.left).mean(axis=2)[~scene.occluded]
        wrong = cv2.remap(
            scene.right, columns.astype(np.float32) - 3, rows, cv2.INTER_LINEAR
        ).astype(int)
        assert np.median(error) < 5 and error.mean() < 0.4 * np.abs(wrong - scene.left).mean()
        assert scene.occluded[columns < -0.5].all()
        shares.append(scene.occluded.mean())
    assert max(shares) > 0.05


def test_floor_disparity_grows_downwards():
    glyphs, photographs = load_glyphs('train'), DIGITS.load_photographs('train')
    for number in range(5):
        scene = sample_stereo_scene(np.random.default_rng(number), glyphs, photographs, 48)
        floor = scene.disparity.min(axis=1)
        assert (np.diff(floor) >= 0).all(), 'the floor comes nearer from row to row'
        levels = np.unique(
            np.rint(scene.disparity[scene.disparity > scene.disparity[-1].min() + 0.5])
        )
        assert len(scene.numbers) <= 8 and len(levels) >= 1


def test_grain_has_width_and_range():
    grey = np.full((16, 24, 3), 128, np.uint8)
    fine, coarse = (add_grain(np.random.default_rng(0), grey, cells) for cells in (1, 4))
    assert fine.shape == coarse.shape == grey.shape and fine.std() > 8 and coarse.std() > 5
    assert np.abs(np.diff(coarse, axis=1)).mean() < 0.5 * np.abs(np.diff(fine, axis=1)).mean()
    assert add_grain(np.random.default_rng(0), np.full((8, 8, 3), 255, np.uint8)).max() <= 255


def test_files_load_as_sceneflow(stereo_root):
    for split, number in (('TRAIN', 3), ('TEST', 2)):
        dataset = SceneFlowDataset(data_root=stereo_root, split=split, pipeline=PIPELINE)
        assert len(dataset) == number
        sample = dataset[0]
        assert sample['inputs']['left'].shape == (3, 32, 64)
        truth = sample['data_samples'].gt_disparity
        assert truth.valid.all() and truth.occlusion.any() and not truth.occlusion.all()
        disparity = read_pfm(
            stereo_root / 'disparity' / split / 'A' / '0000' / 'left' / '000000.pfm'
        )
        np.testing.assert_array_equal(truth.data[0].numpy(), disparity)


def test_scene_depends_on_seed_but_not_on_number(stereo_root, tmp_path):
    build_stereo_scenes(tmp_path / 'again', TINY)
    assert files(stereo_root) == files(tmp_path / 'again')
    build_stereo_scenes(tmp_path / 'fewer', StereoSceneOptions(train=2, val=1, size=32))
    build_stereo_scenes(tmp_path / 'other', StereoSceneOptions(train=2, val=1, size=32, seed=1))
    for name in (
        'frames_cleanpass/TRAIN/A/0000/right/000001.png',
        'disparity/TEST/A/0000/left/000000.pfm',
    ):
        assert (
            files(stereo_root)[name]
            == files(tmp_path / 'fewer')[name]
            != files(tmp_path / 'other')[name]
        )


def test_splits_share_no_digit_and_no_background(tmp_path):
    build_stereo_scenes(tmp_path / 'x', StereoSceneOptions(train=8, val=8, size=32))
    train, val = (
        json.loads((tmp_path / 'x' / f'scenes_{split}.json').read_text())
        for split in ('TRAIN', 'TEST')
    )
    train_glyphs = set().union(*(scene['glyphs'] for scene in train))
    val_glyphs = set().union(*(scene['glyphs'] for scene in val))
    assert not train_glyphs & val_glyphs and min(len(train_glyphs), len(val_glyphs)) > 8
    train_boxes = [scene['background']['box'] for scene in train]
    val_boxes = [scene['background']['box'] for scene in val]
    assert max(x + width for x, _, width, _ in train_boxes) <= min(x for x, *_ in val_boxes)


def test_other_kind_is_not_overwritten(stereo_root, tmp_path):
    assert is_finished(stereo_root, 'digit scenes', TINY)
    assert json.loads((stereo_root / 'dataset.json').read_text())['sha256'] == content_hash(
        stereo_root
    )
    with pytest.raises(FileExistsError, match='views=2.* --force'):
        build_scenes(stereo_root, SceneOptions(train=3, val=2, size=32))
    build_scenes(tmp_path / 'flat', SceneOptions(train=1, val=1, size=32))
    with pytest.raises(FileExistsError, match='but .*views=2'):
        build_stereo_scenes(tmp_path / 'flat', dataclasses.replace(TINY, train=1, val=1))


def test_command_writes_the_same_bytes_as_library(stereo_root, tmp_path, monkeypatch, capsys):

    from mmflatten.cli.data import main

    options = ['--train', '3', '--val', '2', '--size', '32']
    assert main(['digits', '--stereo', '--out', str(tmp_path / 'x'), *options]) == 0
    assert files(tmp_path / 'x') == files(stereo_root)
    assert '3 training and 2 validation' in capsys.readouterr().out
    assert main(['digits', '--stereo', '--out', str(tmp_path / 'y'), '--size', '20']) == 1
    assert 'size must be between 32 and 1024, got 20' in capsys.readouterr().err
