"""A real study on this machine: processes are killed, and everything goes on."""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mmflatten.cli import study as command
from mmflatten.studies.costs import check_runs
from mmflatten.studies.driver import Driver
from mmflatten.studies.executors import LocalExecutor
from mmflatten.studies.folder import FINISHED, StudyFolder
from mmflatten.studies.grid import expand
from mmflatten.studies.status import status_table
from mmflatten.studies.study import StudyError
from mmflatten.studies.study_file import read_study
from mmflatten.studies.table import read_table


def wait_for(condition, seconds: float = 180.):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, 'nothing happened'
        time.sleep(.05)
    return found


def workers(out: Path) -> list[int]:
    """Processes of runs in this folder."""
    found = []
    for entry in Path('/proc').glob('[0-9]*'):
        try:
            words = (entry / 'cmdline').read_bytes().split(b'\0')
        except OSError:
            continue
        if b'mmflatten.studies.worker' in words and any(word.startswith(str(out).encode()) for word in words):
            found.append(int(entry.name))
    return found


def test_a_study_survives_kill_9_of_its_worker_and_its_driver(study_file, tmp_path):
    out = tmp_path / 'out'
    path = study_file(budget=dict(epochs=10), factors=dict(attention=dict(only={}), seed=1),
                      options={'train_cfg.val_interval': 2})
    study, folder = read_study(path), StudyFolder(out)
    run, = expand(study)
    with (tmp_path / 'driver.txt').open('w') as log:
        driver = subprocess.Popen([sys.executable, '-m', 'mmflatten', 'study', str(path), '--work-dir', str(out),
                                   '--workers', '1'], stdout=log, stderr=log)
    wait_for(lambda: list(out.glob('runs/*/train/epoch_*.pth')))
    with pytest.raises(StudyError, match=str(driver.pid)), folder.locked():
        pass
    assert f'{run.name}  running' in status_table(out)
    reached = folder.progress(run.name)['step']
    first, = workers(out)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: folder.progress(run.name)['step'] > reached and first not in workers(out))
    driver.kill()
    driver.wait()
    wait_for(lambda: not workers(out), 20)  # they end with their driver
    assert folder.result(run.name) is None and f'{run.name}  interrupted' in status_table(out)
    assert 'was killed' in (tmp_path / 'driver.txt').read_text()
    lines = []
    with folder.locked():
        Driver(study, folder, LocalExecutor(1), lines.append).go([run], check_runs(study, [run]))
    result, = read_table(out)
    assert result.state == FINISHED and result == folder.result(run.name) and run.name in lines[-1]
    assert len(result.validations) >= 3  # of 5; a kill between checkpoint and validation loses one
    assert (folder.run(run.name) / 'log.txt').read_text().count('resumed epoch') == 2
    assert result.params and result.flops and result.throughput and result.cpu_seconds and result.peak_memory


@pytest.mark.full
def test_the_smoke_study_runs_and_reports(scenes, tmp_path, monkeypatch):
    (tmp_path / 'data').mkdir()
    (tmp_path / 'data' / 'digits').symlink_to(scenes)
    monkeypatch.chdir(tmp_path)
    path = str(Path(__file__).parents[2] / 'studies' / 'smoke.yaml')
    assert command.main([path, '--workers', '2']) == 0
    assert command.main([path, '--report', 'page.md']) == 0
    folder = tmp_path / 'work_dirs' / 'studies' / 'smoke'
    assert [result.state for result in read_table(folder)] == [FINISHED] * 4
    assert 'focused > vanilla' in (tmp_path / 'page.md').read_text()
