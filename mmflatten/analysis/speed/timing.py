"""Timing several things side by side, in rounds, so that a change of the machine's load meets all of them."""
from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import median, quantiles

import torch

from mmflatten.analysis.speed.machine import BUSY_CPUS, LoadWatch

# A sample repeats a short call until it takes about this long, so that the clock and its overhead do not matter.
SAMPLE_SECONDS = 0.02
MIN_ROUNDS = 3  # even where the time is up after the first; fewer have no spread

Clock = Callable[[Callable[[], object], int], float]


@dataclass(frozen=True)
class Subject:
    """Something to time."""

    name: str
    call: Callable[[], object]  # one forward pass, or one training step
    images: int = 1  # images, or token maps, per call
    params: int = 0
    around: Callable[[], AbstractContextManager] = nullcontext  # makes their context; entering it is not timed


@dataclass(frozen=True)
class Timing:
    """Seconds per call of one subject, one figure per round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        return quartiles(self.seconds)

    def against(self, reference: Timing) -> Ratio:
        """How much faster than the reference this is; both must come from the same rounds."""
        by_round = [theirs / ours for ours, theirs in zip(self.seconds, reference.seconds, strict=True)]
        return Ratio(median(by_round), quartiles(by_round), reference.best / self.best)


@dataclass(frozen=True)
class Ratio:
    """A subject's throughput relative to a reference."""

    median: float  # over the rounds, of the ratio within a round, which a load that comes and goes changes least
    quartiles: tuple[float, float]  # of the same
    best: float  # ratio of the shortest times


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Lower and upper quartile; of a single value that value twice."""
    if len(values) < 2:
        return values[0], values[0]
    return tuple(quantiles(values, n=4, method='inclusive')[::2])


def measure(subjects: Sequence[Subject], *, rounds: int | None = None, seconds: float | None = None,
            device: str = 'cpu', progress: Callable[[int, float, float], None] = lambda *_: None
            ) -> tuple[list[Timing], int]:
    """Time every subject once per round, in the order given, until the rounds or the time are over.

    Each subject is called at least twice before the first round, so memory pools are filled and code is compiled.

    Args:
        rounds: at most so many.
        seconds: per subject; a round is not begun if it would end later than the sum over all of them. At least
            `MIN_ROUNDS` rounds take place, if `rounds` admits them.
        device: 'cpu', or 'cuda' for the clock of the GPU.
        progress: told after each round how many are done, the seconds they took and about how many are left.

    Returns:
        Timings in the order of the subjects, and how many rounds `undisturbed` left out of them.
    """
    if not subjects or (rounds is None and seconds is None):
        raise ValueError(f'subjects ({len(subjects)}) must not be empty, and rounds ({rounds}) or seconds ({seconds}) '
                         'must be given, or the measurement never ends')
    clock = clock_of(device)
    repeats = [_warm_up(subject, clock) for subject in subjects]
    budget = math.inf if seconds is None else seconds * len(subjects)
    limit = math.inf if rounds is None else rounds
    samples: list[list[float]] = []  # by round
    others: list[float | None] = []
    done, elapsed, start = 0, 0., time.monotonic()
    while done < limit and (done < MIN_ROUNDS or elapsed * (done + 1) / done <= budget):
        watch = LoadWatch()
        samples.append([_sample(subject, clock, number) for subject, number in zip(subjects, repeats)])
        others.append(watch.others())
        done, elapsed = done + 1, time.monotonic() - start
        progress(done, elapsed, max(0., min(budget - elapsed, elapsed / done * (limit - done))))
    kept = undisturbed(others)
    return [Timing(taken) for taken in zip(*(samples[index] for index in kept))], done - len(kept)


def undisturbed(others: Sequence[float | None]) -> list[int]:
    """The rounds in which others used `BUSY_CPUS` at most, if at least `MIN_ROUNDS` are left, else all.

    Args:
        others: for each round the CPUs that other processes used meanwhile, None where the system does not tell.
    """
    kept = [index for index, used in enumerate(others) if (used or 0.) <= BUSY_CPUS]
    return kept if len(kept) >= MIN_ROUNDS else list(range(len(others)))


def _warm_up(subject: Subject, clock: Clock) -> int:
    """Call a subject until it runs as it always will; returns how many calls make a sample."""
    _sample(subject, clock, 1)
    return max(1, math.ceil(SAMPLE_SECONDS / max(_sample(subject, clock, 1), 1e-6)))


def _sample(subject: Subject, clock: Clock, number: int) -> float:
    with subject.around():
        return clock(subject.call, number)


def clock_of(device: str) -> Clock:
    """`clock(call, number)`: seconds per call over `number` calls in a row on this device."""
    return _cuda_clock if torch.device(device).type == 'cuda' else _cpu_clock


def _cpu_clock(call: Callable[[], object], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - start) / number


def _cuda_clock(call: Callable[[], object], number: int) -> float:
    """Events lie in the GPU's own queue, so the time of launching kernels counts only where the GPU waits for it."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    for _ in range(number):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1e3 / number
