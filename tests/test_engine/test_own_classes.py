"""Mistakes in user-defined classes that would give an AP of 0 are rejected before training, with
the field.
"""

import json
import shutil

import cv2
import numpy as np
import pytest

# name: (line added to the config, substrings of the error)
MISTAKES = {
    'one name without its comma': (
        "train_dataloader['dataset']['metainfo'] = dict(classes='cat')",
        ('metainfo.classes', "('cat', )"),
    ),
    'upper-case key': (
        "train_dataloader['dataset']['metainfo'] = dict(CLASSES=('cat', 'dog'))",
        ('metainfo', 'CLASSES', 'classes'),
    ),
    'classes beside metainfo': (
        "train_dataloader['dataset']['classes'] = ('cat', 'dog')",
        ('classes', 'CocoDataset'),
    ),
    'metainfo beside the loaders alone': (
        "metainfo = train_dataloader['dataset'].pop('metainfo')",
        ('metainfo=dict(classes=...)', 'person', 'cat, dog', 'val_'),
    ),
    'metainfo in one loader alone': (
        "val_dataloader['dataset'].pop('metainfo')",
        ('metainfo=dict(classes=...)', 'person', 'cat, dog'),
    ),
    'another order than the file': (
        "train_dataloader['dataset']['metainfo'] = dict(classes=('dog', 'cat'))",
        ('instances.json', 'cat, dog', 'dog, cat'),
    ),
    'a name in other letters': (
        "train_dataloader['dataset']['metainfo'] = dict(classes=('Cat', 'dog'))",
        ('no category Cat', 'cat, dog'),
    ),
    'a name in other letters, in mmdet itself': (
        (
            "train_dataloader['dataset'].update(type='CocoDataset', metainfo=dict(classes=('Cat',"
            " 'dog')))"
        ),
        ('train_dataloader.dataset', 'instances.json has 1 of the 2 classes'),
    ),
    'classes of COCO in the model': (
        "model['bbox_head']['num_classes'] = 80",
        ('bbox_head.num_classes', 'expected 2', 'got 80'),
    ),
    'other classes for validation': (
        (
            "model['bbox_head']['num_classes'] = 1\n"
            "train_dataloader['dataset']['metainfo'] = dict(classes=('cat', ))\n"
            "val_dataloader['dataset']['metainfo'] = dict(classes=('dog', ))"
        ),
        ('train_dataloader', 'cat', 'dog', 'val_'),
    ),
    'annotations of other data in the metric': (
        "val_evaluator['ann_file'] = '{data}/other.json'",
        ('val_evaluator.ann_file', 'instances.json', 'image of id'),
    ),
    'other category ids in the metric': (
        "val_evaluator['ann_file'] = '{data}/shifted.json'",
        ('val_evaluator.ann_file', '[3, 4]', '[1, 2]'),
    ),
}
VALIDATION = """
import copy
val_dataloader = copy.deepcopy(train_dataloader)
val_dataloader['dataset']['test_mode'] = True
resize = dict(type='Resize', scale=(64, 64), keep_ratio=True)
val_dataloader['dataset']['pipeline'].insert(1, resize)
val_dataloader['sampler'] = dict(type='DefaultSampler', shuffle=False)
val_evaluator = dict(type='CocoMetric', ann_file='{data}/instances.json', metric='bbox')
val_cfg = dict(type='ValLoop')
{mistake}
"""


@pytest.fixture
def validated(detection):
    """The detector with validation, and two annotation files of other data."""
    content = json.loads(detection.annotations.read_text())
    images = [dict(image, file_name=f'other_{image["file_name"]}') for image in content['images']]
    (detection.data / 'other.json').write_text(json.dumps(dict(content, images=images)))
    shifted = dict(
        content,
        categories=[dict(entry, id=entry['id'] + 2) for entry in content['categories']],
        annotations=[
            dict(entry, category_id=entry['category_id'] + 2) for entry in content['annotations']
        ],
    )
    (detection.data / 'shifted.json').write_text(json.dumps(shifted))

    def write(mistake: str = '') -> str:
        text = VALIDATION.replace('{mistake}', mistake).replace('{data}', str(detection.data))
        detection.config.write_text(detection.config.read_text() + text)
        return str(detection.config)

    return write


@pytest.mark.parametrize('name', MISTAKES)
def test_mistake_in_classes_is_rejected(name, validated, fails):
    mistake, words = MISTAKES[name]
    line = fails('train', validated(mistake))
    assert all(word in line for word in words), line


def test_correct_classes_train(validated, tools):
    assert tools.train([validated()]) == 0


def test_classes_may_be_a_file_of_names(validated, tools, detection):
    names = detection.data / 'names.txt'
    names.write_text('cat\ndog\n')
    both = '\n'.join(
        f"{part}_dataloader['dataset']['metainfo'] = dict(classes='{names}')"
        for part in ('train', 'val')
    )
    assert tools.train([validated(both)]) == 0


def test_one_class_of_a_softmax_is_refused(segmentation, tiny, tools, fails):
    """Its probability is 1 and its loss 0, whatever the weights."""
    one = ["train_dataloader.dataset.metainfo.classes=['a']", 'model.decode_head.num_classes=1']
    for path in (segmentation.data / 'maps').iterdir():
        cv2.imwrite(
            str(path),
            255 * np.eye(*cv2.imread(str(path), cv2.IMREAD_UNCHANGED).shape, dtype=np.uint8),
        )
    assert 'num_classes: expected at least 2' in fails(
        'train', segmentation.config, '--cfg-options', *one
    )
    sigmoid = 'model.decode_head.loss_decode.use_sigmoid=True'
    assert tools.train([segmentation.config, '--cfg-options', *one, sigmoid]) == 0
    shutil.rmtree(tiny.data / 'light')
    line = fails(
        'train',
        tiny.config,
        '--no-validate',
        '--cfg-options',
        'model.head.num_classes=1',
        'data_preprocessor.num_classes=1',
    )
    assert 'num_classes: expected at least 2' in line
