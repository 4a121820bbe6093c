"""Runs of several kinds of processor are compared within each kind."""

from dataclasses import replace

import pytest

from mmflatten_lab.studies.claims import judge
from mmflatten_lab.studies.comparison_tables import comparison_tables
from mmflatten_lab.studies.executors import LocalExecutor
from mmflatten_lab.studies.families import comparable_runs, processor_family
from mmflatten_lab.studies.runs import FINISHED, expand
from mmflatten_lab.studies.study_fields import StudyError
from mmflatten_lab.studies.study_file import read_study

EPYC = dict(processor='AMD EPYC 7B13', gpu='not used')
XEON = dict(processor='Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz', gpu='not used')
SHIFT = 10.0  # points that every level has more on the Xeon


@pytest.fixture
def study(study_file):
    return read_study(
        study_file(
            factors=dict(attention=dict(softmax={}, mala={}, relu={}), seed=4),
            metrics={'acc': 'higher'},
            claims=[dict(order='mala > softmax')],
        )
    )


def ran(study, machine_of) -> list:
    runs = []
    for run in expand(study):
        machine = machine_of(run)
        value = dict(softmax=50.0, mala=53.0, relu=60.0)[run.levels['attention']]
        value += SHIFT * (machine is XEON) + 0.1 * run.seed * (run.levels['attention'] == 'mala')
        runs.append(replace(run, state=FINISHED, metric='acc', value=value, machine=machine))
    return runs


@pytest.mark.parametrize(
    'machine, family',
    [
        (EPYC, 'AMD EPYC'),
        (XEON, 'Intel Xeon'),
        (dict(processor='AMD EPYC', gpu='NVIDIA H200'), 'NVIDIA H200'),
        ({}, 'unknown processor'),
    ],
)
def test_family_is_vendor_and_line(machine, family):
    assert processor_family(machine) == family


def test_a_difference_of_processors_is_no_difference_of_levels(study):
    # relu ran on the Xeon only with seeds that softmax has there, too
    runs = ran(study, lambda run: XEON if run.seed > 1 else EPYC)
    without = [run for run in runs if run.levels['attention'] != 'relu' or run.seed > 1]
    (table,) = comparison_tables(study, without)
    assert table.comparisons['relu'].difference.mean == pytest.approx(10, abs=0.2)
    assert table.intervals['relu'].mean == pytest.approx(70)  # its mean has the Xeon's points
    assert 'AMD EPYC, Intel Xeon: each seed' in ' '.join(table.notes())


def test_levels_without_the_reference_on_their_processor_are_left_out(study):
    runs = ran(study, lambda run: XEON if run.levels['attention'] == 'mala' else EPYC)
    (table,) = comparison_tables(study, runs)
    assert set(table.comparisons) == {'relu'}
    assert 'Not compared: mala on Intel Xeon, where softmax has no run.' in table.notes()
    ((verdict, _),) = judge(study, runs)
    assert verdict == 'too few seeds'


def test_one_family_is_compared_as_before(study):
    runs = ran(study, lambda run: EPYC)
    assert comparable_runs(runs, 'attention', 'softmax') == (runs, [])
    (table,) = comparison_tables(study, runs)
    assert list(table.values.index) == [0, 1, 2, 3]
    ((verdict, _),) = judge(study, runs)
    assert verdict == 'reproduced'


def test_workers_share_the_cores_by_omp_num_threads(monkeypatch):
    monkeypatch.setattr('os.sched_getaffinity', lambda process: set(range(8)))
    monkeypatch.setattr('torch.cuda.device_count', lambda: 0)
    for threads, slots in ((None, 8), ('1', 8), ('2', 4), ('3', 2), ('16', 1)):
        if threads is None:
            monkeypatch.delenv('OMP_NUM_THREADS', raising=False)
        else:
            monkeypatch.setenv('OMP_NUM_THREADS', threads)
        executor = LocalExecutor()
        assert executor.slots == slots
        assert sum(len(cores) for cores, _ in executor.free) == 8
    monkeypatch.setenv('OMP_NUM_THREADS', 'two')
    with pytest.raises(StudyError, match="OMP_NUM_THREADS: expected a positive number, got 'two'"):
        LocalExecutor()
