"""The reference of a study runs first, and its mean must be known."""

import json

import numpy as np
import pytest
from scipy import stats

from mmflatten_lab.studies.folder import RESULT
from mmflatten_lab.studies.gate import half_interval
from mmflatten_lab.studies.study_fields import StudyError
from mmflatten_lab.studies.study_file import read_study

REFERENCE = dict(where=dict(attention='focused'), metric='accuracy/top1', margin=2.0, seeds=2)


def spread_of(number: float):
    """Seed 1 of the reference is better by so much."""

    def outcome(run: dict) -> float:
        is_reference = run['result']['levels']['attention'] == 'focused'
        return 50.0 + number * (is_reference and run['result']['seed'] == 1)

    return outcome


def test_the_grid_follows_a_reference_that_repeats(study_file, drive, fake_executor):
    path = study_file(reference=REFERENCE, factors=grid(seeds=4))
    executor = fake_executor(spread_of(1.7))  # 1.91 for the mean of four seeds
    assert len(drive(path, executor)) == 8
    starts = [name[:10] for name in executor.submitted]
    # Then seed by seed, all levels of each.
    assert starts == [
        'focused_s0',
        'focused_s1',
        'vanilla_s0',
        'vanilla_s1',
        'focused_s2',
        'vanilla_s2',
        'focused_s3',
        'vanilla_s3',
    ]


def test_the_interval_of_a_mean_narrows_with_the_planned_seeds():
    values = [70.0, 72.0, 77.0]
    for planned in (3, 10):
        same_spread = stats.norm(0, np.std(values, ddof=1) / np.sqrt(planned))
        known = same_spread.std() * stats.t(planned - 1).isf(0.025)
        assert half_interval(values, planned) == pytest.approx(known)
    # With as many seeds as planned it is the interval of their mean.
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert half_interval(values, 3) == pytest.approx((high - low) / 2)


def test_a_change_between_two_metrics_can_be_the_reference(study_file, drive, fake_executor):
    class Executor(fake_executor):
        def submit(self, folder):
            status = super().submit(folder)
            path = folder / RESULT
            result = json.loads(path.read_text())
            # far apart from seed to seed, but both by the same
            seed = 10.0 * result['seed']
            result['metrics'] = {'accuracy/top1': 50 + seed, 'accuracy/top5': 70 + seed}
            path.write_text(json.dumps(result))
            return status

    changes = REFERENCE | dict(minus='accuracy/top5')
    assert len(drive(study_file(reference=changes), Executor())) == 4
    with pytest.raises(StudyError, match='mean of accuracy/top1 of focused over 2 seeds'):
        drive(study_file(reference=REFERENCE), Executor(), out='other')
    with pytest.raises(StudyError, match='reference.minus: expected one of accuracy/top1, .*top9'):
        drive(study_file(reference=REFERENCE | dict(minus='top9')), Executor(), out='third')


def test_a_reference_that_does_not_repeat_stops_the_study(study_file, drive, fake_executor):
    path = study_file(reference=REFERENCE)
    executor = fake_executor(spread_of(2.5))
    message = (
        'mean of accuracy/top1 of focused over 2 seeds to be known to 2, got 15.9 from the first'
        ' .50, 52.5.'
    )
    with pytest.raises(StudyError, match=message):
        drive(path, executor)
    assert len(executor.submitted) == 2
    # with the same results, the next start refuses at once
    again = fake_executor()
    with pytest.raises(StudyError, match='reference.margin'):
        drive(path, again)
    assert not again.submitted


def test_each_cell_of_the_reference_is_a_pair_of_its_own(study_file, drive, fake_executor):
    def outcome(run: dict) -> float:
        return 90.0 if run['result']['levels']['task'] == 'far' else 50.0

    factors = grid(seeds=2) | dict(task=dict(local={}, far={'optim_wrapper.optimizer.lr': 0.01}))
    executor = fake_executor(outcome)
    assert len(drive(study_file(reference=REFERENCE, factors=factors), executor)) == 8
    assert all(name.startswith('focused') for name in executor.submitted[:4])


@pytest.mark.parametrize(
    'change, message',
    [
        (dict(reference=REFERENCE | dict(where=dict(attention='other'))), 'reference.where.*other'),
        (dict(reference=REFERENCE | dict(margin=0)), 'reference.margin: Input should be greater'),
        (dict(reference=REFERENCE | dict(metric='top9')), 'reference.metric.*accuracy/top1.*top9'),
        (
            dict(reference=REFERENCE, exclude=[dict(attention='focused', seed=1)]),
            'factors.seed: expected at least 2 seeds of the reference focused, got 1',
        ),
        (
            dict(reference=REFERENCE, exclude=[dict(attention='focused')]),
            'reference.where: expected a cell of the grid',
        ),
    ],
)
def test_a_reference_that_cannot_be_checked_is_an_error(
    study_file, drive, fake_executor, change, message
):
    with pytest.raises(StudyError, match=message):
        drive(study_file(**change), fake_executor())


def test_a_reference_that_failed_is_named(study_file, drive, fake_executor):
    executor = fake_executor(lambda run: 1)
    with pytest.raises(StudyError, match='focused_s0.*failed.*the cause'):
        drive(study_file(reference=REFERENCE), executor)
    assert len(executor.submitted) == 2


def grid(seeds: int) -> dict:
    mixers = dict(
        focused=dict(type='FocusedLinearAttention'),
        vanilla=dict(type='LinearAttention', feature_map='relu'),
    )
    levels = {name: {'model.backbone.mixers': dict(L=mixer)} for name, mixer in mixers.items()}
    return dict(attention=levels, seed=seeds)


def test_a_study_without_a_reference_has_no_gate(study_file):
    assert read_study(study_file()).reference is None
