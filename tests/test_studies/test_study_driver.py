"""The driver with runs that only pretend: what is recorded, kept, repeated and refused."""
import errno
import fcntl
import math
import sqlite3
import threading
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import yaml

from mmflatten.cli import study as command
from mmflatten.studies import driver as driver_module
from mmflatten.studies import worker
from mmflatten.studies.folder import (
    FAILED,
    FINISHED,
    PRUNED,
    RESULT,
    RUN,
    Result,
    StudyFolder,
    read_json,
    write_json,
)
from mmflatten.studies.grid import BEST, TRIAL, Run
from mmflatten.studies.report import write_report
from mmflatten.studies.study import StudyError
from mmflatten.studies.study_file import read_study
from mmflatten.studies.table import NAME, Table, read_table
from mmflatten.studies.tuning import Pruner, trials_of
from mmflatten.studies.worker import NO_SPACE
from mmflatten.studies.worker import main as work

RATE = 'optim_wrapper.optimizer.lr'


def test_what_has_ended_is_not_run_again_and_the_table_is_made_anew(study_file, pretend, pretender, tmp_path):
    path, executor = study_file(), pretender(lambda run: 50. + run['result']['seed'])
    first = pretend(path, executor)
    assert len(executor.submitted) == 4 and executor.closed
    for file in (tmp_path / 'out').glob(f'{NAME}*'):
        file.unlink()
    executor = pretender()
    assert pretend(path, executor) == first and not executor.submitted
    assert {result.name: result for result in read_table(tmp_path / 'out')} == first
    with sqlite3.connect(tmp_path / 'out' / NAME) as connection:
        row, = connection.execute("SELECT value FROM runs WHERE json_extract(levels, '$.attention') = 'vanilla' "
                                  'AND seed = 1')
    assert row == (51.,)


def test_a_failing_run_is_recorded_and_the_rest_goes_on(study_file, pretend, pretender, tmp_path, capsys):
    path = study_file()
    fails = pretender(lambda run: 1 if run['result']['levels']['attention'] == 'vanilla' else 60.)
    results = pretend(path, fails).values()
    assert [(result.state, result.error) for result in results] == [
        (FINISHED, '')] * 2 + [(FAILED, 'ValueError: what happened')] * 2
    assert command.main([str(path), '--status', '--work-dir', str(tmp_path / 'out')]) == 0
    assert '2 finished, 2 failed' in capsys.readouterr().out
    executor = pretender()
    assert [result.state for result in pretend(path, executor).values()].count(FAILED) == 2
    again = pretend(path, executor, retry_failed=True)
    assert len(executor.submitted) == 2 and {result.state for result in again.values()} == {FINISHED}


def test_a_run_that_is_killed_each_time_is_given_up(study_file, pretend, pretender):
    executor = pretender(lambda run: -9)
    results = pretend(study_file(factors=dict(seed=1)), executor)
    result, = results.values()
    assert result.state == FAILED and 'memory' in result.error
    assert len(executor.submitted) == driver_module.ATTEMPTS


def test_a_full_disk_stops_the_study_which_goes_on_later(study_file, pretend, pretender, monkeypatch):
    path = study_file()
    with pytest.raises(StudyError, match='MiB are free'):
        pretend(path, pretender(lambda run: NO_SPACE if run['result']['seed'] else 60.))
    with monkeypatch.context() as patch:
        patch.setattr(driver_module.shutil, 'disk_usage', lambda place: SimpleNamespace(free=10))
        with pytest.raises(StudyError, match='MiB are free'):
            pretend(path, pretender())
    executor = pretender()
    results = pretend(path, executor)
    assert len(executor.submitted) == 3 and {result.state for result in results.values()} == {FINISHED}


def test_a_run_tells_a_full_disk_from_other_failures(tmp_path, monkeypatch, capsys):
    for error, status in ((OSError(errno.ENOSPC, 'No space left on device'), NO_SPACE), (OSError('something else'), 1)):
        monkeypatch.setattr('mmflatten.studies.worker.work', Mock(side_effect=error))
        assert work([str(tmp_path)]) == status
        assert str(error.args[-1]) in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize('changes, field', [
    (dict(options={RATE: 0.2}), 'config'), (dict(metrics=['other', 'accuracy/top1']), 'metrics'),
    (dict(budget=dict(epochs=2, seconds=9)), 'budget.seconds'), (dict(throughput=dict(batch=2)), 'throughput')])
def test_what_changed_since_runs_began_is_refused_unless_told(study_file, pretend, pretender, changes, field):
    pretend(study_file(), pretender())
    path = study_file(**changes)
    with pytest.raises(StudyError, match=f'4 runs.*{field}'):
        pretend(path, pretender())
    keep, rerun = pretender(), pretender()
    pretend(path, keep, changed='keep')
    pretend(path, rerun, changed='rerun')
    assert not keep.submitted and len(rerun.submitted) == 4 and rerun.withdrawn == rerun.submitted


def test_runs_are_not_kept_whose_metric_is_no_more_named(study_file, pretend, pretender):
    pretend(study_file(tune={RATE: [1e-4, 1e-2], 'trials': 2}), pretender(), trials_of)
    path = study_file(tune={RATE: [1e-4, 1e-2], 'trials': 2}, metrics=['loss'])
    with pytest.raises(StudyError, match=r'accuracy/top1, which metrics \(loss\)'):
        pretend(path, pretender(), trials_of, changed='keep')


def test_a_corrected_metric_reaches_failed_runs_which_keep_what_they_have_trained(
        study_file, pretend, pretender, tmp_path):
    def outcome(run: dict) -> float | int:
        return 50. if 'accuracy/top1' in run['metrics'] else 1

    failed, = pretend(study_file(metrics=['top1'], factors=dict(seed=1)), pretender(outcome)).values()
    trained = tmp_path / 'out' / 'runs' / failed.name / 'trained'
    trained.touch()
    done, = pretend(study_file(factors=dict(seed=1)), pretender(outcome), retry_failed=True).values()
    assert (failed.state, done.state) == (FAILED, FINISHED) and trained.exists()


def test_a_run_whose_folder_was_left_half_written_is_run(study_file, pretend, pretender, tmp_path, monkeypatch):
    path = study_file(factors=dict(seed=1))
    with monkeypatch.context() as patch, pytest.raises(OSError):
        patch.setattr('mmflatten.studies.folder.write_json', Mock(side_effect=OSError(errno.ENOSPC, 'full')))
        pretend(path, pretender())
    assert list(tmp_path.glob('out/runs/*/config.py'))
    result, = pretend(path, pretender()).values()
    assert result.state == FINISHED


def test_a_run_that_an_older_version_began_is_not_called_changed(study_file, pretend, pretender, tmp_path):
    path = study_file(factors=dict(seed=1))
    pretend(path, pretender())
    file, = tmp_path.glob('out/runs/*/run.json')
    begun = read_json(file)
    begun['throughput']['shape'] = [1, 1]
    del begun['metrics']
    write_json(file, begun)
    executor = pretender()
    pretend(path, executor)
    assert not executor.submitted


def test_a_trial_is_not_judged_by_one_metric_and_chosen_by_another(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, '_train', lambda *arguments: '')
    monkeypatch.setattr(worker, '_test', lambda *arguments: {'epe': 1., 'acc': 9.})
    write_json(tmp_path / RUN, dict(result=dict(name='x', mode=TRIAL), metrics=['epe', 'acc'], seconds=None,
                                    throughput={}))
    write_json(tmp_path / 'progress.json', dict(validations={'1': 5.}, metric='acc'))
    with pytest.raises(ValueError, match='acc .*epe'):
        worker.work(tmp_path)
    assert not (tmp_path / RESULT).exists()


@pytest.mark.parametrize('validation, value', [(math.nan, 50.), (50., math.inf), (50., 50.)])
def test_a_run_whose_metric_is_not_finite_fails(tmp_path, monkeypatch, validation, value):
    monkeypatch.setattr(worker, '_train', lambda *arguments: '')
    monkeypatch.setattr(worker, '_test', lambda *arguments: {'m': value})
    monkeypatch.setattr(worker, '_throughput', lambda *arguments: {})
    monkeypatch.setattr('mmflatten.studies.folder.git_commit', lambda: 'now')
    write_json(tmp_path / RUN, dict(result=dict(name='x', git_commit='before'), metrics=['m'], seconds=None,
                                    throughput={}))
    write_json(tmp_path / 'progress.json', dict(validations={'1': math.nan, '2': validation}))
    if math.isfinite(validation) and math.isfinite(value):
        worker.work(tmp_path)
        result = Result(**read_json(tmp_path / RESULT))
        assert result.value == value and result.git_commit == 'now' and result.machine['mmengine']
    else:
        with pytest.raises(ValueError, match=f'm .*{validation}, {value}'):
            worker.work(tmp_path)
        assert not (tmp_path / RESULT).exists()


def test_a_table_with_other_columns_is_read_and_made_anew(tmp_path):
    folder, result = StudyFolder(tmp_path / 'a#b?'), Result('x', levels=dict(a='b'), machine=dict(torch='2'))
    table = Table(folder)
    table.rebuild([result])
    table.connection.execute('ALTER TABLE runs DROP COLUMN git_commit')
    table.connection.execute('ALTER TABLE runs ADD COLUMN unknown')
    assert read_table(folder.path) == [result]
    table.rebuild([replace(result, git_commit='abc')])
    assert read_table(folder.path)[0].git_commit == 'abc'
    table.close()


def test_the_time_of_a_study_ends_between_runs(study_file, pretend, pretender):
    executor = pretender()
    with pytest.raises(StudyError, match='total_hours'):
        pretend(study_file(budget=dict(epochs=1, total_hours=1e-9)), executor)
    assert not executor.submitted


def test_every_cell_gets_as_many_trials_and_its_own_best_rate(study_file, pretend, pretender, tmp_path):
    def accuracy(run: dict) -> float:
        tuned, level = run['result']['tuned'] or {RATE: 0.}, run['result']['levels']['attention']
        return 50. + 10 * (tuned[RATE] == (1e-4 if level == 'vanilla' else 1e-2))

    path = study_file(tune={RATE: [1e-4, 1e-2], 'trials': 3})
    results = list(pretend(path, pretender(accuracy), trials_of).values())
    trials = [result for result in results if result.mode == TRIAL]
    assert [result.tuned[RATE] for result in trials] == [1e-4, 1e-3, 1e-2] * 2
    best = [result for result in results if result.mode == BEST]
    assert [(result.levels['attention'], result.tuned[RATE], result.value) for result in best] == [
        ('focused', 1e-2, 60.)] * 2 + [('vanilla', 1e-4, 60.)] * 2
    assert {result.seed for result in trials}.isdisjoint(result.seed for result in best)
    report = write_report([(read_study(path), tmp_path / 'out')], tmp_path / 'page.md').read_text()
    rows = [[cell.strip() for cell in line.split('|')[1:-1]] for line in report.splitlines()]
    assert ['focused', 'accuracy/top1', '50 [50, 50]', '60 [60, 60]', 'lr 0.01'] in rows
    assert ['vanilla', 'accuracy/top1', '50 [50, 50]', '60 [60, 60]', 'lr 0.0001'] in rows


def test_a_study_that_grows_keeps_its_trials_and_what_runs_at_its_best(study_file, pretend, pretender, tmp_path):
    tune = {RATE: [1e-4, 1e-2], 'trials': 3}
    before = pretend(study_file(tune=tune), pretender(), trials_of)
    grown = study_file(tune=tune, factors=dict(read_factors(study_file()), seed=3))
    with pytest.raises(StudyError, match='MiB are free'):  # before any of the new runs has ended
        pretend(grown, pretender(lambda run: NO_SPACE), trials_of)
    assert {name for name, result in before.items() if result.state == FINISHED} == {
        result.name for result in read_table(tmp_path / 'out') if result.state == FINISHED}
    executor = pretender()
    pretend(grown, executor, trials_of)
    assert len(executor.submitted) == 2 + 2  # the new seed, in the grid and at its best


def read_factors(path) -> dict:
    return yaml.safe_load(path.read_text())['factors']


@pytest.mark.parametrize('diverging, status', [(1, 0), (3, 1)])
def test_a_study_fails_by_trials_only_where_no_trial_of_a_cell_has_ended_well(
        study_file, monkeypatch, capsys, diverging, status):
    path = study_file(tune={RATE: [1e-4, 1e-2], 'trials': 3}, factors=dict(seed=1))
    study = read_study(path)
    trials = [Result(run.name, run.mode, run.levels, state=FAILED if number < diverging else FINISHED)
              for number, run in enumerate(trials_of(study))]
    monkeypatch.setattr(driver_module.Driver, 'go', lambda *arguments: {trial.name: trial for trial in trials})
    assert command.main([str(path), '--work-dir', str(path.parent / 'out')]) == status
    said = capsys.readouterr()
    assert f'{3 - diverging} of 3 runs' in said.out
    assert f'{diverging} run' in said.err and '--retry-failed' in said.err


def test_a_study_that_fails_does_not_keep_the_next_from_running(study_file, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    studies, ran = [], []
    for name in ('first', 'second'):
        studies.append(str(study_file(name=name).rename(tmp_path / f'{name}.yaml')))
    monkeypatch.setattr(driver_module.Driver, 'go', lambda self, *arguments: ran.append(self.study.name) or {
        'x': Result('x', state=FAILED if self.study.name == 'first' else FINISHED)})
    assert command.main(studies) == 1
    *said, last = capsys.readouterr().err.splitlines()
    assert ran == ['first', 'second'] and '1 of 2' in last and 'first' in last
    assert any(line.startswith('first: 1 run ') for line in said)


@pytest.mark.parametrize('metric, way', [('higher', 1), ('lower', -1)])
def test_a_trial_below_the_median_of_its_cell_is_hopeless(study_file, metric, way):
    study = read_study(study_file(metrics={'m': metric}, tune={RATE: [1e-4, 1e-2], 'trials': 4}))
    ended = [Result(str(number), TRIAL, dict(attention='vanilla'), tuned={RATE: 1e-3}, state=state, metric='m',
                    value=number, validations={'1': way * number, '2': way * (number + 9)})
             for number, state in enumerate([FINISHED, FINISHED, FINISHED, PRUNED])]
    pruner = Pruner(study, ended)
    run = Run('x', dict(attention='vanilla'), 9, '', {}, TRIAL, {RATE: 2e-3})
    other = Run('x', dict(attention='focused'), 9, '', {}, TRIAL, {RATE: 2e-3})
    assert pruner.hopeless(run, dict(metric='m', validations={'1': way * .5}))
    assert not pruner.hopeless(run, dict(metric='m', validations={'1': way * 1.5}))
    assert not pruner.hopeless(run, dict(metric='m', validations={}))
    assert not pruner.hopeless(other, dict(metric='m', validations={'1': way * .5}))


def test_a_study_file_is_not_taken_for_the_page_of_a_report(study_file, capsys):
    path = study_file()
    written = path.read_text()
    with pytest.raises(SystemExit):
        command.main(['--report', str(path), str(path)])
    assert '.md' in capsys.readouterr().err and path.read_text() == written


@pytest.mark.parametrize('wanted', [['--status'], ['--report', 'page.md']])
def test_a_look_at_a_study_that_has_not_begun(study_file, tmp_path, capsys, monkeypatch, wanted):
    monkeypatch.chdir(tmp_path)
    assert command.main([str(study_file()), *wanted, '--work-dir', str(tmp_path / 'none')]) == 1
    assert str(tmp_path / 'none') in capsys.readouterr().err.splitlines()[-1]


def test_two_drivers_do_not_share_a_folder(tmp_path):
    with StudyFolder(tmp_path).locked(), pytest.raises(StudyError, match='process'):
        with StudyFolder(tmp_path).locked():
            pass


def test_a_look_at_the_status_does_not_keep_a_driver_from_starting(tmp_path):
    with open(tmp_path / 'lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        looked = threading.Timer(.1, fcntl.flock, [lock, fcntl.LOCK_UN])
        looked.start()
        with StudyFolder(tmp_path).locked():
            assert StudyFolder(tmp_path).in_use()
        looked.join()
    assert not StudyFolder(tmp_path).in_use()
