"""Tasks are found by scope, model and predictions."""

import pytest
from mmengine.config import Config

from mmflatten.tasks import task_of, task_of_predictions, tasks


def test_tasks_have_unique_abbreviations_and_predictions():
    for fact in ('abbreviation', 'prediction'):
        assert len({getattr(task, fact) for task in tasks().values()}) == len(tasks()) == 5


@pytest.mark.parametrize(
    'model, name',
    [
        (dict(type='MaskRCNN'), 'detection'),
        (dict(panoptic_fusion_head=dict(type='HeuristicFusionHead')), 'panoptic'),
        (
            dict(panoptic_fusion_head=dict(num_stuff_classes=4), test_cfg=dict(panoptic_on=True)),
            'panoptic',
        ),
        (
            dict(panoptic_fusion_head=dict(num_stuff_classes=0), test_cfg=dict(panoptic_on=False)),
            'detection',
        ),
    ],
)
def test_model_distinguishes_the_tasks_of_a_scope(model, name):
    assert task_of(Config(dict(default_scope='mmdet', model=model))).name == name


def test_predictions_with_instances_and_segments_are_panoptic():
    entries = [dict(pred_instances=0, pred_panoptic_seg=0)]
    assert task_of_predictions(entries) is tasks()['panoptic']


def test_task_of_names_an_unknown_scope():
    with pytest.raises(ValueError, match=r"default_scope.*'mmpose'.*mmdet"):
        task_of(Config(dict(default_scope='mmpose')))


def test_task_of_predictions_needs_the_prediction_in_every_entry():
    entries = [dict(pred_score=0), dict(pred_score=0, pred_instances=0)]
    assert task_of_predictions(entries) is tasks()['classification']
    assert task_of_predictions([*entries, dict()]) is None


def test_part_names_the_missing_module():
    stereo = tasks()['stereo']
    assert stereo.offers('export') and not stereo.offers('explain')
    with pytest.raises(ValueError, match=r'explain.*stereo.*mmflatten\.explain\.stereo'):
        stereo.part('explain')
