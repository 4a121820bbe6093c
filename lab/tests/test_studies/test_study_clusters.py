"""Executors: this machine, and Slurm through submitit."""

import os
import time

import pytest

from mmflatten_lab.commands import study as command
from mmflatten_lab.studies.executors import LocalExecutor, SlurmExecutor, SlurmJob
from mmflatten_lab.studies.study_fields import StudyError


def wait_for(condition, seconds: float = 300.0):
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, 'timeout'
        time.sleep(0.1)
    return value


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr('torch.cuda.device_count', lambda: 2)


def test_local_executor_distributes_cores():
    cores = sorted(os.sched_getaffinity(0))
    (one,) = LocalExecutor(1).free
    assert one[0] == tuple(cores)


def test_local_executor_distributes_cores_and_gpus(two_gpus):
    several = LocalExecutor(3).free
    assert [gpu for _, gpu in several] == ['0', '1', '0']
    assert {core for held, _ in several for core in held} == set(os.sched_getaffinity(0))


def test_local_executor_keeps_gpus_hidden(monkeypatch, two_gpus):
    monkeypatch.setenv('CUDA_VISIBLE_DEVICES', '3,GPU-ab,5')
    assert [gpu for _, gpu in LocalExecutor(3).free] == ['3', 'GPU-ab', '3']


def test_slurm_executor_refuses_an_option_without_value(tmp_path):
    with pytest.raises(StudyError, match='time'):
        SlurmExecutor(tmp_path, 'partition=gpu,time')


def test_slurm_executor_runs_jobs_through_submitit(tmp_path):
    executor = SlurmExecutor(tmp_path / 'slurm', 'cluster=local,time=3')
    (tmp_path / 'run').mkdir()  # without run.json, so the process fails
    job = executor.submit(tmp_path / 'run')
    assert wait_for(lambda: ended(executor, job)) == (1,)
    assert f'{tmp_path}/run' in (tmp_path / 'run' / 'log.txt').read_text()


def ended(executor: SlurmExecutor, job: object) -> tuple | None:
    status = executor.poll(job)
    return None if status is None else (status,)


def test_slurm_executor_writes_options_into_the_script(tmp_path, monkeypatch):
    commands = tmp_path / 'bin'
    commands.mkdir()
    for name, line in dict(
        srun='', sbatch=f'cat "$1" > {tmp_path}/script; echo Submitted batch job 12'
    ).items():
        (commands / name).write_text(f'#!/bin/sh\n{line}\n')
        (commands / name).chmod(0o755)
    monkeypatch.setenv('PATH', f'{commands}{os.pathsep}{os.environ["PATH"]}')
    executor = SlurmExecutor(
        tmp_path / 'slurm', 'partition=gpu, time=60,gpus=1,mem=8,account=lab,cpus=3'
    )
    (tmp_path / 'run').mkdir()
    assert executor.submit(tmp_path / 'run').job_id == '12'
    script = (tmp_path / 'script').read_text()
    for option in (
        'partition=gpu',
        'time=60',
        'gpus-per-node=1',
        'account=lab',
        'mem=8GB',
        'cpus-per-task=3',
    ):
        assert f'#SBATCH --{option}\n' in script


def test_slurm_executor_cancels_the_job_of_a_killed_driver(tmp_path, monkeypatch):
    calls = tmp_path / 'calls'
    for name, line in dict(
        srun='',
        sbatch=f'echo sbatch >> {calls}; echo Submitted batch job 12',
        scancel=f'echo scancel $1 >> {calls}',
    ).items():
        (tmp_path / name).write_text(f'#!/bin/sh\n{line}\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv('PATH', f'{tmp_path}{os.pathsep}{os.environ["PATH"]}')
    for _ in range(2):
        (tmp_path / 'run').mkdir()
        SlurmExecutor(tmp_path / 'slurm', 'time=1').submit(tmp_path / 'run')
        (tmp_path / 'run').rmdir()  # as --changed rerun does
    assert calls.read_text().splitlines() == ['sbatch', 'scancel 12', 'sbatch']


def test_command_refuses_workers_for_slurm(study_file, capsys):
    assert command.main([str(study_file()), '--slurm', 'partition=gpu', '--workers', '2']) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert '--workers' in line and '2' in line


def test_job_is_queued_again_when_it_is_preempted():
    job = SlurmJob()
    again = job.checkpoint('folder', 'cwd')
    assert again.function is job and again.args == ('folder', 'cwd')


def test_local_executor_reports_a_killed_process_and_frees_its_place(tmp_path):
    executor = LocalExecutor(1)
    process, place = handle = executor.submit(tmp_path)
    assert not executor.free
    process.kill()
    assert wait_for(lambda: executor.poll(handle)) == -9 and executor.free == [place]
