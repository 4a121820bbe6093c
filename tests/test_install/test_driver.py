"""Messages of `mmflatten doctor` and training about a GPU that PyTorch cannot use."""

import pytest
import torch

from mmflatten.cli import doctor
from mmflatten.requirements import gpu_problem

TOO_OLD = 'NVIDIA A100'


@pytest.fixture
def old_driver(tmp_path, monkeypatch):
    """A fake nvidia-smi that lists a GPU, and a PyTorch that cannot use it."""
    tool = tmp_path / 'bin' / 'nvidia-smi'
    tool.parent.mkdir()
    tool.write_text(
        '#!/bin/sh\necho "GPU 0: NVIDIA A100 (UUID: GPU-1)"\necho "GPU 1: NVIDIA A100 (UUID:'
        ' GPU-2)"\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv('PATH', str(tool.parent), prepend=':')
    monkeypatch.delenv('CUDA_VISIBLE_DEVICES', raising=False)
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: False)
    monkeypatch.setattr(torch.version, 'cuda', '13.2')
    return tool


def test_gpu_problem_names_an_old_driver(old_driver):
    problem = gpu_problem()
    assert TOO_OLD in problem and '13.2' in problem and len(problem.splitlines()) == 1
    assert (
        '--torch-backend=auto --reinstall-package torch --reinstall-package torchvision torch=='
        in problem
    )


def test_gpu_problem_names_a_build_without_cuda(old_driver, monkeypatch):
    with_cuda = gpu_problem()
    monkeypatch.setattr(torch.version, 'cuda', None)
    assert TOO_OLD in gpu_problem() and gpu_problem() != with_cuda


@pytest.mark.parametrize('case', ['works', 'hidden', 'no GPU', 'fails'])
def test_gpu_problem_is_empty_for_working_hidden_and_absent_gpus(old_driver, monkeypatch, case):
    if case == 'works':
        monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    elif case == 'hidden':
        monkeypatch.setenv('CUDA_VISIBLE_DEVICES', '')
    else:
        old_driver.write_text(
            '#!/bin/sh\n' if case == 'no GPU' else '#!/bin/sh\necho "NVML: mismatch, x"; exit 9\n'
        )
    assert gpu_problem() == ''


@pytest.mark.skipif(torch.cuda.is_available(), reason='its processes would find the GPU')
def test_doctor_reports_the_gpu_problem(old_driver, monkeypatch):
    monkeypatch.setattr(doctor, '_try', lambda name, missing: (False, ''))
    *_, notes = doctor.report_libraries()
    assert sum(TOO_OLD in note for note in notes) == 1
