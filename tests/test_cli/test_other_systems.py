"""Locks, files, signals and training without what only Linux has, as on macOS and Windows."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mmflatten import allocator
from mmflatten.checkpoints.run_files import FolderInUseError, atomic_write, only_process
from mmflatten.locks import lock_file

ROOT = Path(__file__).resolve().parents[2]
OTHER_SYSTEM = Path(__file__).with_name('other_system.py')
# Each line that fails ends the process with an error.
CORE = """
import contextlib, math, os, sys
from pathlib import Path
from mmflatten import locks
from mmflatten.checkpoints.run_files import FolderInUseError, atomic_write, only_process
from mmflatten.console import command_line
from mmflatten.measure.speed.machine import available_cpus
from mmflatten.ops import linear_attention
from mmflatten.untrusted.files import read_bytes
import torch

assert locks.fcntl is None and available_cpus() == os.cpu_count()
folder = Path(sys.argv[1])
with atomic_write(folder / 'a.bin') as part:
    part.write_bytes(b'one\\r\\ntwo\\x1a')
with atomic_write(folder / 'a.bin') as part:
    part.write_bytes(b'three\\r\\ntwo\\x1a')
assert read_bytes(folder / 'a.bin') == b'three\\r\\ntwo\\x1a'
assert os.listdir(folder) == ['a.bin']

q = torch.rand(1, 2, 5, 4, requires_grad=True)
linear_attention(q, q, q).sum().backward()
assert q.grad.abs().sum() > 0

@command_line
def command(argv):
    raise ValueError('one line')

assert command([]) == 1
with only_process(folder, 'training', '--work-dir'):
    print('holds', flush=True)
    sys.stdin.read()
print(sorted(os.listdir(folder)))
"""


def on_other_system(code: str, *arguments: object, **options) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, OTHER_SYSTEM, code, *map(str, arguments)],
        env={**os.environ, 'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1'},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_core_works_without_the_parts_of_linux(tmp_path, monkeypatch):
    monkeypatch.setattr('mmflatten.locks.fcntl', None)
    holder = on_other_system(CORE, tmp_path)
    assert holder.stdout.readline() == 'holds\n', holder.communicate()[1]
    with pytest.raises(FolderInUseError, match=rf'process {holder.pid} of .* --work-dir'):
        with only_process(tmp_path, 'training', '--work-dir'):
            pass
    left, errors = holder.communicate()
    assert left == "['a.bin']\n" and 'one line' in errors
    with only_process(tmp_path, 'training', '--work-dir'):
        pass


def test_leftovers_stay_where_folders_have_no_locks(tmp_path, monkeypatch):
    monkeypatch.setattr('mmflatten.locks.fcntl', None)
    path = tmp_path / 'weights.pth'
    with atomic_write(path) as first:
        first.touch()
        with atomic_write(path) as second:  # of another process
            second.write_bytes(b'second')
        assert first.exists()
        first.write_bytes(b'first')
    assert path.read_bytes() == b'first' and os.listdir(tmp_path) == ['weights.pth']


def test_folder_is_free_after_an_error_without_fcntl(tmp_path, monkeypatch):
    monkeypatch.setattr('mmflatten.locks.fcntl', None)
    with pytest.raises(KeyError), only_process(tmp_path, 'training', '--work-dir'):
        with pytest.raises(FolderInUseError), only_process(tmp_path, 'training', '--work-dir'):
            pass
        raise KeyError
    with only_process(tmp_path, 'training', '--work-dir'):
        pass
    assert os.listdir(tmp_path) == []


def test_lock_of_a_study_names_the_systems_that_have_it(tmp_path, monkeypatch):
    monkeypatch.setattr('mmflatten.locks.fcntl', None)
    with open(tmp_path / 'study.lock', 'w') as file:
        with pytest.raises(OSError, match='study.lock: .*Linux and macOS.*Subsystem for Linux'):
            lock_file(file)


@pytest.mark.parametrize('system', ['darwin', 'win32', 'linux'])
def test_memory_is_left_to_a_c_library_without_mallopt(system, monkeypatch):
    asked = []
    library = SimpleNamespace()  # as musl's: nothing but its own functions
    monkeypatch.setattr(allocator, 'os', SimpleNamespace(environ={}))
    monkeypatch.setattr(allocator, 'sys', SimpleNamespace(platform=system))
    monkeypatch.setattr(
        allocator, 'ctypes', SimpleNamespace(CDLL=lambda name: asked.append(name) or library)
    )
    allocator.keep_freed_memory()
    assert asked == ([None] if system == 'linux' else [])  # Windows has no CDLL(None)


TRAINING = """
import sys
from mmflatten.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.full
def test_detector_trains_without_the_parts_of_linux(tmp_path):
    data = ['data', 'digits', '--train', '8', '--val', '4', '--size', '96']
    train = ['train', 'mask-rcnn_flatten-swin-nano_fpn_digits', '--cfg-options']
    train += ['train_cfg.max_epochs=1', 'train_dataloader.num_workers=0']
    train += ['train_dataloader.persistent_workers=False', 'val_dataloader.num_workers=0']
    train += ['val_dataloader.persistent_workers=False']
    for words in (data, train):
        process = on_other_system(TRAINING, *words, cwd=tmp_path)
        output, errors = process.communicate()
        assert process.returncode == 0, output[-2000:] + errors[-2000:]
    assert list(tmp_path.glob('work_dirs/*/epoch_1.pth'))
