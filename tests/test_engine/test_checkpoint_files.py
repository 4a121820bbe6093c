"""Checkpoint files and folders: atomic writing, damage, and the newest one."""
import errno
import os
import pickle
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint import FileSystemWriter
from torch.distributed.checkpoint import save as save_shards

from mmflatten.engine.checkpoints.files import (
    CheckpointError,
    CheckpointWriteError,
    atomic_write,
    newest_checkpoint,
    what_is_wrong,
)
from mmflatten.engine.checkpoints.reading import load_from_local


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
    (tmp_path / '.a.pth.part').symlink_to('/dev/full')
    with pytest.raises(CheckpointWriteError, match=r'a\.pth: No space left .* MiB are free') as raised:
        write(bytes(2**20), path)
    assert raised.value.errno == errno.ENOSPC
    assert path.read_bytes() == b'old'
    assert os.listdir(tmp_path) == ['a.pth']


def test_other_write_errors_do_not_mention_free_space(tmp_path):
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
    (lambda data: b'<html>not found</html>', 'not a PyTorch checkpoint'),
])
def test_damage_is_detected(tmp_path, damage, problem):
    path = tmp_path / 'a.pth'
    save(path)
    path.write_bytes(damage(path.read_bytes()))
    found = what_is_wrong(path)
    assert found is None if problem is None else problem in found


def test_newest_checkpoint_skips_damaged_and_other_files(tmp_path):
    for i, name in enumerate(['epoch_9.pth', 'epoch_10.pth', 'best_acc_epoch_11.pth', '.epoch_12.pth.part']):
        save(tmp_path / name)
        os.utime(tmp_path / name, (i, i))
    assert newest_checkpoint(tmp_path).name == 'epoch_10.pth'
    # A second training in the same folder: its first checkpoint is newer than the last one of the first training.
    save(tmp_path / 'epoch_1.pth')
    assert newest_checkpoint(tmp_path).name == 'epoch_1.pth'
    (tmp_path / 'epoch_1.pth').write_bytes(b'PK')
    assert newest_checkpoint(tmp_path).name == 'epoch_10.pth'
    elsewhere = tmp_path / 'elsewhere'
    elsewhere.mkdir()
    save(elsewhere / 'iter_5.pth')
    (tmp_path / 'last_checkpoint').write_text(str(elsewhere / 'iter_5.pth'))
    assert newest_checkpoint(tmp_path) == elsewhere / 'iter_5.pth'


def test_newest_checkpoint_is_none_without_checkpoints_and_an_error_if_all_are_damaged(tmp_path):
    assert newest_checkpoint(tmp_path) is None
    assert newest_checkpoint(tmp_path / 'not_there') is None
    (tmp_path / 'iter_5.pth').write_bytes(b'')
    with pytest.raises(CheckpointError, match='all 1 checkpoints'):
        newest_checkpoint(tmp_path)


@pytest.fixture
def sharded(tmp_path) -> Path:
    """A weight of 5 x 2 in a sharded checkpoint."""
    folder = tmp_path / 'epoch_2.sharded'
    save_shards({'0': torch.arange(10.).view(5, 2)}, storage_writer=FileSystemWriter(folder), no_dist=True)
    state = OrderedDict(weight=torch.empty(5, 2, device='meta'), count=torch.tensor(4))
    state._metadata = OrderedDict()
    torch.save(dict(meta=dict(iter=7), state_dict=state), folder / 'rest.pth')
    return folder


def test_sharded_checkpoint_is_read_as_one_state(sharded):
    assert what_is_wrong(sharded) is None and newest_checkpoint(sharded.parent) == sharded
    content = load_from_local(str(sharded))
    assert content['meta'] == dict(iter=7) and content['state_dict']['count'] == 4
    assert torch.equal(content['state_dict']['weight'], torch.arange(10.).view(5, 2))


@pytest.mark.parametrize('name, length', [
    ('.metadata', None), ('.metadata', -200), ('rest.pth', None), ('rest.pth', -200), ('__0_0.distcp', None),
    ('__0_0.distcp', -200)])
def test_newest_checkpoint_skips_an_incomplete_sharded_one(sharded, name, length):
    content = (sharded / name).read_bytes()
    (sharded / name).unlink()
    if length is not None:
        (sharded / name).write_bytes(content[:length])
    assert what_is_wrong(sharded) is not None
    earlier = sharded.parent / 'epoch_1.pth'
    save(earlier)
    assert newest_checkpoint(sharded.parent) == earlier


@pytest.mark.parametrize('function', [os.mkdir, torch.load, FileSystemWriter])
def test_index_of_a_sharded_checkpoint_runs_no_code(sharded, function):
    class Call:
        def __reduce__(self):
            return function, (str(sharded / 'marker'),)

    (sharded / '.metadata').write_bytes(pickle.dumps(Call()))
    with pytest.raises(CheckpointError, match='not allowed'):
        load_from_local(str(sharded))
    assert not (sharded / 'marker').exists()
