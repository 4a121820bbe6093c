"""Random order of a data set of any size, computed sample by sample instead of stored."""
from collections.abc import Iterator
from itertools import chain

import numpy as np
from mmengine.dataset import DefaultSampler

from mmflatten.registry import DATA_SAMPLERS

CHUNK = 2**14  # indices computed at a time
ROUNDS = 6
MIN_BITS = 4  # of a half, so that short permutations are mixed too
MIX = np.uint64(0xbf58476d1ce4e5b9), np.uint64(0x94d049bb133111eb)  # multipliers of SplitMix64


@DATA_SAMPLERS.register_module()
class PermutationSampler(DefaultSampler):
    """MMEngine's `DefaultSampler` without its list of all indices in every process.

    Each process computes only its own part of the epoch's permutation, in pieces of `CHUNK` indices. The order depends
    on seed and epoch only, and differs from `DefaultSampler`'s.

    Args:
        dataset: data set of known length.
        shuffle: shuffle, differently in each epoch.
        seed: seed of the order, equal in all processes. By default the processes agree on a random one.
        round_up: repeat samples so that all processes get equally many.
    """

    def __iter__(self) -> Iterator[int]:
        places = range(self.rank, self.total_size, self.world_size)
        return chain.from_iterable(self._indices(places[start:start + CHUNK]) for start in range(0, len(places), CHUNK))

    def _indices(self, places: range) -> list[int]:
        size = len(self.dataset)
        numbers = np.arange(places.start, places.stop, places.step) % size  # repeats samples beyond the end
        return (permute(numbers, size, (self.seed, self.epoch)) if self.shuffle else numbers).tolist()


def permute(numbers: np.ndarray, size: int, seed: tuple[int, ...]) -> np.ndarray:
    """Map distinct integers below `size` to distinct integers below `size`, pseudo-randomly.

    A Feistel network permutes the smallest suitable range of 2 x `bits` bits. Results outside of `size` are permuted
    again until they are inside (cycle walking: Black and Rogaway, Ciphers with Arbitrary Finite Domains, 2002).
    """
    bits = max(MIN_BITS, -(-(size - 1).bit_length() // 2))
    keys = np.random.SeedSequence(seed).generate_state(ROUNDS, np.uint64)
    shift, mask = np.uint64(bits), np.uint64(2**bits - 1)
    numbers = numbers.astype(np.uint64)
    outside = np.arange(len(numbers))
    while len(outside):
        left, right = numbers[outside] >> shift, numbers[outside] & mask
        for key in keys:
            left, right = right, left ^ (_mix(right ^ key) & mask)
        numbers[outside] = (left << shift) | right
        outside = outside[numbers[outside] >= size]
    return numbers


def _mix(values: np.ndarray) -> np.ndarray:
    """Return pseudo-random 64-bit integers: the last step of the SplitMix64 generator."""
    for shift, multiplier in zip((30, 27), MIX):
        values = (values ^ (values >> np.uint64(shift))) * multiplier
    return values ^ (values >> np.uint64(31))
