"""`mmflatten browse` shows the pixels and the truth that the model gets."""
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
import pytest

from mmflatten.cli import browse
from mmflatten.datasets.scenes.stereo_build import StereoSceneOptions, build_stereo_scenes
from mmflatten.engine.browse import Browser
from mmflatten.engine.setup import load_config

DIGITS = Path(__file__).parents[2] / 'configs' / 'digits'
MIXED = """
model = dict(train_cfg=dict(_delete_=True, augments=[dict(type='Mixup', alpha=0.8)]))
"""
# Two shapes that are padded to that of their batch.
PADDED = """
train_dataloader['dataset']['pipeline'] = [
    dict(type='LoadImageFromFile'), dict(type='LoadAnnotations', with_bbox=True, with_mask=True),
    dict(type='RandomChoiceResize', scales=[(200, 150), (100, 90)], keep_ratio=False),
    dict(type='RandomFlip', prob=0.5), dict(type='PackDetInputs')]
"""
# The annotations are loaded behind the resize.
SMALLER = '''
_base_.test_pipeline[1]['scale'] = (80, 80)
val_dataloader['dataset']['pipeline'] = _base_.test_pipeline
'''
PLAIN = """
train_dataloader['dataset']['pipeline'] = [dict(type='LoadImageFromFile'), dict(type='PackInputs')]
train_dataloader['batch_size'] = 1
model = dict(data_preprocessor=dict(type='ClsDataPreprocessor', num_classes=10, mean=[1., 2., 3.], std=[40., 50., 60.],
                                    to_rgb={}))
"""


def browser_of(config: Path, split: str = 'train', seed: int = 0) -> Browser:
    return Browser(load_config(str(config)), split, seed)


@pytest.mark.parametrize('to_rgb', [True, False])
def test_browser_undoes_normalisation_and_channel_order(config_on, to_rgb):
    config = config_on('flatten-swin-nano_digits', PLAIN.format(to_rgb))
    for seen in islice(browser_of(config), 3):
        np.testing.assert_array_equal(seen.images[0], cv2.imread(seen.sample.img_path)[..., ::-1])


def test_browser_is_reproducible(config_on):
    config = config_on('flatten-swin-nano_digits')
    one, again, other = ([seen.images[0] for seen in islice(browser_of(config, seed=seed), 3)] for seed in (0, 0, 1))
    assert all(np.array_equal(*pair) for pair in zip(one, again))
    assert not all(np.array_equal(*pair) for pair in zip(one, other))


def test_mixed_images_show_label_scores(config_on, tmp_path):
    browser = browser_of(config_on('flatten-swin-nano_digits', MIXED))
    seen = list(islice(browser, 8))
    assert all(float(one.sample.gt_score.sum()) == pytest.approx(1) for one in seen)
    mixed = next(one for one in seen if 0 < float(one.sample.gt_score.max()) < 1)
    browser.draw(mixed, tmp_path / 'mixed.png')
    assert (tmp_path / 'mixed.png').exists() and mixed.sample.gt_label.numel() == 1  # the sample itself stays


def test_boxes_and_masks_match_the_padded_image(config_on, tmp_path):
    browser = browser_of(config_on('mask-rcnn_flatten-swin-nano_fpn_digits', PADDED))
    shapes = set()
    for number, seen in enumerate(islice(browser, 4)):
        height, width = seen.sample.img_shape
        shapes.add((height, width))
        instances, shape = seen.sample.gt_instances, seen.images[0].shape[:2]
        assert shape == seen.sample.batch_input_shape == (instances.masks.height, instances.masks.width)
        for mask, box in zip(instances.masks.to_ndarray(), instances.bboxes.tolist()):
            rows, columns = np.nonzero(mask)
            assert columns.max() < width and rows.max() < height
            np.testing.assert_allclose((columns.min(), rows.min(), columns.max(), rows.max()), box, atol=3)
        browser.draw(seen, tmp_path / f'{number}.png')
    assert shapes == {(150, 200), (90, 100)} and len(list(tmp_path.glob('*.png'))) == 4


def test_test_split_uses_the_original_size(config_on):
    config = config_on('mask-rcnn_flatten-swin-nano_fpn_digits', SMALLER)
    seen = next(iter(browser_of(config, 'val')))
    assert seen.sample.img_shape == (80, 80) and seen.images[0].shape == (160, 160, 3)
    assert float(seen.sample.gt_instances.bboxes.max()) > 80


def test_stereo_pairs_are_drawn_with_disparity(tmp_path, capsys):
    build_stereo_scenes(tmp_path / 'data', StereoSceneOptions(train=3, val=1, size=40))
    config = tmp_path / 'stereo.py'
    pipeline = [dict(type='mmflatten.LoadStereoPair'), dict(type='mmflatten.LoadDisparity'),
                dict(type='mmflatten.PackStereoInputs')]
    config.write_text(f"_base_ = ['{DIGITS}/psmnet-tiny_digits-stereo.py']\ntrain_dataloader = dict(drop_last=False, "
                      f"dataset=dict(data_root='{tmp_path}/data', pipeline={pipeline}))\n")
    seen = next(iter(browser_of(config)))
    left, right = (cv2.imread(seen.sample.get(name))[..., ::-1] for name in ('img_path', 'right_path'))
    assert seen.images[0].shape == (48, 80, 3)  # padded above to a multiple of 16
    np.testing.assert_array_equal(seen.images[0][8:], left)
    np.testing.assert_array_equal(seen.images[1][8:], right)
    assert browse.main([str(config), '--out', str(tmp_path / 'out'), '--number', '2']) == 0
    assert '2 samples' in capsys.readouterr().out
    drawn = cv2.imread(str(next((tmp_path / 'out').glob('000_*.png'))))
    assert drawn.shape[1] > 3 * 80 and (drawn[20 + 4, -100:] == 0).all()  # the third panel is black where nothing is


def test_command_prints_statistics(config_on, tmp_path, capsys):
    config = config_on('semantic-fpn_flatten-swin-nano_digits')
    assert browse.main([str(config), '--out', str(tmp_path / 'out'), '--number', '3']) == 0
    out = capsys.readouterr().out
    assert '3 samples, height x width 160 x 160' in out and 'background' in out
    assert len(list((tmp_path / 'out').glob('*.png'))) == 4


def test_config_without_data_is_an_error(config_on, tmp_path, capsys):
    config = config_on('flatten-swin-nano_digits', 'train_dataloader = None')
    assert browse.main([str(config), '--out', str(tmp_path / 'out')]) == 1
    assert 'train_dataloader' in capsys.readouterr().err
    config = config_on('flatten-swin-nano_digits')
    assert browse.main([str(config), '--out', str(tmp_path / 'out'), '--cfg-options',
                        'train_dataloader.dataset.data_root=nowhere/']) == 1
    assert 'nowhere' in capsys.readouterr().err and not (tmp_path / 'out').exists()
