"""Timing several things side by side, in rounds, so that a change of the machine's load meets all of them."""
from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from timeit import timeit

import torch

# A sample repeats a short call until it takes about this long, so that the clock and its overhead do not matter.
SAMPLE_SECONDS = 0.02
MIN_ROUNDS = 3  # even where the time is up after the first; fewer have no spread

Call = Callable[[], object]
Clock = Callable[[Call, int], float]  # `clock(call, number)`: seconds per call over `number` calls in a row


@dataclass(frozen=True)
class Subject:
    """Something to time."""

    name: str
    call: Call  # one forward pass, or one training step
    batch: int = 1  # images, or token maps, per call
    params: int = 0
    tokens: int = 0  # of an attention; 0 for a model


def measure(subjects: Sequence[Subject], *, rounds: float = math.inf, seconds: float = math.inf,
            device: str = 'cpu', clock: Clock | None = None,
            progress: Callable[[int, float, float], None] = lambda *_: None) -> list[tuple[float, ...]]:
    """Time every subject once per round, in the order given, until the rounds or the time are over.

    Each subject is called at least twice before the first round, so memory pools are filled and code is compiled.

    Args:
        rounds: at most so many; this or `seconds` must be finite.
        seconds: per subject; a round is not begun if it would end later than the sum over all of them. At least
            `MIN_ROUNDS` rounds take place, if `rounds` admits them.
        device: 'cpu', or 'cuda' for the clock of the GPU.
        clock: another clock than the device's, such as `cpu_clock`.
        progress: told after each round how many are done, the seconds they took and about how many are left.

    Returns:
        Seconds per call, of each subject in each round.
    """
    clock = clock or clock_of(device)
    repeats = [_warm_up(subject.call, clock) for subject in subjects]
    budget, by_round = seconds * len(subjects), []
    done, elapsed, start = 0, 0., time.monotonic()
    while done < rounds and (done < MIN_ROUNDS or elapsed * (done + 1) / done <= budget):
        by_round.append([clock(subject.call, number) for subject, number in zip(subjects, repeats)])
        done, elapsed = done + 1, time.monotonic() - start
        progress(done, elapsed, max(0., min(budget - elapsed, elapsed / done * (rounds - done))))
    return list(zip(*by_round))


def _warm_up(call: Call, clock: Clock) -> int:
    """Call until it runs as it always will; returns how many calls make a sample."""
    clock(call, 1)
    return max(1, math.ceil(SAMPLE_SECONDS / max(clock(call, 1), 1e-6)))


def clock_of(device: str) -> Clock:
    """The clock of a device."""
    if torch.device(device).type == 'cuda':
        return _cuda_clock
    return lambda call, number: timeit(call, number=number) / number


def cpu_clock(call: Call, number: int) -> float:
    """CPU time of this process, all threads together; a fair clock on a busy machine, in one thread."""
    return timeit(call, timer=time.process_time, number=number) / number


def _cuda_clock(call: Call, number: int) -> float:
    """Events lie in the GPU's own queue, so the time of launching kernels counts only where the GPU waits for it."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    for _ in range(number):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1e3 / number
