"""Checks see through wrappers of data sets, and a metric that cannot be right on them refuses."""

import json

import pytest

from tests.test_engine.test_own_classes import validated  # noqa: F401

WRAPPED = {  # code after the config, and words of the error (none: it trains)
    'two files': (
        "b = copy.deepcopy(a)\nb['ann_file'] = 'copy.json'\n"
        "val_dataloader['dataset'] = dict(type='ConcatDataset', datasets=[a, b])",
        ('val_dataloader', 'image id'),
    ),
    'mmdet': (
        'b = copy.deepcopy(a)\n'
        "val_dataloader['dataset'] = dict(type='mmdet.ConcatDataset', datasets=[a, b])",
        ('image id',),
    ),
    'repeated': (
        "val_dataloader['dataset'] = dict(type='RepeatDataset', times=3, dataset=a)",
        ('RepeatDataset', '6'),
    ),
    'inside of each other': (
        "val_dataloader['dataset'] = dict(type='RepeatDataset', times=1, dataset=dict("
        "type='ConcatDataset', datasets=[a, a]))",
        ('image id',),
    ),
    'other file': (
        "val_dataloader['dataset'] = dict(type='ConcatDataset', datasets=[a])\n"
        "val_evaluator['ann_file'] = '{data}/other.json'",
        ('val_evaluator.ann_file',),
    ),
    'part of the file': (
        "val_dataloader['dataset'] = dict(a, indices=1)",
        ('val_evaluator.ann_file', '1 of its 2'),
    ),
    'repeated inside of a mixture': (
        "twice = dict(type='RepeatDataset', times=2, dataset=a)\n"
        "val_dataloader['dataset'] = dict(type='MultiImageMixDataset', dataset=twice, pipeline=[])",
        ('4 samples of 2 images',),
    ),
    'mixture': (
        "val_dataloader['dataset'] = dict(type='MultiImageMixDataset', dataset=a, pipeline=[])",
        (),
    ),
    'one': ("val_dataloader['dataset'] = dict(type='ConcatDataset', datasets=[a])", ()),
    'repeated training': (
        "train_dataloader['dataset'] = dict(type='RepeatDataset', times=2, dataset=t)",
        (),
    ),
    'missing class in training': (
        "t.update(type='CocoDataset', metainfo=dict(classes=('cat', 'cow')))\n"
        "train_dataloader['dataset'] = dict(type='ClassBalancedDataset', oversample_thr=.1, "
        "dataset=t)\na.update(type='CocoDataset', metainfo=t['metainfo'])",
        ('train_dataloader.dataset', '1 of the 2'),
    ),
    'other classes in one part': (
        "b = copy.deepcopy(t)\nb.update(ann_file='swapped.json', metainfo=dict(classes=("
        "'dog', 'cat')))\ntrain_dataloader['dataset'] = dict(type='mmdet.ConcatDataset', "
        'datasets=[t, b])',
        ('concatenated', 'dog, cat'),
    ),
}


@pytest.mark.parametrize('name', WRAPPED)
def test_wrapped_data_sets(name, validated, detection, tools, fails):  # noqa: F811
    code, words = WRAPPED[name]
    content = json.loads(detection.annotations.read_text())
    (detection.data / 'copy.json').write_text(json.dumps(content))
    (detection.data / 'swapped.json').write_text(
        json.dumps({**content, 'categories': content['categories'][::-1]})
    )
    config = validated(f"a, t = val_dataloader['dataset'], train_dataloader['dataset']\n{code}")
    if words:
        line = fails('train', config)
        assert all(word in line for word in words), line
    else:
        assert tools.train([config]) == 0


@pytest.mark.parametrize('name', ['two files', 'repeated', 'part of the file'])
def test_wrapped_data_sets_of_a_test(name, validated, detection, tools, fails):  # noqa: F811
    (detection.data / 'copy.json').write_text(detection.annotations.read_text())
    config = validated('')
    assert tools.train([config, '--no-validate']) == 0
    detection.config.write_text(
        detection.config.read_text()
        + f"""
a, t = val_dataloader['dataset'], train_dataloader['dataset']
{WRAPPED[name][0]}
test_dataloader, test_evaluator, test_cfg = val_dataloader, val_evaluator, dict(type='TestLoop')
"""
    )
    line = fails('test', config, detection.folder / 'run' / 'epoch_1.pth')
    assert all(word.replace('val_', 'test_') in line for word in WRAPPED[name][1]), line
