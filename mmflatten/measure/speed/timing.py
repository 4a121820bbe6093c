"""Timing of several calls in rounds, so that a change of the machine's load affects all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from timeit import timeit

import torch

# A sample repeats a short call for about this long, so that the resolution of the clock does not
# matter.
SAMPLE_SECONDS = 0.02
MIN_ROUNDS = 3  # even beyond the time limit, because fewer have no quartiles

Call = Callable[[], object]
# `clock(call, number)`: seconds per call over `number` calls in a row
Clock = Callable[[Call, int], float]


@dataclass(frozen=True)
class Subject:
    """A call to time."""

    name: str
    call: Call  # one forward pass, or one training step
    batch: int = 1  # images, or token maps, per call
    params: int = 0
    tokens: int = 0  # of an attention; 0 for a model
    dtype: str | None = None  # if it is not that of the settings
    in_pytorch: bool = True  # PyTorch allocates its memory, which can be measured


def measure(
    subjects: Sequence[Subject],
    *,
    rounds: float = math.inf,
    seconds: float = math.inf,
    device: str = 'cpu',
    clock: Clock | None = None,
    progress: Callable[[int, float, float], None] = lambda *_: None,
) -> list[tuple[float, ...]]:
    """Time every subject once per round, in order, until the rounds or the time are over.

    Each subject is called at least twice before the first round to fill memory pools and compile
    code.

    Args:
        rounds: maximum number of rounds; this or `seconds` must be finite.
        seconds: time per subject. No round starts that would exceed the total, except for the first
            `MIN_ROUNDS`.
        device: 'cpu', or 'cuda' for the clock of the GPU.
        clock: clock to use instead of the device's.
        progress: called after each round with the number of rounds, the elapsed and the remaining
            seconds.

    Returns:
        Seconds per call of each subject in each round.
    """
    clock = clock or clock_of(device)
    repeats = []
    for subject in subjects:
        clock(subject.call, 1)
        seconds_of_one = max(clock(subject.call, 1), 1e-6)
        repeats.append(max(1, math.ceil(SAMPLE_SECONDS / seconds_of_one)))
    budget = seconds * len(subjects)
    by_round: list[list[float]] = []
    done = 0
    elapsed = 0.0
    start = time.monotonic()
    while done < rounds and (done < MIN_ROUNDS or elapsed * (done + 1) / done <= budget):
        by_round.append([clock(subject.call, number) for subject, number in zip(subjects, repeats)])
        done += 1
        elapsed = time.monotonic() - start
        remaining = min(budget - elapsed, elapsed / done * (rounds - done))
        progress(done, elapsed, max(0.0, remaining))
    return list(zip(*by_round))


def clock_of(device: str) -> Clock:
    if torch.device(device).type == 'cuda':
        return _cuda_clock
    return lambda call, number: timeit(call, number=number) / number


def _cuda_clock(call: Call, number: int) -> float:
    """Time with events in the GPU's queue, where kernel launches count only while the GPU waits for
    them.
    """
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    for _ in range(number):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1e3 / number
