"""Executors: this machine, Slurm through submitit, and a Ray cluster that loses a node."""
import os
import threading
import time

import pytest

from mmflatten_lab.commands import study as command
from mmflatten_lab.studies.driver import Driver
from mmflatten_lab.studies.executors import LocalExecutor, RayExecutor, SlurmExecutor, SlurmJob
from mmflatten_lab.studies.folder import StudyFolder
from mmflatten_lab.studies.runs import FINISHED, expand
from mmflatten_lab.studies.study_fields import StudyError
from mmflatten_lab.studies.study_file import read_study


def wait_for(condition, seconds: float = 300.):
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, 'timeout'
        time.sleep(.1)
    return value


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr('torch.cuda.device_count', lambda: 2)


def test_local_executor_distributes_cores():
    cores = sorted(os.sched_getaffinity(0))
    one, = LocalExecutor(1).free
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
    assert wait_for(lambda: ended(executor, job)) == (1, )
    assert f'{tmp_path}/run' in (tmp_path / 'run' / 'log.txt').read_text()


def ended(executor: SlurmExecutor, job: object) -> tuple | None:
    status = executor.poll(job)
    return None if status is None else (status, )


def test_slurm_executor_writes_options_into_the_script(tmp_path, monkeypatch):
    commands = tmp_path / 'bin'
    commands.mkdir()
    for name, line in dict(srun='', sbatch=f'cat "$1" > {tmp_path}/script; echo Submitted batch job 12').items():
        (commands / name).write_text(f'#!/bin/sh\n{line}\n')
        (commands / name).chmod(0o755)
    monkeypatch.setenv('PATH', f'{commands}{os.pathsep}{os.environ["PATH"]}')
    executor = SlurmExecutor(tmp_path / 'slurm', 'partition=gpu, time=60,gpus=1,mem=8,account=lab', cores=3)
    (tmp_path / 'run').mkdir()
    assert executor.submit(tmp_path / 'run').job_id == '12'
    script = (tmp_path / 'script').read_text()
    for option in ('partition=gpu', 'time=60', 'gpus-per-node=1', 'account=lab', 'mem=8GB', 'cpus-per-task=3'):
        assert f'#SBATCH --{option}\n' in script


def test_slurm_executor_cancels_the_job_of_a_killed_driver(tmp_path, monkeypatch):
    calls = tmp_path / 'calls'
    for name, line in dict(srun='', sbatch=f'echo sbatch >> {calls}; echo Submitted batch job 12',
                           scancel=f'echo scancel $1 >> {calls}').items():
        (tmp_path / name).write_text(f'#!/bin/sh\n{line}\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv('PATH', f'{tmp_path}{os.pathsep}{os.environ["PATH"]}')
    for _ in range(2):
        (tmp_path / 'run').mkdir()
        SlurmExecutor(tmp_path / 'slurm', 'time=1').submit(tmp_path / 'run')
        (tmp_path / 'run').rmdir()  # as --changed rerun does
    assert calls.read_text().splitlines() == ['sbatch', 'scancel 12', 'sbatch']


@pytest.mark.parametrize('arguments, option', [
    (['--ray', 'local', '--workers', '2'], '--workers'),
    (['--slurm', 'partition=gpu', '--workers', '2'], '--workers'),
    (['--slurm', 'partition=gpu', '--gpus-per-run', '0.5'], '--gpus-per-run'),
    (['--gpus-per-run', '1'], '--gpus-per-run'),
    (['--cores-per-run', '1'], '--cores-per-run'),
])
def test_command_refuses_options_that_it_would_ignore(study_file, capsys, arguments, option):
    assert command.main([str(study_file()), *arguments]) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert option in line and arguments[-1] in line


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


@pytest.mark.full
def test_ray_executor_resumes_the_run_of_a_lost_node(study_file, tmp_path):
    import ray
    from ray.cluster_utils import Cluster

    study = read_study(study_file(budget=dict(epochs=40), factors=dict(seed=2), options={'train_cfg.val_interval': 2}))
    runs, folder, lines = expand(study), StudyFolder(tmp_path / 'out'), []
    folder.path.mkdir()
    cluster = Cluster(initialize_head=True, head_node_args=dict(num_cpus=1))
    try:
        executor = RayExecutor(cluster.address)  # connects to the head, which is the only node yet
        lost = cluster.add_node(num_cpus=1)
        assert wait_for(lambda: ray.cluster_resources().get('CPU') == 2)
        driver = threading.Thread(target=lambda: lines.append(
            Driver(study, folder, executor, lines.append).run()))
        driver.start()
        wait_for(lambda: len(list(folder.path.glob('runs/*/train/epoch_*.pth'))) >= 2)
        cluster.remove_node(lost, allow_graceful=False)
        driver.join(500)
        assert {result.state for result in lines[-1]} == {FINISHED}
        logs = [(folder.run(run.name) / 'log.txt').read_text() for run in runs]
        assert sorted(log.count('resumed epoch') for log in logs) == [0, 1]
    finally:
        ray.shutdown()
        cluster.shutdown()
