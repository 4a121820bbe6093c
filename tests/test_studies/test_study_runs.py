"""A real study on this machine, in its smoke size: processes are killed, and everything goes on."""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mmflatten.cli import study as command
from mmflatten.datasets.fashion import FashionOptions, build_fashion
from mmflatten.studies.folder import FINISHED, StudyFolder
from mmflatten.studies.status import status_table
from mmflatten.studies.study import StudyError
from mmflatten.studies.table import read_table

ROOT = Path(__file__).parents[2]
STUDY = str(ROOT / 'studies' / 'attentions.yaml')
FASHION = ROOT / 'tests' / 'data' / 'fashion-mnist'


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


def test_the_smoke_study_survives_kill_9_of_a_worker_and_of_its_driver_and_reports(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    build_fashion(Path('data/fashion'), FashionOptions(train=256, val=100), FASHION)
    out = tmp_path / 'out'
    folder, arguments = StudyFolder(out), [STUDY, '--size', 'smoke', '--work-dir', str(out)]
    with open('driver.txt', 'w') as log:
        driver = subprocess.Popen([sys.executable, '-m', 'mmflatten', 'study', *arguments, '--workers', '2'],
                                  stdout=log, stderr=log)
    name = wait_for(lambda: list(out.glob('runs/*/train/epoch_1.pth')))[0].parents[1].name
    with pytest.raises(StudyError, match=str(driver.pid)), folder.locked():
        pass
    assert f'{name}  running' in status_table(out)
    os.kill(workers(folder.run(name))[0], signal.SIGKILL)
    wait_for(lambda: 'resumed epoch' in (folder.run(name) / 'log.txt').read_text())
    driver.kill()
    driver.wait()
    wait_for(lambda: not workers(out), 20)  # they end with their driver
    assert 'was killed' in Path('driver.txt').read_text() and 'interrupted' in status_table(out)
    before = {result.name: result for result in read_table(out) if result.state == FINISHED}

    assert command.main([*arguments, '--workers', '2']) == 0
    results = read_table(out)
    assert [result.state for result in results] == [FINISHED] * 4
    assert {result.name: result for result in results if result.name in before} == before
    for result in results:
        assert result == folder.result(result.name) and set(result.validations) <= {'1', '2'}
        assert result.params and result.flops and result.throughput and result.cpu_seconds and result.peak_memory
    assert command.main([*arguments, '--report', 'page.md']) == 0
    assert 'focused > vanilla' in Path('page.md').read_text() and list(Path('page').glob('*.png'))
