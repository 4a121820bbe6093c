"""The driver with runs that only pretend, and the command."""

import errno
import fcntl
import threading
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import yaml

from mmflatten_lab.commands import study as command
from mmflatten_lab.studies import driver as driver_module
from mmflatten_lab.studies import execution
from mmflatten_lab.studies.csv_tables import read_csv, write_csv
from mmflatten_lab.studies.folder import (
    PROGRESS,
    RESULT,
    RUN,
    StudyFolder,
    collect_runs,
    read_file,
    write_json,
)
from mmflatten_lab.studies.runs import FAILED, FINISHED, StudyRun
from mmflatten_lab.studies.study_fields import StudyError
from mmflatten_lab.studies.study_file import read_study
from mmflatten_lab.studies.worker import NO_SPACE
from mmflatten_lab.studies.worker import main as work

RATE = 'optim_wrapper.optimizer.lr'


def test_driver_keeps_finished_runs_and_repeats_failed_ones_on_request(
    study_file, drive, fake_executor, tmp_path, capsys
):
    path = study_file()
    executor = fake_executor(
        lambda run: 1 if run['result']['levels']['attention'] == 'vanilla' else 60.0
    )
    first = drive(path, executor)
    assert len(executor.submitted) == 4
    assert [(result.state, result.error) for result in first] == [
        (FINISHED, ''),
        (FAILED, 'ValueError: the cause'),
    ] * 2
    read = collect_runs(read_study(path), StudyFolder(tmp_path / 'out'))
    assert [run.result() for run in read] == [run.result() for run in first]
    assert command.main([str(path), '--status', '--work-dir', str(tmp_path / 'out')]) == 0
    assert '2 finished, 2 failed' in capsys.readouterr().out

    executor = fake_executor()
    assert drive(path, executor) == first and not executor.submitted
    again = drive(path, executor, retry_failed=True)
    assert len(executor.submitted) == 2 and {result.state for result in again} == {FINISHED}


def test_driver_gives_up_a_run_that_is_killed_every_time(study_file, drive, fake_executor):
    executor = fake_executor(lambda run: -9)
    (result,) = drive(study_file(factors=dict(seed=1)), executor)
    assert result.state == FAILED and 'memory' in result.error
    assert len(executor.submitted) == driver_module.ATTEMPTS


def test_driver_stops_at_a_full_disk_and_resumes_later(
    study_file, drive, fake_executor, monkeypatch
):
    path = study_file()
    with pytest.raises(StudyError, match='MiB free'):
        drive(path, fake_executor(lambda run: NO_SPACE if run['result']['seed'] else 60.0))
    with monkeypatch.context() as patch:
        patch.setattr(driver_module.shutil, 'disk_usage', lambda place: SimpleNamespace(free=10))
        with pytest.raises(StudyError, match='MiB free'):
            drive(path, fake_executor())
    executor = fake_executor()
    results = drive(path, executor)
    assert len(executor.submitted) == 2 and {result.state for result in results} == {FINISHED}


@pytest.mark.parametrize(
    'changes, field',
    [(dict(options={RATE: 0.2}), 'config'), (dict(metrics=['other', 'accuracy/top1']), 'metrics')],
)
def test_driver_refuses_changed_runs_without_a_choice(
    study_file, drive, fake_executor, changes, field
):
    drive(study_file(), fake_executor())
    path = study_file(**changes)
    with pytest.raises(StudyError, match=f'4 runs.*{field}'):
        drive(path, fake_executor())
    keep, rerun = fake_executor(), fake_executor()
    drive(path, keep, changed='keep')
    drive(path, rerun, changed='rerun')
    assert not keep.submitted and len(rerun.submitted) == 4 and rerun.withdrawn == rerun.submitted


def test_driver_refuses_to_keep_runs_whose_metric_was_removed(study_file, drive, fake_executor):
    drive(study_file(), fake_executor())
    with pytest.raises(StudyError, match='accuracy/top1.*loss'):
        drive(study_file(metrics=['loss']), fake_executor(), changed='keep')


def test_corrected_metric_reaches_failed_runs_and_keeps_their_training(
    study_file, drive, fake_executor, tmp_path
):
    def outcome(run: dict) -> float | int:
        return 50.0 if 'accuracy/top1' in run['metrics'] else 1

    (failed,) = drive(study_file(metrics=['top1'], factors=dict(seed=1)), fake_executor(outcome))
    trained = tmp_path / 'out' / 'runs' / failed.name / 'trained'
    trained.touch()
    (done,) = drive(study_file(factors=dict(seed=1)), fake_executor(outcome), retry_failed=True)
    assert (failed.state, done.state) == (FAILED, FINISHED) and trained.exists()


def test_incomplete_run_folder_is_used_again(
    study_file, drive, fake_executor, tmp_path, monkeypatch
):
    path = study_file(factors=dict(seed=1))
    with monkeypatch.context() as patch, pytest.raises(OSError):
        patch.setattr(
            'mmflatten_lab.studies.folder.write_json',
            Mock(side_effect=OSError(errno.ENOSPC, 'full')),
        )
        drive(path, fake_executor())
    assert list(tmp_path.glob('out/runs/*/config.py'))
    (result,) = drive(path, fake_executor())
    assert result.state == FINISHED


def test_run_of_an_older_version_counts_as_unchanged(study_file, drive, fake_executor, tmp_path):
    path = study_file(factors=dict(seed=1))
    drive(path, fake_executor())
    (file,) = tmp_path.glob('out/runs/*/run.json')
    started = read_file(file)
    started['throughput'] = dict(shape=[1, 1])
    started['result']['peak_memory'] = 9
    del started['metrics']
    write_json(file, started)
    executor = fake_executor()
    drive(path, executor)
    assert not executor.submitted


def test_worker_distinguishes_a_full_disk_from_other_failures(tmp_path, monkeypatch, capsys):
    (tmp_path / RUN).touch()
    full = OSError(errno.ENOSPC, 'No space left on device')
    caused = RuntimeError('a data set cannot be read')
    caused.__cause__ = full
    for error, status in ((full, NO_SPACE), (caused, NO_SPACE), (OSError('something else'), 1)):
        monkeypatch.setattr(execution, 'execute_run', Mock(side_effect=error))
        assert work([str(tmp_path)]) == status
        assert str(error.args[-1]) in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    'validated, value, words',
    [
        (dict(validations={'1': 5.0, '2': float('nan')}), 50.0, 'epe: .*nan, 50.0'),
        (dict(validations={'1': 5.0}), float('inf'), 'epe: .*5.0, inf'),
        (dict(validations={'1': float('nan'), '2': 5.0}), 50.0, None),
    ],
)
def test_run_fails_if_its_metric_cannot_be_judged(tmp_path, monkeypatch, validated, value, words):
    monkeypatch.setattr(execution, 'train_run', lambda *arguments: '')
    monkeypatch.setattr(execution, 'load_config', lambda *arguments, **options: None)
    monkeypatch.setattr(execution, 'test', lambda *arguments, **options: {'epe': value, 'acc': 9.0})
    monkeypatch.setattr(execution, 'git_commit', lambda: 'now')
    write_json(
        tmp_path / RUN, dict(result=dict(name='x', git_commit='before'), metrics=['epe', 'acc'])
    )
    write_json(tmp_path / PROGRESS, validated)
    if words:
        with pytest.raises(ValueError, match=words):
            execution.execute_run(tmp_path)
        assert not (tmp_path / RESULT).exists()
    else:
        execution.execute_run(tmp_path)
        result = StudyRun(**read_file(tmp_path / RESULT))
        assert result.value == value and result.git_commit == 'now' and result.machine['mmengine']


def test_failed_study_does_not_stop_the_next(study_file, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    studies, ran = [], []
    for name in ('first', 'second'):
        studies.append(str(study_file(name=name).rename(tmp_path / f'{name}.yaml')))
    monkeypatch.setattr(
        driver_module.Driver,
        'run',
        lambda self, *arguments: (
            ran.append(self.study.name)
            or [StudyRun('x', state=FAILED if self.study.name == 'first' else FINISHED)]
        ),
    )
    assert command.main(studies) == 1
    *lines, last = capsys.readouterr().err.splitlines()
    assert ran == ['first', 'second'] and '1 of 2' in last and 'first' in last
    assert any(line.startswith('first: 1 run ') for line in lines)


def test_report_rejects_a_study_file_as_its_page(study_file, capsys):
    path = study_file()
    content = path.read_text()
    with pytest.raises(SystemExit):
        command.main(['--report', str(path), str(path)])
    assert '.md' in capsys.readouterr().err and path.read_text() == content


@pytest.mark.parametrize('option', [['--status'], ['--report', 'page.md']])
def test_status_and_report_reject_a_study_without_runs(
    study_file, tmp_path, capsys, monkeypatch, option
):
    monkeypatch.chdir(tmp_path)
    assert command.main([str(study_file()), *option, '--work-dir', str(tmp_path / 'none')]) == 1
    assert str(tmp_path / 'none') in capsys.readouterr().err.splitlines()[-1]


def test_study_folder_lock_excludes_a_second_driver_and_outlasts_status(tmp_path):
    with open(tmp_path / 'lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)  # as `in_use` does
        release = threading.Timer(0.1, fcntl.flock, [lock, fcntl.LOCK_UN])
        release.start()
        with StudyFolder(tmp_path).locked():
            assert StudyFolder(tmp_path).in_use()
            with pytest.raises(StudyError, match='process'), StudyFolder(tmp_path).locked():
                pass
        release.join()
    assert not StudyFolder(tmp_path).in_use()


def test_published_runs_are_reused_where_their_config_is_the_same(
    study_file, drive, fake_executor, tmp_path
):
    path = study_file()
    first = drive(path, fake_executor(lambda run: 60.0 + run['result']['seed']))
    write_csv(first, tmp_path / 'tiny.csv')
    published = read_csv(tmp_path / 'tiny.csv')
    assert published[first[0].name] == {
        key: value for key, value in first[0].result().items() if value not in ({}, '', None)
    }
    own = study_file(factors=dict(yaml.safe_load(path.read_text())['factors'], seed=3))
    executor = fake_executor(lambda run: 70.0)
    # of a report on the results so far
    unfinished = {first[0].name: {**published[first[0].name], 'state': 'running'}}
    again = drive(own, executor, out='half', published={**published, **unfinished})
    assert sorted(executor.submitted) == sorted(
        [first[0].name, *(run.name for run in again if run.seed == 2)]
    )
    executor = fake_executor(lambda run: 70.0)
    again = drive(own, executor, out='new', published=published)
    assert sorted(executor.submitted) == sorted(run.name for run in again if run.seed == 2)
    assert [run.value for run in again if run.seed < 2] == [run.value for run in first]
    other = study_file(options={RATE: 1.0})
    executor = fake_executor(lambda run: 70.0)
    assert {run.value for run in drive(other, executor, out='other', published=published)} == {70.0}


def test_claims_that_are_open_get_further_seeds(study_file, drive, fake_executor):
    path = study_file(
        interim=[3, 6],
        factors=dict(yaml.safe_load(study_file().read_text())['factors'], seed=6),
        claims=[dict(order='focused > vanilla')],
    )
    random = np.random.default_rng(0)
    for gap, number in ((5.0, 6), (0.01, 12)):
        executor = fake_executor(
            lambda run, gap=gap: (
                60.0
                + gap * (run['result']['levels']['attention'] == 'focused')
                + float(random.normal(0, 0.5))
            )
        )
        assert len(drive(path, executor, out=f'out{number}')) == number == len(executor.submitted)
