"""Loader processes of `num_workers='auto'`."""
import os

import pytest

from mmflatten.engine import workers
from mmflatten.engine.runner import Runner

LOADER = dict(dataset=[1, 2], sampler=dict(type='DefaultSampler', shuffle=False), batch_size=1, persistent_workers=True)


@pytest.mark.parametrize('cpus, environment, expected', [
    (8, {}, 7),
    (1, {}, 1),
    (128, {}, workers.MAX_WORKERS),
    (128, dict(LOCAL_WORLD_SIZE='8'), 15),
    (16, dict(OMPI_COMM_WORLD_LOCAL_SIZE='4'), 3),
    (4, dict(LOCAL_WORLD_SIZE='8'), 1)])
def test_auto_is_the_number_of_cpus_without_the_training_process(monkeypatch, cpus, environment, expected):
    monkeypatch.setattr(os, 'sched_getaffinity', lambda process: set(range(cpus)), raising=False)
    for name in ('LOCAL_WORLD_SIZE', 'OMPI_COMM_WORLD_LOCAL_SIZE'):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert workers.loader_workers() == expected
    assert Runner.build_dataloader(dict(LOADER, num_workers='auto')).num_workers == expected


def test_auto_on_this_machine_loads_every_sample():
    loader = Runner.build_dataloader(dict(LOADER, num_workers='auto', collate_fn=dict(type='pseudo_collate')))
    assert loader.persistent_workers and [sample for batch in loader for sample in batch] == [1, 2]


def test_unknown_number_of_workers_is_named(tiny, fails):
    line = fails('train', tiny.config, '--cfg-options', 'train_dataloader.num_workers=all')
    assert 'num_workers: expected a number or auto, got all' in line
