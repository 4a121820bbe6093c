"""A sampler for trainings that begin with other samples than they end with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized

import torch
from mmengine.dist import sync_random_seed
from torch.utils.data import Sampler

from mmflatten.registry import DATA_SAMPLERS


@DATA_SAMPLERS.register_module()
class StageSampler(Sampler):
    """Samples of the first stages once, then those of the last stage again and again, each time in
    another order. For one device.

    Args:
        dataset: its samples are those of the first stage, then those of the second, and so on.
        stages: number of samples of each.
        seed: of the orders; None for the seed of the run.

    Raises:
        ValueError: the stages do not add up to the data set.
    """

    def __init__(self, dataset: Sized, stages: Sequence[int], seed: int | None = None) -> None:
        if sum(stages) != len(dataset) or min(stages, default=0) < 1:
            raise ValueError(
                f'sampler.stages: expected positive numbers with the sum {len(dataset)}, got'
                f' {list(stages)}. Correct them.'
            )
        self.stages = list(stages)
        self.seed = sync_random_seed() if seed is None else seed

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed)
        start = 0
        for number in self.stages[:-1]:
            yield from (start + torch.randperm(number, generator=generator)).tolist()
            start += number
        while True:
            yield from (start + torch.randperm(self.stages[-1], generator=generator)).tolist()

    def __len__(self) -> int:
        return sum(self.stages)
