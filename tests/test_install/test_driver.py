"""A GPU that PyTorch cannot use is named in one line by doctor and training."""
import pytest
import torch

from mmflatten import doctor
from mmflatten.driver import gpu_problem

TOO_OLD = 'NVIDIA A100 (driver 470.57.02)'


@pytest.fixture
def old_driver(tmp_path, monkeypatch):
    """An nvidia-smi that lists a GPU, and a PyTorch that cannot use it."""
    tool = tmp_path / 'bin' / 'nvidia-smi'
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\necho "NVIDIA A100, 470.57.02"\necho "NVIDIA A100, 470.57.02"\n')
    tool.chmod(0o755)
    monkeypatch.setenv('PATH', str(tool.parent), prepend=':')
    monkeypatch.delenv('CUDA_VISIBLE_DEVICES', raising=False)
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: False)
    monkeypatch.setattr(torch.version, 'cuda', '13.2')
    return tool


def test_driver_that_is_too_old_is_named_with_the_fix(old_driver):
    problem = gpu_problem()
    assert TOO_OLD in problem and 'CUDA 13.2' in problem and 'Update the driver' in problem and '\n' not in problem


def test_cpu_build_of_torch_is_named_as_such(old_driver, monkeypatch):
    monkeypatch.setattr(torch.version, 'cuda', None)
    assert TOO_OLD in gpu_problem() and 'CPU only' in gpu_problem() and 'driver,' not in gpu_problem()


@pytest.mark.parametrize('case', ['works', 'hidden', 'no GPU', 'fails'])
def test_nothing_is_said_of_a_gpu_that_works_is_hidden_or_is_not_there(old_driver, monkeypatch, case):
    if case == 'works':
        monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    elif case == 'hidden':
        monkeypatch.setenv('CUDA_VISIBLE_DEVICES', '')
    else:
        old_driver.write_text('#!/bin/sh\n' if case == 'no GPU' else '#!/bin/sh\necho "NVML: mismatch, x"; exit 9\n')
    assert gpu_problem() == ''


@pytest.mark.skipif(torch.cuda.is_available(), reason='its processes would find the GPU')
def test_doctor_notes_it(old_driver):
    *_, notes = doctor.report_libraries()
    assert sum(TOO_OLD in note for note in notes) == 1
