"""Tasks are found by scope, model and predictions."""

import pytest
from mmengine.config import Config

from mmflatten.tasks import task_of, task_of_predictions, tasks


def test_tasks_have_unique_scopes_abbreviations_and_predictions():
    for fact in ('scope', 'abbreviation', 'prediction'):
        assert len({getattr(task, fact) for task in tasks().values()}) == len(tasks()) == 4


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
