"""The order that `PermutationSampler` computes: a permutation, random, shared by the processes, and small in memory."""
import itertools
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from mmengine.config import Config
from mmengine.dataset import DefaultSampler

from mmflatten.datasets.sampler import CHUNK, PermutationSampler, permute
from mmflatten.registry import DATA_SAMPLERS

REPOSITORY = Path(__file__).parents[2]
ORDER = [4, 6, 5, 9, 8, 2, 7, 3, 1, 0]


def sampler(size: int, rank: int = 0, processes: int = 1, kind: type = PermutationSampler, **kwargs):
    made = DATA_SAMPLERS.build(dict(type=kind, dataset=range(size), seed=5, **kwargs))
    made.rank, made.world_size = rank, processes
    made.num_samples = -(-size // processes)
    made.total_size = made.num_samples * processes
    return made


@pytest.mark.parametrize('size', [1, 2, 3, 16, 255, 256, 257, 1000, 2**16, 100_003])
def test_every_index_comes_once_and_in_another_order_each_epoch(size):
    orders = sampler(size), sampler(size)
    orders[1].set_epoch(1)
    first, second = map(list, orders)
    assert sorted(first) == sorted(second) == list(range(size))
    assert first != second or size < 4
    assert type(first[0]) is int


@pytest.mark.parametrize('shuffle', [True, False])
def test_processes_share_an_epoch_as_with_the_default_sampler(shuffle):
    parts = [list(sampler(1001, rank, 8, shuffle=shuffle)) for rank in range(8)]
    assert {len(part) for part in parts} == {126} == {len(sampler(1001, 0, 8))}
    alone = list(sampler(1001, shuffle=shuffle))
    assert [index for step in zip(*parts) for index in step] == alone + alone[:7]
    if not shuffle:
        assert parts == [list(sampler(1001, rank, 8, DefaultSampler, shuffle=False)) for rank in range(8)]


def test_order_is_the_same_at_every_start_and_on_every_platform():
    # Fixed, because a training resumes in this order.
    assert list(sampler(10)) == list(sampler(10)) == ORDER
    assert DATA_SAMPLERS.get('mmflatten.PermutationSampler') is PermutationSampler


def test_order_is_random():
    size, epochs = 50_000, 20
    orders = np.stack([permute(np.arange(size), size, (0, epoch)) for epoch in range(epochs)]).astype(float)
    noise = 5 / np.sqrt(size)  # five standard deviations of a correlation
    for order, after in zip(orders, orders[1:]):
        for one, other in ((order, np.arange(size)), (order[1:], order[:-1]), (order, after)):
            assert abs(np.corrcoef(one, other)[0, 1]) < noise
    # Places of 64 indices over all epochs, in 50 cells: chi-squared with 49 degrees of freedom.
    for index in range(64):
        counts, _ = np.histogram(orders[:, index::64], 50, (0, size))
        assert ((counts - counts.mean())**2 / counts.mean()).sum() < 110
    # A random permutation has one fixed point on average.
    assert 5 < (orders == np.arange(size)).sum() < 40


def test_short_orders_are_random_too():
    seen = {tuple(permute(np.arange(4), 4, (0, epoch)).tolist()) for epoch in range(400)}
    assert len(seen) == 24  # all of them


def test_memory_does_not_grow_with_the_data_set():
    tracemalloc.start()
    try:
        iterator = iter(sampler(10**9, 3, 8))
        assert len(set(itertools.islice(iterator, 2 * CHUNK))) == 2 * CHUNK
        assert tracemalloc.get_traced_memory()[1] < 5 * 2**20  # the default sampler's list has 40 GB
    finally:
        tracemalloc.stop()


def test_imagenet_is_trained_in_the_computed_order():
    cfg = Config.fromfile(REPOSITORY / 'configs/_base_/datasets/imagenet_bs128_224.py')
    assert cfg.train_dataloader.sampler == dict(type='mmflatten.PermutationSampler', shuffle=True)
