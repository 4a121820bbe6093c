"""A real study on this machine, of a control: its driver is killed, and the study resumes."""

import multiprocessing
import time
from pathlib import Path

import pytest

from mmflatten_lab.commands import study as command
from mmflatten_lab.studies.folder import StudyFolder, collect_runs, status_table
from mmflatten_lab.studies.runs import FINISHED
from mmflatten_lab.studies.study_fields import StudyError
from mmflatten_lab.studies.study_file import read_study


def wait_for(condition, seconds: float = 300.0):
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, 'timeout'
        time.sleep(0.05)
    return value


def workers(folder: Path) -> list[str]:
    """Command lines of the runs in a folder."""
    lines = []
    for entry in Path('/proc').glob('[0-9]*'):
        try:
            words = (entry / 'cmdline').read_bytes().decode().split('\0')
        except OSError:
            continue
        if 'mmflatten_lab.studies.worker' in words and any(
            word.startswith(str(folder)) for word in words
        ):
            lines.append(' '.join(words))
    return lines


def test_study_resumes_after_kill_9_of_its_driver(study_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / 'out'
    path = study_file(
        controls=None,
        budget=dict(epochs=4),
        exclude=[dict(attention=['focused', 'mean'])],
        factors=dict(
            attention=dict(
                focused={'model.backbone.mixers.L': dict(type='FocusedLinearAttention')}
            ),
            seed=1,
        ),
        claims=[dict(order='focused > none')],
    )
    study, folder, arguments = (
        read_study(path),
        StudyFolder(out),
        [str(path), '--work-dir', str(out)],
    )
    # A fork of this process could wait for ever for a lock that another of its threads holds.
    driver = multiprocessing.get_context('spawn').Process(
        target=command.main, args=([*arguments, '--workers', '1'],)
    )
    driver.start()
    wait_for(lambda: workers(out))
    with pytest.raises(StudyError, match=str(driver.pid)), folder.locked():
        pass
    assert '  running' in status_table(study, folder)
    wait_for(lambda: list(out.glob('runs/*/train/epoch_1.pth')))
    driver.kill()
    driver.join()
    wait_for(lambda: not workers(out), 60)  # they end with their driver
    assert '  interrupted' in status_table(study, folder)

    assert command.main([*arguments, '--workers', '1']) == 0
    (run,) = collect_runs(study, folder)
    assert (
        run.state == FINISHED and 'resumed epoch' in (folder.run(run.name) / 'log.txt').read_text()
    )
    assert run.validations.keys() == set(map(str, range(1, 5)))
    assert run.params and run.flops and run.cpu_seconds and 0 <= run.value <= 100
    assert "'NoAttention'" in (folder.run(run.name) / 'config.py').read_text()
    assert command.main([*arguments, '--report', 'page.md']) == 0
    assert 'focused > none' in Path('page.md').read_text() and list(Path('page').glob('*.png'))
