"""Configs and data sets that cannot work: each ends with one message that names the field and the mend."""
import json
from pathlib import Path
from textwrap import dedent

import cv2
import numpy as np
import pytest
import torch

from mmflatten.engine.hooks.channels import require_matching_channels
from mmflatten.models import backbones

BASES = Path(__file__).parents[2] / 'configs' / '_base_'
BACKBONE = '''
    backbone = dict(_delete_=True, type='mmflatten.FLattenSwin', img_size=64, attn_types='LLSS',
                    arch=dict(embed_dims=8, depths=(1, 1, 1, 1), num_heads=(1, 1, 1, 1)))
'''
DETECTION = '''
    _base_ = ['{bases}/models/retinanet_fpn.py', '{bases}/default_runtime.py']
    default_scope = 'mmdet'
    {backbone}
    model = dict(
        backbone=backbone,
        neck=dict(in_channels=[8, 16, 32, 64], out_channels=8),
        bbox_head=dict(num_classes=2, in_channels=8, feat_channels=8, stacked_convs=1))
    pipeline = [
        dict(type='LoadImageFromFile'), dict(type='LoadAnnotations', with_bbox=True), dict(type='PackDetInputs')]
    train_dataloader = dict(
        batch_size=2, num_workers=0, sampler=dict(type='DefaultSampler', shuffle=True),
        dataset=dict(type='CocoDataset', data_root='{data}', ann_file='instances.json', data_prefix=dict(img='images'),
                     metainfo=dict(classes=('cat', 'dog')), pipeline=pipeline))
    optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.001))
    train_cfg = dict(by_epoch=True, max_epochs=1)
    work_dir = '{folder}/run'
'''
SEGMENTATION = '''
    _base_ = ['{bases}/models/semantic-fpn.py', '{bases}/default_runtime.py']
    default_scope = 'mmseg'
    {backbone}
    model = dict(
        data_preprocessor=dict(size=(64, 64)),
        backbone=backbone,
        neck=dict(in_channels=[8, 16, 32, 64], out_channels=8),
        decode_head=dict(in_channels=[8] * 4, channels=8, num_classes=3))
    pipeline = [dict(type='LoadImageFromFile'), dict(type='LoadAnnotations'), dict(type='PackSegInputs')]
    train_dataloader = dict(
        batch_size=2, num_workers=0, sampler=dict(type='InfiniteSampler', shuffle=True),
        dataset=dict(type='BaseSegDataset', data_root='{data}', img_suffix='.png',
                     metainfo=dict(classes=('a', 'b', 'c')),
                     data_prefix=dict(img_path='images', seg_map_path='maps'), pipeline=pipeline))
    optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.001))
    train_cfg = dict(type='IterBasedTrainLoop', max_iters=1)
    work_dir = '{folder}/run'
'''
BOX = dict(id=1, image_id=1, category_id=1, bbox=[4, 4, 20, 20], area=400, iscrowd=0)


def last_line(capsys) -> str:
    return capsys.readouterr().err.rstrip().splitlines()[-1]


class Case:
    """A data set of two images of 64 x 64, and a config for it."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder, self.data, self.config = folder, folder / 'data', folder / 'config.py'
        for name, label in (('images', 90), ('maps', 1)):
            (self.data / name).mkdir(parents=True)
            for i in (1, 2):
                cv2.imwrite(str(self.data / name / f'{i}.png'), np.full((64, 64, 3 if name == 'images' else 1), label,
                                                                        np.uint8))
        self.annotate()
        self.config.write_text(dedent(text).format(bases=BASES, data=self.data, folder=folder,
                                                   backbone=dedent(BACKBONE).strip()))

    def annotate(self, categories: tuple = ('cat', 'dog'), images: int = 2, **changes) -> None:
        content = dict(
            images=[dict(id=i + 1, file_name=f'{i + 1}.png', width=64, height=64) for i in range(images)],
            categories=[dict(id=i + 1, name=name) for i, name in enumerate(categories)],
            annotations=[{**BOX, **changes}, {**BOX, 'id': 2, 'image_id': 2, 'category_id': 2}][:images])
        (self.data / 'instances.json').write_text(json.dumps(content))


@pytest.fixture
def detection(tmp_path) -> Case:
    return Case(tmp_path, DETECTION)


@pytest.fixture
def segmentation(tmp_path) -> Case:
    return Case(tmp_path, SEGMENTATION)


def test_channels_of_neck_and_backbone_that_disagree(detection, tools, capsys):
    assert tools.train([detection.config, '--cfg-options', 'model.neck.in_channels=[8,16,30,64]']) == 1
    assert last_line(capsys) == (
        'model.neck.in_channels ([8, 16, 30, 64]) must be the channels of the maps that the backbone puts out, '
        '[8, 16, 32, 64] (FLattenSwin with out_indices (0, 1, 2, 3))')


def test_channels_of_head_and_backbone_that_disagree(tiny, tools, capsys):
    assert tools.train([tiny.config, '--cfg-options', 'model.head.in_channels=20']) == 1
    assert 'model.head.in_channels (20) must be' in last_line(capsys)


@pytest.mark.parametrize('channels, index, fits', [
    ([8, 16], [0, 1], True), ([8, 17], [0, 1], False), (16, 1, True), (8, 1, False), (16, -1, True), ([16], [5], True)])
def test_a_segmentation_head_is_compared_with_the_maps_it_takes(channels, index, fits):
    model = torch.nn.Module()
    model.backbone = backbones.FLattenSwin(arch=dict(embed_dims=8, depths=(1, 1), num_heads=(1, 1)), attn_types='LS',
                                           out_indices=(0, 1))
    model.decode_head = torch.nn.Module()
    model.decode_head.in_channels, model.decode_head.in_index = channels, index
    if fits:
        require_matching_channels(model)
    else:
        with pytest.raises(ValueError, match='model.decode_head.in_channels'):
            require_matching_channels(model)


@pytest.mark.parametrize('side', [1, 5, 31])
def test_images_smaller_than_a_window_are_trained_and_tested_on(tiny, tools, side):
    for path in tiny.images:
        cv2.imwrite(str(path), np.full((side, side + 2, 3), 80, np.uint8))
    tiny.write_config(extra='''
        train_dataloader = dict(batch_size=4, num_workers=0, sampler=dict(type='DefaultSampler', shuffle=True),
                                dataset=dict(type='CustomDataset', data_root=train_dataloader['dataset']['data_root'],
                                             pipeline=test_pipeline))
    ''')
    assert tools.train([tiny.config, '--cfg-options', 'train_cfg.max_epochs=1']) == 0


@pytest.mark.parametrize('name', backbones.__all__)
def test_every_backbone_takes_images_smaller_than_a_patch_or_a_window(name):
    torch.manual_seed(0)
    model = getattr(backbones, name)().eval()
    with torch.no_grad():
        for height, width in ((1, 2), (7, 16)):
            maps = model(torch.randn(1, 3, height, width))
            assert all(torch.isfinite(feature).all() for feature in maps)


def test_a_detector_without_images(detection, tools, capsys):
    detection.annotate(images=0)
    assert tools.train([detection.config]) == 1
    line = last_line(capsys)
    assert line.startswith('CocoDataset (') and 'instances.json' in line and 'has no samples; check data_root' in line


def test_a_detector_whose_images_are_all_filtered_out(detection, tools, capsys):
    assert tools.train([detection.config, '--cfg-options', 'train_dataloader.dataset.filter_cfg.min_size=100']) == 1
    assert 'has no samples; check data_root, data_prefix and ann_file, and what filter_cfg' in last_line(capsys)


def test_a_segmentor_without_images_does_not_wait_forever(segmentation, tools, capsys):
    for path in (segmentation.data / 'images').iterdir():
        path.unlink()
    assert tools.train([segmentation.config]) == 1
    line = last_line(capsys)
    assert line.startswith(f'BaseSegDataset ({segmentation.data}/images') and 'has no samples' in line


def test_a_classifier_without_images(tiny, tools, capsys):
    for path in tiny.images:
        path.unlink()
    assert tools.train([tiny.config]) == 1
    line = last_line(capsys)
    assert line.startswith(f'CustomDataset ({tiny.data}/) cannot be read') and 'Supported extensions are' in line


def test_a_box_outside_of_its_image(detection, tools, capsys):
    detection.annotate(bbox=[70, 4, 20, 20])
    assert tools.train([detection.config]) == 1
    assert last_line(capsys) == (
        f'annotation 1 in {detection.data}/instances.json has a box outside of its image: [x, y, width, height] = '
        '[70, 4, 20, 20], and 1.png is 64 x 64; mend or remove it')


def test_a_box_that_reaches_over_the_border_is_no_mistake(detection, tools):
    detection.annotate(bbox=[50, 4, 20, 20])
    assert tools.train([detection.config]) == 0


@pytest.mark.parametrize('changes, words', [
    (dict(category_id=7), "annotation 1 in .*instances.json has the category_id 7, .*file's 2 categories (1, 2)"),
    (dict(image_id=9), 'has the image_id 9, which the file does not list under images'),
    (dict(categories=('cat', 'bird')), "has no category dog of the data set's 2 classes, only bird, cat; give"),
])
def test_an_annotation_of_something_unknown(detection, tools, capsys, changes, words):
    detection.annotate(**changes)
    assert tools.train([detection.config]) == 1
    line = last_line(capsys)
    assert all(part in line for part in words.split('.*')), line


def test_categories_that_are_no_classes_are_left_out_with_a_word(detection, tools, capsys):
    detection.annotate(categories=('cat', 'bird', 'dog'))
    assert tools.train([detection.config]) == 0
    captured = capsys.readouterr()
    assert 'annotations of categories that are no classes of the data set are left out: bird (1)' in (
        captured.out + captured.err)


def test_a_detector_with_another_number_of_classes_than_its_data(detection, tools, capsys):
    assert tools.train([detection.config, '--cfg-options', 'model.bbox_head.num_classes=3']) == 1
    assert ('train_dataloader.dataset (CocoDataset) has 2 classes and model.bbox_head.num_classes is 3; set it to 2'
            in last_line(capsys))


def test_a_classifier_with_fewer_classes_than_its_data(tiny, tools, capsys):
    options = ['model.head.num_classes=1', 'data_preprocessor.num_classes=1']
    assert tools.train([tiny.config, '--cfg-options', *options]) == 1
    assert 'has 2 classes and model.head.num_classes is 1; set it to 2' in last_line(capsys)


@pytest.mark.parametrize('workers', [0, 1])
def test_a_label_beyond_the_classes_names_the_image(tiny, tools, capsys, workers):
    (tiny.folder / 'list.txt').write_text(''.join(f'{path} 0\n' for path in tiny.images[1:]) + f'{tiny.images[0]} 5\n')
    options = [f'train_dataloader.num_workers={workers}', f'train_dataloader.dataset.ann_file={tiny.folder}/list.txt']
    assert tools.train([tiny.config, '--cfg-options', *options]) == 1
    assert last_line(capsys) == (f'{tiny.images[0]} has the label 5, and the model has 2 classes (0 to 1); mend the '
                                 'label, or num_classes of the head')


def test_a_label_map_with_an_unknown_class_is_named_and_ignored_labels_are_not(segmentation, tools, capsys):
    path = segmentation.data / 'maps' / '2.png'
    labels = np.full((64, 64), 1, np.uint8)
    labels[:9] = 255
    cv2.imwrite(str(path), labels)
    assert tools.train([segmentation.config]) == 0
    labels[20, 20] = 4
    cv2.imwrite(str(path), labels)
    assert tools.train([segmentation.config]) == 1
    assert f'{path} has the label 4, and the model has 3 classes (0 to 2)' in last_line(capsys)
