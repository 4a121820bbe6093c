"""Damaged files of a study: each is named and set aside, and costs its own run at most."""

import json
import subprocess
import sys

import pytest

from mmflatten.untrusted.files import DamagedFile
from mmflatten.untrusted.json_files import read_json
from mmflatten_lab.studies.folder import (
    PROGRESS,
    RESULT,
    RUN,
    Progress,
    StudyFolder,
    read_file,
    status_table,
)
from mmflatten_lab.studies.runs import FINISHED, StudyRun
from mmflatten_lab.studies.study_file import read_study

CONTENT = {
    RESULT: StudyRun(
        'r', levels={'a': 'x'}, state=FINISHED, value=0.5, metrics={'m': 0.5}
    ).result(),
    PROGRESS: dict(step=3, length=9, metric='m', validations={'1': 0.5}, wall_seconds=2.5),
    RUN: dict(result=StudyRun('r').result(), config_hash='0', metrics=['m']),
}


@pytest.mark.parametrize('name', CONTENT)
def test_file_cut_off_at_any_byte_is_set_aside(tmp_path, name):
    path, whole = tmp_path / name, json.dumps(CONTENT[name]).encode()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert read_file(path) == {}, length
        assert not path.exists() and path.with_name(f'{name}.bad').read_bytes() == whole[:length]
    path.write_bytes(whole)
    assert read_file(path) == CONTENT[name]


@pytest.mark.parametrize(
    'content, words',
    [
        (b'[]', 'dictionary'),
        (b'{}', 'name'),
        (b'null', 'dictionary'),
        (b'\xff', 'UTF-8'),
        (b'[' * 20_000, 'JSON'),
        (b'{"name": "r", "state": 3}', 'state'),
        (b'{"name": "r", "state": "finished", "value": "5"}', 'value'),
        (b'{"name": "r", "state": "finished", "value": true}', 'value'),
        (b'{"name": "r", "state": "finished", "metrics": {"m": "5"}}', 'metrics'),
        (b'{"name": "r", "state": "finished", "metrics": [5]}', 'metrics'),
    ],
)
def test_other_content_is_named(tmp_path, content, words):
    (tmp_path / RESULT).write_bytes(content)
    with pytest.raises(DamagedFile, match=rf'result\.json.*{words}'):
        read_json(tmp_path / RESULT, StudyRun, ('name', 'state'))


def test_folders_links_and_large_files_are_named(tmp_path):
    for name in ('folder', 'link', 'large'):
        path = tmp_path / name
        match name:
            case 'folder':
                path.mkdir()
            case 'link':
                path.symlink_to(path)
            case _:
                with open(path, 'wb') as file:
                    file.truncate(2**30)
        with pytest.raises(DamagedFile, match=str(path)):
            read_json(path, Progress)
    assert read_json(tmp_path / 'missing', Progress) == {}


def test_unknown_fields_are_ignored(tmp_path):
    (tmp_path / RESULT).write_text(json.dumps({**CONTENT[RESULT], 'energy': 5, 'disk': 7}))
    run = StudyRun('r').with_result({**read_file(tmp_path / RESULT), 'name': '/elsewhere'})
    assert run.name == 'r' and run.value == 0.5 and run.disk == 0 and not hasattr(run, 'energy')


def test_study_goes_on_beside_damaged_files(study_file, drive, fake_executor, tmp_path, capsys):
    path = study_file()
    before = drive(path, fake_executor())
    damaged = [tmp_path / 'out' / 'runs' / run.name for run in before[:3]]
    for folder, name in zip(damaged, (RESULT, RUN, RESULT)):
        (folder / name).write_bytes((folder / name).read_bytes()[:-9])
    (damaged[2] / RUN).unlink()
    (damaged[2] / 'train').mkdir()
    (damaged[2] / 'train' / 'epoch_1.pth').touch()  # of unknown settings
    status = status_table(read_study(path), StudyFolder(tmp_path / 'out'))
    assert f'{len(before) - 2} {FINISHED}' in status and (damaged[0] / f'{RESULT}.bad').exists()
    executor = fake_executor()
    after = drive(path, executor)
    assert sorted(executor.submitted) == sorted([before[0].name, before[2].name])
    assert [run.value for run in after] == [run.value for run in before] and {
        run.state for run in after
    } == {FINISHED}
    assert (
        not (damaged[2] / 'train').exists()
        and len(list(damaged[2].glob('train_*.bad/epoch_1.pth'))) == 1
    )


def test_results_are_read_without_slow_libraries():
    """Status and errors of a study file need no data sets, training or statistics."""
    program = 'import sys, mmflatten_lab.studies.folder; print(*sys.modules)'
    done = subprocess.run(
        [sys.executable, '-c', program], capture_output=True, text=True, check=True
    )
    slow = {'mmengine.runner', 'mmpretrain', 'pandas', 'statsmodels'}
    assert slow.isdisjoint(done.stdout.split())
