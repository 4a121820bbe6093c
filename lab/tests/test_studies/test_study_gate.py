"""The reference of a study runs first, and must repeat."""

import pytest

from mmflatten_lab.studies.study_fields import StudyError
from mmflatten_lab.studies.study_file import read_study

REFERENCE = dict(where=dict(attention='focused'), metric='accuracy/top1', margin=2.0)


def spread_of(number: float):
    """Seed 1 of the reference is better by so much."""

    def outcome(run: dict) -> float:
        is_reference = run['result']['levels']['attention'] == 'focused'
        return 50.0 + number * (is_reference and run['result']['seed'] == 1)

    return outcome


def test_the_grid_follows_a_reference_that_repeats(study_file, drive, fake_executor):
    path = study_file(reference=REFERENCE, factors=grid(seeds=3))
    executor = fake_executor(spread_of(2.0))
    assert len(drive(path, executor)) == 6
    first, second = executor.submitted[:2]
    assert first.startswith('focused_s0') and second.startswith('focused_s1')
    assert len(executor.submitted) == len(set(executor.submitted)) == 6


def test_a_reference_that_does_not_repeat_stops_the_study(study_file, drive, fake_executor):
    path = study_file(reference=REFERENCE)
    executor = fake_executor(spread_of(2.5))
    message = 'accuracy/top1 of focused within 2 over 2 seeds, got 2.5 .50, 52.5.'
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
