"""Loader processes of `num_workers='auto'`."""
import os

import pytest

from mmflatten.engine import workers
from mmflatten.engine.runner import Runner

LOADER = dict(dataset=[1, 2], sampler=dict(type='DefaultSampler', shuffle=False), batch_size=1, persistent_workers=True)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """`machine(cpus, quotas, **environment)`: this process may run on `cpus` CPUs in control groups with quotas."""
    monkeypatch.setattr(workers, 'MEMBERSHIP', tmp_path / 'cgroup')
    monkeypatch.setattr(workers, 'CGROUPS', tmp_path / 'groups')

    def fake(cpus: int, quotas: dict[str, str], **environment: str) -> None:
        monkeypatch.setattr(os, 'sched_getaffinity', lambda process: set(range(cpus)), raising=False)
        for name in ('SLURM_CPUS_PER_TASK', 'LOCAL_WORLD_SIZE', 'OMPI_COMM_WORLD_LOCAL_SIZE'):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        lowest = max(quotas, key=len, default='')
        (tmp_path / 'cgroup').write_text(f'4:memory:/other\n0::/{lowest}\n')
        for group, quota in quotas.items():
            folder = tmp_path / 'groups' / group
            folder.mkdir(parents=True, exist_ok=True)
            (folder / 'cpu.max').write_text(f'{quota}\n')

    return fake


@pytest.mark.parametrize('cpus, quotas, environment, expected', [
    (8, {}, {}, 7),
    (1, {}, {}, 1),
    (128, {}, {}, workers.MAX_WORKERS),
    (128, {}, dict(LOCAL_WORLD_SIZE='8'), 15),
    (16, {}, dict(OMPI_COMM_WORLD_LOCAL_SIZE='4'), 3),
    (4, {}, dict(LOCAL_WORLD_SIZE='8'), 1),
    (64, {}, dict(SLURM_CPUS_PER_TASK='5'), 4),  # one task per process
    (64, {}, dict(SLURM_CPUS_PER_TASK='24', LOCAL_WORLD_SIZE='4'), 5),  # torchrun in one task
    (64, {'': '850000 100000'}, {}, 7),  # in a container, 8.5 CPUs
    (64, {'pods/one': 'max 100000', 'pods': '600000 100000'}, {}, 5),  # of the group above
    (64, {'pods/one': 'max 100000'}, dict(SLURM_CPUS_PER_TASK='3'), 2)])
def test_auto_is_the_smallest_number_of_cpus_without_the_training_process(machine, cpus, quotas, environment, expected):
    machine(cpus, quotas, **environment)
    assert workers.loader_workers() == expected
    assert Runner.build_dataloader(dict(LOADER, num_workers='auto')).num_workers == expected


def test_auto_on_this_machine_loads_every_sample():
    loader = Runner.build_dataloader(dict(LOADER, num_workers='auto', collate_fn=dict(type='pseudo_collate')))
    assert loader.persistent_workers and [sample for batch in loader for sample in batch] == [1, 2]


def test_unknown_number_of_workers_is_named(tiny, fails):
    line = fails('train', tiny.config, '--cfg-options', 'train_dataloader.num_workers=all')
    assert 'num_workers: expected a number or auto, got all' in line
