"""A real study on this machine: processes are killed, and the study resumes."""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mmflatten.cli import study as command
from mmflatten.studies.folder import FINISHED, StudyFolder
from mmflatten.studies.status import collect_results, status_table
from mmflatten.studies.study import StudyError
from mmflatten.studies.study_file import read_study


def wait_for(condition, seconds: float = 300.):
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, 'timeout'
        time.sleep(.05)
    return value


def workers(folder: Path) -> list[int]:
    """Process ids of the runs in a folder."""
    processes = []
    for entry in Path('/proc').glob('[0-9]*'):
        try:
            words = (entry / 'cmdline').read_bytes().split(b'\0')
        except OSError:
            continue
        if b'mmflatten.studies.worker' in words and any(word.startswith(str(folder).encode()) for word in words):
            processes.append(int(entry.name))
    return processes


def test_study_survives_kill_9_of_a_worker_and_of_its_driver(study_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / 'out'
    path = study_file(budget=dict(epochs=16), claims=[dict(order='focused > vanilla')], factors=dict(
        attention=dict(focused={}, vanilla={'model.backbone.drop_path_rate': 0.}), seed=1))
    study, folder, arguments = read_study(path), StudyFolder(out), [str(path), '--work-dir', str(out)]
    with open('driver.txt', 'w') as log:
        driver = subprocess.Popen([sys.executable, '-m', 'mmflatten', 'study', *arguments, '--workers', '2'],
                                  stdout=log, stderr=log)
    name = wait_for(lambda: list(out.glob('runs/*/train/epoch_1.pth')))[0].parents[1].name
    os.kill(workers(folder.run(name))[0], signal.SIGKILL)
    with pytest.raises(StudyError, match=str(driver.pid)), folder.locked():
        pass
    assert f'{name}  running' in status_table(study, folder)
    wait_for(lambda: 'resumed epoch' in (folder.run(name) / 'log.txt').read_text())
    driver.kill()
    driver.wait()
    wait_for(lambda: not workers(out), 20)  # they end with their driver
    assert 'was killed' in Path('driver.txt').read_text() and 'interrupted' in status_table(study, folder)
    before = {result.name: result for result in collect_results(study, folder) if result.state == FINISHED}

    held = np.ones(3 * 2**26)  # 1.5 GiB, with which `getrusage` of a child would begin
    assert command.main([*arguments, '--workers', '2']) == 0
    results = collect_results(study, folder)
    assert [result.state for result in results] == [FINISHED] * 2
    assert {result.name: result for result in results if result.name in before} == before
    for result in results:
        assert result.validations.keys() == set(map(str, range(1, 17)))
        assert result.params and result.flops and result.throughput and result.cpu_seconds
        assert 2**26 < result.peak_memory < held.nbytes
    assert command.main([*arguments, '--report', 'page.md']) == 0
    assert 'focused > vanilla' in Path('page.md').read_text() and list(Path('page').glob('*.png'))
