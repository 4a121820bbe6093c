"""What `init` counts is what mmdet trains on, and what is left out is named with its reason."""

import itertools
import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from mmengine.config import Config
from mmengine.registry import init_default_scope

from mmflatten.custom_data import detection, segmentation
from mmflatten.custom_data.reading import Request
from mmflatten.datasets.used import (
    CROWD,
    CUT,
    IGNORED,
    TINY,
    UNKNOWN,
    UNLABELLED,
    used_by_mmdet,
    used_by_mmseg,
)
from mmflatten.engine.datasets import build_dataset
from tests.test_custom_data.small_data import coco, found, read_detection, write_image

LEFT_OUT = {  # changes of an annotation, and the reason
    'ignore as a number': (dict(ignore=1), IGNORED),
    'ignore as a truth': (dict(ignore=True), IGNORED),
    'crowd': (dict(iscrowd=1), CROWD),
    'crowd as run lengths': (
        dict(iscrowd=1, segmentation=dict(size=[48, 64], counts=[48 * 64])),
        CROWD,
    ),
    'negative area': (dict(area=-400), TINY),
    'area 0': (dict(area=0), TINY),
    'thin box': (dict(bbox=[4, 4, 0.5, 9]), TINY),
    'flat box': (dict(bbox=[4, 4, 9, 0]), TINY),
}


def mmdet_trains_on(data_file, folder, names, **arguments):
    init_default_scope('mmdet')
    dataset = build_dataset(
        dict(
            type='CocoDataset',
            data_root='',
            ann_file=str(data_file),
            pipeline=[],
            data_prefix=dict(img=f'{folder}/images'),
            metainfo=dict(classes=tuple(names)),
            **arguments,
        )
    )
    labels = []
    for index in range(len(dataset)):
        instances = dataset.get_data_info(index)['instances']
        labels += [names[item['bbox_label']] for item in instances if not item['ignore_flag']]
    return len(dataset), {name: labels.count(name) for name in names}


@pytest.mark.parametrize('name', LEFT_OUT)
@pytest.mark.parametrize('every', [2, 3, 5])
def test_counts_are_those_of_mmdet(name, every, folder):
    change, reason = LEFT_OUT[name]
    content = coco()
    for entry in content['annotations'][::every]:
        entry.update(change)
    (folder / 'ann.json').write_text(json.dumps(content))
    for empty, classes in itertools.product((True, False), (['round', 'square'], ['square'])):
        rule = dict(filter_empty_gt=empty)
        used = used_by_mmdet(content, classes, rule)
        images, objects = mmdet_trains_on(folder / 'ann.json', folder, classes, filter_cfg=rule)
        assert (len(used.images), {key: used.objects[key] for key in classes}) == (images, objects)
    assert {*used_by_mmdet(content, ['round', 'square']).left_out} == {reason}


def test_images_without_objects_and_small_ones(folder):
    content = coco()
    content['annotations'] = content['annotations'][:2]
    content['images'][3].update(width=20, height=20)
    (folder / 'ann.json').write_text(json.dumps(content))
    for rule in (
        dict(filter_empty_gt=True),
        dict(min_size=32),
        dict(filter_empty_gt=True, min_size=40),
        {},
    ):
        used = used_by_mmdet(content, ['round', 'square'], rule)
        assert (
            len(used.images)
            == mmdet_trains_on(folder / 'ann.json', folder, ['round', 'square'], filter_cfg=rule)[0]
        )


def test_init_counts_images_that_train(folder):
    """One of four training images has objects."""
    train, val = coco(), coco()
    train['images'], val['images'] = train['images'][:4], val['images'][4:]
    train['annotations'], val['annotations'] = train['annotations'][:2], val['annotations'][8:]
    data = read_detection(folder, train, val)
    assert data.counts == (1, 2) and any('3 of 4 training images' in fact for fact in data.facts)
    assert (
        mmdet_trains_on(
            data.train['ann_file'], folder, data.classes, filter_cfg=data.train['filter_cfg']
        )[0]
        == 1
    )


def test_images_of_no_annotation_file_are_counted_once(folder):
    train, val = coco(), coco()
    train['images'], val['images'] = train['images'][:3], val['images'][3:5]
    train['annotations'], val['annotations'] = train['annotations'][:6], val['annotations'][6:10]
    facts = read_detection(folder, train, val).facts
    assert [fact for fact in facts if 'left out' in fact] == [
        f'1 images in {folder / "images"} are in no annotation file: left out'
    ]


@pytest.mark.parametrize('name', LEFT_OUT)
def test_everything_left_out_is_named(name, folder):
    change, reason = LEFT_OUT[name]
    content = coco()
    for entry in content['annotations']:
        entry.update(change)
    problems = {problem.name: problem for problem in read_detection(folder, content).problems}
    assert len(problems[reason].where) == 12 and not problems[reason].stops
    assert reason in problems['no object for training'].fix
    assert ('--crowds-as-objects' in problems['no object for training'].fix) == (reason == CROWD)


def test_crowds_become_objects(folder):
    content = coco()
    for entry in content['annotations'][::2]:
        entry['iscrowd'] = 1
    (folder / '0.json').write_text(json.dumps(content))
    for parts in ([folder / '0.json'], [folder / '0.json'] * 2):
        data = detection.read(
            Request(
                '',
                [folder / 'images'],
                '',
                folder / 'mine.py',
                parts,
                crowds_as_objects=True,
                val_share=0.3,
            ),
            None,
        )
        assert len(data.lists) == 2
        for text in data.lists.values():
            assert not any(entry['iscrowd'] for entry in json.loads(text)['annotations'])
        assert 'class without an object in training' not in found(data)


def test_objects_that_are_there_twice(folder):
    content = coco()
    copies = [{**entry, 'id': entry['id'] + 100} for entry in content['annotations'][:3]]
    # another class is another object
    other = {**content['annotations'][4], 'id': 300, 'category_id': 90}
    content['annotations'] += [*copies, other]
    (problem,) = read_detection(folder, content).problems
    assert 'twice' in problem.name and len(problem.where) == 3


UNLEARNABLE = {
    'fractions': (
        lambda entry: [[value / 64 for value in (4, 4, 24, 4, 24, 24)]],
        'segmentation outside its box',
    ),
    'shifted': (
        lambda entry: [[x + 30 for x in (4, 4, 24, 4, 24, 24)]],
        'segmentation outside its box',
    ),
    'far away': (lambda entry: [[4, 4, 2e8, 4, 24, 24]], 'segmentation that cannot be drawn'),
    'shifted run lengths': (
        lambda entry: dict(size=[48, 64], counts=[48 * 60, 96, 96]),
        'segmentation outside its box',
    ),
}


@pytest.mark.parametrize('name', UNLEARNABLE)
def test_segmentation_must_be_that_of_the_box(name, folder):
    change, problem = UNLEARNABLE[name]
    content = coco()
    for entry in content['annotations'][::2]:
        entry['segmentation'] = change(entry)
    assert found(read_detection(folder, content)) == {problem: True}


def test_predicted_masks_may_be_empty(folder):
    """Labels that a detector predicted: a mask below its threshold has no pixels."""
    content = coco()
    for n, entry in enumerate(content['annotations']):
        x, y, width, height = entry['bbox']
        runs = [48 * x + y, *[height, 48 - height] * (width - 1), height]
        entry['segmentation'] = dict(
            size=[48, 64], counts=[48 * 64] if n % 3 == 0 else [*runs, 48 * 64 - sum(runs)]
        )
    data = read_detection(folder, content)
    (problem,) = data.problems
    assert problem.name == 'mask without pixels' and len(problem.where) == 4 and not problem.stops
    assert 'masks: yes' in data.facts


def test_rotated_box_of_cvat(folder):
    content = coco()
    for n, entry in enumerate(content['annotations']):
        entry['attributes'] = dict(rotation=45.0 * (n % 3))
    (problem,) = read_detection(folder, content).problems
    assert 'attributes.rotation' in problem.name and len(problem.where) == 8


def test_group_of_roboflow_is_no_class(folder):
    content = coco()
    content['categories'] = [
        dict(id=0, name='shapes', supercategory='none'),
        *({**category, 'supercategory': 'shapes'} for category in content['categories']),
    ]
    assert read_detection(folder, content).classes == ('round', 'square')
    content['categories'][0]['name'] = 'round'  # a project with the name of a class
    for category in content['categories'][1:]:
        category['supercategory'] = 'round'
    data = read_detection(folder, content)
    assert data.classes == ('round', 'square') and not data.problems


BASE = Config(
    dict(
        model=dict(test_cfg=dict(rpn=dict(max_per_img=9), rcnn=dict(max_per_img=3))),
        train_dataloader=dict(dataset=dict(pipeline=[dict(type='Resize', scale=(160, 160))])),
    )
)


def test_limits_of_the_base(folder):
    content = coco()
    content['annotations'] += [
        {**content['annotations'][0], 'id': 100 + n, 'bbox': [4 + n, 4, 20, 20]}
        for n in range(1, 4)
    ]
    write_image(Path(folder, 'images', 'thin.png'), 9, (1, 3000))
    content['images'].append(dict(id=99, file_name='thin.png', height=1, width=3000))
    (folder / '0.json').write_text(json.dumps(content))
    data = detection.read(
        Request(
            '', [folder / 'images'], '', folder / 'mine.py', [folder / '0.json'], val_share=0.3
        ),
        BASE,
    )
    problems = {problem.name: problem for problem in data.problems}
    assert problems['image too thin to resize'].stops
    assert 'thin.png (3000 x 1)' in str([*problems.values()])
    (limit,) = problems['more objects than boxes'].where
    assert 'model.test_cfg.rcnn.max_per_img' in limit and '0.60' in limit


@pytest.mark.parametrize('reduce_zero_label', [False, True])
@pytest.mark.parametrize(
    'classes, values',
    [(3, [0, 1, 2, 255]), (3, [0, 1, 3, 4, 254, 255]), (254, [0, 1, 253, 254]), (2, [1, 2])],
)
def test_pixels_of_label_maps_are_those_of_mmseg(classes, values, reduce_zero_label, tmp_path):
    from mmseg.datasets.transforms import LoadAnnotations

    label_map = np.random.default_rng(0).choice(values, (30, 40)).astype(np.uint8)
    cv2.imwrite(str(tmp_path / 'a.png'), label_map)
    loaded = LoadAnnotations()(
        dict(
            seg_map_path=str(tmp_path / 'a.png'), reduce_zero_label=reduce_zero_label, seg_fields=[]
        )
    )['gt_seg_map']
    pixels = dict(zip(*(part.tolist() for part in np.unique(label_map, return_counts=True))))
    used, left_out = used_by_mmseg(pixels, classes, reduce_zero_label)
    assert used == {
        label: count for label in range(classes) if (count := np.count_nonzero(loaded == label))
    }
    assert sum(left_out.get(UNLABELLED, {}).values()) == np.count_nonzero(loaded == 255)
    assert sum(left_out.get(UNKNOWN, {}).values()) == np.count_nonzero(
        (loaded >= classes) & (loaded < 255)
    )
    assert used_by_mmseg({256: 5, 257: 7, 1: 9}, 2)[1] == {CUT: {256: 5, 257: 7}}


def test_label_maps_of_a_thin_image(tmp_path):
    for name, size in (('a', (40, 40)), ('b', (1, 3000)), ('c', (42, 40))):
        write_image(tmp_path / 'images' / f'{name}.png', ord(name), size)
        (tmp_path / 'maps').mkdir(exist_ok=True)
        cv2.imwrite(str(tmp_path / 'maps' / f'{name}.png'), np.eye(*size, dtype=np.uint8))
    data = segmentation.read(
        Request(
            'seg',
            [tmp_path / 'images'],
            '',
            tmp_path / 'mine.py',
            [tmp_path / 'maps'],
            ['rest', 'line'],
        ),
        BASE,
    )
    (problem,) = data.problems
    assert problem.name == 'image too thin to resize'
    assert problem.stops
    assert 'b.png (3000 x 1)' in problem.where[0]
