"""Controls without attention: levels of every study, and what the report says of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mmflatten.models.attention import build_mixer
from mmflatten_lab.studies.claims import added_runs, judge
from mmflatten_lab.studies.comparison_tables import comparison_tables
from mmflatten_lab.studies.fingerprint import unmeasured
from mmflatten_lab.studies.runs import FINISHED, expand
from mmflatten_lab.studies.statistics import BETTER, LIKE_NONE, UNTESTED, WORSE, Interval
from mmflatten_lab.studies.study_fields import StudyError
from mmflatten_lab.studies.study_file import read_study

LEVELS = {
    name: {'model.backbone.linear_attention': dict(type='SoftmaxAttention')}
    for name in ('good', 'fair', 'like')
}


@pytest.fixture
def controlled(study_file):
    """Three attentions of which `fair` and `like` do what the controls do."""
    return read_study(
        study_file(
            controls=None,
            factors=dict(attention=LEVELS, seed=6),
            metrics=['acc'],
            claims=[dict(order='good > fair'), dict(order='fair > like')],
            interim=[2, 6],
        )
    )


def finished(study, **shift):
    """Results of all seeds: `good` is 5 above all others, unless shifted."""
    random = np.random.default_rng(1)
    shifts = {'good': 5.0, **shift}
    runs = []
    for run in expand(study.model_copy(update=dict(interim=[]))):
        value = 60 + run.seed + shifts.get(run.levels['attention'], 0.0) + random.normal(0, 0.1)
        runs.append(replace(run, state=FINISHED, metric='acc', value=float(value)))
    return runs


def test_every_study_has_the_controls(controlled):
    assert list(controlled.factors['attention']) == ['good', 'fair', 'like', 'none', 'mean']
    runs = expand(controlled)
    assert next(run.options for run in runs if run.levels['attention'] == 'none') == {
        'model.backbone.linear_attention': dict(_delete_=True, type='NoAttention')
    }
    seeds = {}
    for name in ('good', 'none', 'mean'):
        seeds[name] = [run.seed for run in runs if run.levels['attention'] == name]
    # controls are never open
    assert seeds == dict(good=[0, 1], none=list(range(6)), mean=list(range(6)))


@pytest.mark.parametrize(
    'levels, field',
    [
        (
            {'a': {'model.backbone.mixers': dict(L=dict(type='SimAAttention'))}},
            'model.backbone.mixers.L',
        ),
        (
            {'a': {'model.backbone.linear_attention.mixer': dict(type='SimAAttention')}},
            'model.backbone.linear_attention.mixer',
        ),
    ],
)
def test_controls_take_the_place_of_the_attention(study_file, levels, field):
    study = read_study(study_file(controls=['mean'], factors=dict(attention=levels)))
    assert study.factors['attention']['mean'] == {field: dict(_delete_=True, type='MeanAttention')}


def test_level_with_the_name_of_a_control_is_the_control(study_file):
    own = {
        'model.backbone.linear_attention': dict(type='NoAttention'),
        'optim_wrapper.optimizer.lr': 2e-3,
    }
    study = read_study(study_file(controls=None, factors=dict(attention={**LEVELS, 'none': own})))
    assert study.factors['attention']['none'] == own and 'mean' in study.factors['attention']


@pytest.mark.parametrize(
    'changes, words',
    [
        (
            dict(factors=dict(rate={'a': {'optim_wrapper.optimizer.lr': 0.1}})),
            'controls: expected .* got a.*none and mean',
        ),
        (dict(controls=[]), 'controls'),
        (dict(controls=''), 'controls'),
        (dict(controls=['some']), 'controls'),
    ],
)
def test_controls_are_refused_only_with_a_reason(study_file, changes, words):
    factors = dict(attention=LEVELS)
    with pytest.raises(StudyError, match=words):
        read_study(study_file(**{'controls': None, 'factors': factors, **changes}))


def test_nothing_is_judged_between_levels_like_none(controlled):
    (table,) = comparison_tables(controlled, finished(controlled, like=0.0))
    assert {name: pair.verdict for name, pair in table.comparisons.items()} == dict.fromkeys(
        ('fair', 'like', 'none', 'mean'), WORSE
    )
    assert sorted(table.like_none) == ['fair', 'like', 'mean', 'none']
    (note,) = [note for note in table.notes() if 'control' in note]
    assert all(name in note for name in ('fair', 'like', 'mean')) and 'good' not in note
    assert [verdict for verdict, _ in judge(controlled, finished(controlled))] == [
        'reproduced',
        LIKE_NONE,
    ]


def test_levels_apart_are_not_judged_where_none_lies_between_them(controlled):
    """`fair` is above `like`, but neither can be told from a noisy control."""
    runs = []
    for run in finished(controlled, good=0.0, fair=0.4, like=-0.4):
        noise = 4 * (-1) ** run.seed if run.levels['attention'] == 'none' else 0
        runs.append(replace(run, value=run.value + noise))
    (table,) = comparison_tables(controlled, runs)
    assert {pair.verdict for pair in table.comparisons.values()} == {LIKE_NONE}
    assert judge(controlled, runs)[1][0] == LIKE_NONE
    refused = controlled.model_copy(update=dict(controls='the levels are no attentions'))
    others = [run for run in runs if run.levels['attention'] not in ('none', 'mean')]
    (table,) = comparison_tables(refused, others)
    assert table.comparisons['like'].verdict != LIKE_NONE and 'no attentions' in table.notes()[0]


def test_nothing_is_judged_without_results_of_the_control(controlled):
    runs = [run for run in finished(controlled) if run.levels['attention'] != 'none']
    (table,) = comparison_tables(controlled, runs)
    assert not {BETTER, WORSE} & {pair.verdict for pair in table.comparisons.values()}
    assert 'no runs' in table.notes()[0]


def test_claims_like_none_get_further_seeds(controlled):
    known = {
        run.name: replace(run, state=FINISHED, metric='acc', value=60.0 + run.seed % 2)
        for run in expand(controlled)
    }
    assert {run.seed for run in added_runs(controlled, known)} == {2, 3, 4, 5}
    assert judge(controlled, [run for run in known.values() if run.seed == 0])[0][0] == UNTESTED


def test_no_token_of_none_reads_another_one():
    torch.manual_seed(0)
    x, hw = torch.randn(2, 16, 8), (4, 4)
    shape = dict(embed_dims=8, num_heads=2, grid_size=hw)
    no_attention = build_mixer(dict(type='NoAttention'), **shape)
    mean_attention = build_mixer(dict(type='MeanAttention'), **shape)
    changed = x.clone()
    changed[:, 0] += 1
    none = no_attention(changed, hw) - no_attention(x, hw)
    mean = mean_attention(changed, hw) - mean_attention(x, hw)
    assert none[:, 0].abs().max() > 1e-3 and not none[:, 1:].any()
    assert torch.allclose(mean, mean[:, :1].expand_as(mean), atol=1e-6) and mean.abs().max() > 1e-4
    mask = torch.ones(1, 1, 16, dtype=torch.bool)
    mask[..., 8:] = False
    part = mean_attention(x, hw, mask)
    changed = x.clone()
    changed[:, 8:] += 1
    assert torch.allclose(part, mean_attention(changed, hw, mask), atol=1e-6)


def test_task_that_none_solves_measures_no_ability():
    found = {
        ('none', 'count'): Interval(70.0),
        ('softmax', 'count'): Interval(90.0),
        ('none', 'recall'): Interval(12.0),
        ('softmax', 'recall'): Interval(90.0),
    }
    line = unmeasured(found, dict(count=20.0, recall=10.0))
    assert 'count' in line and 'recall' not in line
    assert unmeasured({}, dict(count=20.0)) == ''
