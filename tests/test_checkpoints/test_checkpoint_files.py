"""Checkpoint files and folders: atomic writing, damage, and the newest one."""

import errno
import multiprocessing
import os
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import torch

from mmflatten.checkpoints.run_files import (
    CheckpointError,
    CheckpointWriteError,
    FolderInUseError,
    atomic_write,
    newest_checkpoint,
    only_process,
    what_is_wrong,
)


def save(path, size=1000):
    torch.save(dict(state_dict=dict(weight=torch.arange(float(size)))), path)


def write(data, path):
    with atomic_write(path) as aside:
        aside.write_bytes(data)


def test_atomic_write_replaces_the_old_content(tmp_path):
    path = tmp_path / 'new_folder' / 'a.pth'
    write(b'old', path)
    write(b'new', path)
    assert path.read_bytes() == b'new'
    assert os.listdir(path.parent) == ['a.pth']


def test_atomic_write_on_a_full_disk_keeps_the_old_file_and_states_free_space(tmp_path):
    path = tmp_path / 'a.pth'
    path.write_bytes(b'old')
    # A real ENOSPC without a full disk: the partial file is a device that is always full.
    with pytest.raises(
        CheckpointWriteError, match=r'a\.pth: No space left .* MiB are free'
    ) as raised:
        with atomic_write(path) as aside:
            aside.symlink_to('/dev/full')
            aside.write_bytes(bytes(2**20))
    assert raised.value.errno == errno.ENOSPC
    assert path.read_bytes() == b'old'
    assert os.listdir(tmp_path) == ['a.pth']


def test_other_write_errors_do_not_mention_free_space(tmp_path):
    (tmp_path / 'file').touch()
    with pytest.raises(CheckpointWriteError, match=r'file/a\.pth: ') as raised:
        write(b'new', tmp_path / 'file' / 'a.pth')
    assert 'free' not in str(raised.value)


@pytest.mark.parametrize(
    'damage, problem',
    [
        (lambda data: data, None),
        (lambda data: data[:-1], 'truncated'),
        (lambda data: data[: len(data) // 2], 'truncated'),
        (lambda data: data[:2000] + bytes([data[2000] ^ 1]) + data[2001:], 'is damaged'),
        (lambda data: b'', 'empty'),
        (lambda data: b'<html>not found</html>', 'not a PyTorch checkpoint'),
    ],
)
def test_damage_is_detected(tmp_path, damage, problem):
    path = tmp_path / 'a.pth'
    save(path)
    path.write_bytes(damage(path.read_bytes()))
    found = what_is_wrong(path)
    assert found is None if problem is None else problem in found


def test_newest_checkpoint_skips_damaged_and_other_files(tmp_path):
    for i, name in enumerate(
        ['epoch_9.pth', 'epoch_10.pth', 'best_acc_epoch_11.pth', '.epoch_12.pth.part']
    ):
        save(tmp_path / name)
        os.utime(tmp_path / name, (i, i))
    assert newest_checkpoint(tmp_path).name == 'epoch_10.pth'
    # A second training in the same folder: its first checkpoint is newer than the last one of the
    # first training.
    save(tmp_path / 'epoch_1.pth')
    assert newest_checkpoint(tmp_path).name == 'epoch_1.pth'
    (tmp_path / 'epoch_1.pth').write_bytes(b'PK')
    assert newest_checkpoint(tmp_path).name == 'epoch_10.pth'
    elsewhere = tmp_path / 'elsewhere'
    elsewhere.mkdir()
    save(elsewhere / 'iter_5.pth')
    (tmp_path / 'last_checkpoint').write_text(str(elsewhere / 'iter_5.pth'))
    assert newest_checkpoint(tmp_path) == elsewhere / 'iter_5.pth'


def test_last_checkpoint_wins_over_times_of_files(tmp_path):
    for number in (2, 4, 6):
        save(tmp_path / f'epoch_{number}.pth')
        # a clock that was set back
        os.utime(tmp_path / f'epoch_{number}.pth', (10 - number, 10 - number))
    (tmp_path / 'last_checkpoint').write_text('/moved/from/here/epoch_6.pth')
    assert newest_checkpoint(tmp_path).name == 'epoch_6.pth'
    (tmp_path / 'epoch_6.pth').write_bytes(b'PK')
    assert newest_checkpoint(tmp_path).name == 'epoch_2.pth'
    (tmp_path / 'last_checkpoint').write_text('\0')
    assert newest_checkpoint(tmp_path).name == 'epoch_2.pth'


def test_newest_checkpoint_is_none_without_checkpoints_and_an_error_if_all_are_damaged(tmp_path):
    assert newest_checkpoint(tmp_path) is None
    assert newest_checkpoint(tmp_path / 'not_there') is None
    (tmp_path / 'iter_5.pth').write_bytes(b'')
    with pytest.raises(CheckpointError, match='all 1 checkpoints'):
        newest_checkpoint(tmp_path)


def _write_often(path, letter, faults) -> None:
    for _ in range(60):
        try:
            write(letter * 100_000, path)
        except BaseException as error:
            faults.put(repr(error))


def test_several_processes_replace_one_file_without_damage(tmp_path):
    context = multiprocessing.get_context('fork')
    path, faults = tmp_path / 'a.pth', context.SimpleQueue()
    write(b'c' * 100_000, path)
    writers = [
        context.Process(target=_write_often, args=(path, letter, faults)) for letter in (b'a', b'b')
    ]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        content = path.read_bytes()
        assert len(content) == 100_000 and len(set(content)) == 1
    assert faults.empty() and os.listdir(tmp_path) == ['a.pth']


KILLED = """
import os, signal, sys
from mmflatten.checkpoints.run_files import atomic_write
with atomic_write(sys.argv[1]) as folder:
    folder.mkdir()
    (folder / 'weights').write_bytes(b'half')
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_leftovers_of_a_killed_process_are_deleted_and_those_of_a_living_one_stay(tmp_path):
    path = tmp_path / 'published'
    killed = subprocess.run([sys.executable, '-c', KILLED, str(path)])
    assert killed.returncode == -signal.SIGKILL and len(os.listdir(tmp_path)) == 1
    with atomic_write(path) as outer:
        assert len(os.listdir(tmp_path)) == 1
        outer.mkdir()
        with atomic_write(path) as inner:
            inner.mkdir()
            (inner / 'inner').touch()
    assert os.listdir(tmp_path) == ['published'] and not os.listdir(path)


HOLDER = """
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from mmflatten.checkpoints.run_files import only_process
with only_process(sys.argv[1], 'training', '--work-dir'):
    print('holds', flush=True)
    sys.stdin.read()
"""


def in_use(folder: Path, activity: str = 'training') -> AbstractContextManager:
    return only_process(folder, activity, '--work-dir')


def test_one_process_works_in_a_folder(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, '-c', HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout.readline() == 'holds\n'
    with pytest.raises(
        FolderInUseError, match=rf'{tmp_path}: .*process {holder.pid} of .* --work-dir'
    ):
        with in_use(tmp_path):
            pass
    # the files of another activity do not mix with those of a training
    with in_use(tmp_path, 'prediction'):
        pass
    holder.kill()
    holder.communicate()
    with in_use(tmp_path), in_use(tmp_path / 'other'):
        assert (tmp_path / '.training').exists()
    assert [path.name for path in tmp_path.iterdir()] == ['other']
    assert not list((tmp_path / 'other').iterdir())
