"""The benchmark suite for one attention: its study, a real run, its page, and attentions that
cannot be built.
"""

import os
import sys

import pandas as pd
import pytest

from mmflatten.registry import MODELS
from mmflatten_lab.commands import fingerprint as command
from mmflatten_lab.studies import fingerprint
from mmflatten_lab.studies.runs import FINISHED, expand

OWN = '''
from mmflatten.models.attention import LinearAttention
from mmflatten.registry import MODELS


@MODELS.register_module()
class Mine(LinearAttention):
    """An attention of a user."""


class NoMixer:
    pass
'''


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / 'own_attention.py').write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    # of the trainings
    monkeypatch.setenv('PYTHONPATH', os.pathsep.join([str(tmp_path), *sys.path]))
    yield 'own_attention.Mine'
    sys.modules.pop('own_attention', None)
    MODELS.module_dict.pop('Mine', None)


def test_every_task_is_run_with_the_attention_of_a_user(own_module, tmp_path):
    study = fingerprint.task_suite(f'{own_module}:feature_map=elu', 'mine', 3)
    tasks = fingerprint.chance_levels(study)
    assert {run.seed for run in expand(study)} == {0, 1, 2} and len(expand(study)) == 3 * len(tasks)
    assert all(share < 62 for share in tasks.values()) and set(fingerprint.RECALL.values()) < set(
        tasks
    )
    part = study.model_copy(
        update=dict(
            seeds=[0],
            factors={**study.factors, 'task': {'recall-8': study.factors['task']['recall-8']}},
            options={'train_dataloader.dataset.number': 32, 'test_dataloader.dataset.number': 8},
        )
    )
    (run,) = fingerprint.run_tasks(part, tmp_path / 'out', 1, print)
    assert run.state == FINISHED and run.metric == 'cells/accuracy'
    assert 'own_attention.Mine' in (tmp_path / 'out' / 'runs' / run.name / 'config.py').read_text()
    assert fingerprint.accuracies([run]).iloc[0].tolist() == ['mine', 'recall-8', 0, run.value]


@pytest.mark.parametrize(
    'mixer, line',
    [
        ('SoftmaxAttention', 'softmax'),
        ('FocusedLinearAttention', 'softmax-local'),
        ('CirculantAttention', 'softmax-gate'),
        ('MambaInspiredLinearAttention', 'softmax-local-gate'),
    ],
)
def test_softmax_counterpart_has_the_same_local_term_and_gate(mixer, line):
    assert fingerprint.softmax_counterpart(mixer) == line


def test_one_seed_has_no_interval():
    table = pd.DataFrame(
        [('one', 'count', 0, 40.0), ('other', 'count', 0, 60.0)],
        columns=['attention', 'task', 'seed', 'accuracy'],
    )
    assert fingerprint.intervals(table)['one', 'count'].text() == '40'


def test_page_has_intervals_and_ranks(tmp_path, monkeypatch):
    chance = dict.fromkeys([*fingerprint.RECALL.values(), 'count'], 10.0)
    rows = [
        (name, task, seed, level + seed)
        for task in chance
        for seed in range(2)
        for name, level in (('softmax', 90), ('linear', 40), ('mine', 60))
    ]
    table = pd.DataFrame(rows, columns=['attention', 'task', 'seed', 'accuracy'])
    table[table.attention != 'mine'].to_csv(tmp_path / 'references.csv', index=False)
    monkeypatch.setattr(fingerprint, 'REFERENCES', tmp_path / 'references.csv')
    fingerprint.write_page(
        'mine',
        'LinearAttention',
        table[table.attention == 'mine'],
        chance,
        tmp_path / 'fingerprint.md',
    )
    text = (tmp_path / 'fingerprint.md').read_text()
    # t of 3 degrees of freedom, a standard deviation of .5 ** .5, two seeds
    half = 3.18245 * 0.5**0.5 / 2**0.5
    assert (
        f'60.5 [{60.5 - half:.4g}, {60.5 + half:.4g}]' in text
        and '2 of 3' in text
        and (tmp_path / 'fingerprint.png').stat().st_size > 10_000
    )


@pytest.mark.parametrize(
    'mixer, words',
    [
        ('FocussedAttention', 'FocussedAttention: expected one of'),
        ('no.such.Module', 'no.such.Module: expected'),
        ('own_attention.NoMixer', 'own_attention.NoMixer: expected'),
        ('own_attention.Other', 'own_attention.Other: expected'),
        ('FocusedLinearAttention:colour=red', 'colour'),
        ('LinearAttention:feature_map=loud', 'feature_map'),
    ],
)
def test_attention_that_cannot_be_built_is_named_in_a_line(
    own_module, mixer, words, tmp_path, capsys
):
    assert command.main([mixer, '--out', str(tmp_path / 'out')]) == 1
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / 'out').exists()
