"""Checkpoints as files: whole or not there at all."""
import errno
import os

import pytest
import torch

from mmflatten.engine.checkpoints.files import (
    CheckpointError,
    CheckpointWriteError,
    newest_checkpoint,
    what_is_wrong,
    written_aside,
)


def save(path, size=1000):
    torch.save(dict(state_dict=dict(weight=torch.arange(float(size)))), path)


def write(data, path):
    with written_aside(path) as aside:
        aside.write_bytes(data)


def test_writing_replaces_the_old_content_and_leaves_nothing_else(tmp_path):
    path = tmp_path / 'new_folder' / 'a.pth'
    write(b'old', path)
    write(b'new', path)
    assert path.read_bytes() == b'new'
    assert os.listdir(path.parent) == ['a.pth']


def test_full_disk_leaves_the_old_file_and_says_how_much_is_free(tmp_path):
    path = tmp_path / 'a.pth'
    path.write_bytes(b'old')
    # A real ENOSPC without a full disk: the file written aside is the device that is always full.
    (tmp_path / '.a.pth.part').symlink_to('/dev/full')
    with pytest.raises(CheckpointWriteError, match=r'a\.pth: No space left .* MiB are free') as raised:
        write(bytes(2**20), path)
    assert raised.value.errno == errno.ENOSPC
    assert path.read_bytes() == b'old'
    assert os.listdir(tmp_path) == ['a.pth']


def test_room_is_spoken_of_where_it_is_missing_alone(tmp_path):
    (tmp_path / 'file').touch()
    with pytest.raises(CheckpointWriteError, match=r'file/a\.pth: ') as raised:
        write(b'new', tmp_path / 'file' / 'a.pth')
    assert 'free' not in str(raised.value)


@pytest.mark.parametrize('damage, problem', [
    (lambda data: data, None),
    (lambda data: data[:-1], 'truncated'),
    (lambda data: data[:len(data) // 2], 'truncated'),
    (lambda data: data[:2000] + bytes([data[2000] ^ 1]) + data[2001:], 'is damaged'),
    (lambda data: b'', 'empty'),
    (lambda data: b'<html>not found</html>', 'no PyTorch checkpoint'),
])
def test_damage_is_found(tmp_path, damage, problem):
    path = tmp_path / 'a.pth'
    save(path)
    path.write_bytes(damage(path.read_bytes()))
    found = what_is_wrong(path)
    assert found is None if problem is None else problem in found


def test_newest_whole_periodic_checkpoint_is_taken(tmp_path):
    for i, name in enumerate(['epoch_9.pth', 'epoch_10.pth', 'best_acc_epoch_11.pth', '.epoch_12.pth.part']):
        save(tmp_path / name)
        os.utime(tmp_path / name, (i, i))
    assert newest_checkpoint(tmp_path).name == 'epoch_10.pth'
    # A second training in the same folder: its first checkpoint is newer than the last of the former.
    save(tmp_path / 'epoch_1.pth')
    assert newest_checkpoint(tmp_path).name == 'epoch_1.pth'
    (tmp_path / 'epoch_1.pth').write_bytes(b'PK')
    assert newest_checkpoint(tmp_path).name == 'epoch_10.pth'
    elsewhere = tmp_path / 'elsewhere'
    elsewhere.mkdir()
    save(elsewhere / 'iter_5.pth')
    (tmp_path / 'last_checkpoint').write_text(str(elsewhere / 'iter_5.pth'))
    assert newest_checkpoint(tmp_path) == elsewhere / 'iter_5.pth'


def test_no_checkpoint_is_none_and_only_damaged_ones_are_an_error(tmp_path):
    assert newest_checkpoint(tmp_path) is None
    assert newest_checkpoint(tmp_path / 'not_there') is None
    (tmp_path / 'iter_5.pth').write_bytes(b'')
    with pytest.raises(CheckpointError, match='none of the 1 checkpoints'):
        newest_checkpoint(tmp_path)
