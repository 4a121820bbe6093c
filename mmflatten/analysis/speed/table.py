"""Timings as people and spreadsheets read them."""
from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmflatten.analysis.flops.table import align
from mmflatten.analysis.speed.machine import BUSY_CPUS
from mmflatten.analysis.speed.models import RunSettings
from mmflatten.analysis.speed.operators import SOFTMAX, crossover, map_of, say_crossover
from mmflatten.analysis.speed.timing import Ratio, Subject, Timing

MODEL_HEADER = ('model', 'params (M)', 'median (ms)', 'quartiles (ms)', 'best (ms)', 'images/s', 'ratio',
                'ratio quartiles', 'best ratio', 'peak (MiB)')
OPERATOR_HEADER = ('tokens', 'attention', 'median (ms)', 'quartiles (ms)', 'best (ms)', 'peak (MiB)', 'ratio',
                   'ratio quartiles')

NOTES = """\
median, quartiles, best: of the time of one call over {rounds} rounds, in each of which every model ran in turn
({left_out} more rounds were left out, because other processes used over {busy:g} CPUs meanwhile).
images/s: by the median. ratio: throughput relative to the reference, {reference},
within a round; median and quartiles over the rounds; best: by the two shortest times.
peak: tensors made by one call at the moment when they are most, weights and images not counted."""
OPERATOR_NOTES = """\
ratio: throughput relative to {reference}, within a round; median and quartiles over the rounds.
{left_out} rounds were left out, because other processes used over {busy:g} CPUs meanwhile."""
PLAIN_NOTE = """
(plain): token projections by F.linear, which on the CPU is MKL, as in the code of others, and not by oneDNN."""


@dataclass(frozen=True)
class Result:
    """What was measured of one subject.

    Attributes:
        subject: what was timed.
        timing: its times.
        peak: bytes, see `peak_memory`.
        tokens: of an attention; 0 for a model.
        left_out: rounds that are not in `timing`, because other processes were busy meanwhile.
        goal: the ratio it should reach, if there is one.
    """

    subject: Subject
    timing: Timing
    peak: int
    tokens: int = 0
    left_out: int = 0
    goal: float | None = None

    @property
    def mebibytes(self) -> float:
        return self.peak / 2 ** 20


def settings_line(settings: RunSettings, threads: int, what: str) -> str:
    """How the models ran, in one line; `what` says what they were fed."""
    extras = ['torch.compile'] * settings.compile + ['channels-last'] * settings.channels_last
    threads_too = [f'{threads} threads'] if settings.device == 'cpu' else []
    return ', '.join(['training (forward and backward)' if settings.train else 'inference', f'batch {settings.batch}',
                      what, settings.dtype, settings.device, *threads_too, *extras])


def model_table(results: Sequence[Result], reference: Result, markdown: bool = False) -> str:
    """One row per model, with the goals where there are any."""
    with_goals = any(result.goal for result in results)
    rows = []
    for result in results:
        timing, ratio = result.timing, result.timing.against(reference.timing)
        cells = (result.subject.name, f'{result.subject.params / 1e6:.2f}', *_times(timing),
                 f'{result.subject.images / timing.median:.2f}', f'{ratio.median:.3f}', _span(ratio.quartiles, 3),
                 f'{ratio.best:.3f}', f'{result.mebibytes:.1f}')
        rows.append((*cells, _goal(result, ratio)) if with_goals else cells)
    header = (*MODEL_HEADER, 'goal') if with_goals else MODEL_HEADER
    notes = NOTES.format(rounds=len(reference.timing.seconds), left_out=reference.left_out, busy=BUSY_CPUS,
                         reference=reference.subject.name)
    if any(result.subject.name.endswith('(plain)') for result in results):
        notes += PLAIN_NOTE
    return f'{align(rows, header, {0}, markdown)}\n\n{notes}'


def _times(timing: Timing) -> tuple[str, str, str]:
    digits = 1 if timing.median > 0.01 else 3
    return (f'{1e3 * timing.median:.{digits}f}', _span([1e3 * value for value in timing.quartiles], digits),
            f'{1e3 * timing.best:.{digits}f}')


def _mebibytes(result: Result) -> str:
    return f'{result.mebibytes:.0f}' if result.mebibytes >= 100 else f'{result.mebibytes:.3g}'


def _span(values: Sequence[float], digits: int) -> str:
    return '-'.join(f'{value:.{digits}f}' for value in values)


def _goal(result: Result, ratio: Ratio) -> str:
    if result.goal is None:
        return '-'
    return f'{result.goal:g} {"reached" if ratio.median >= result.goal else "missed"}'


def operator_table(results: Sequence[Result], markdown: bool = False) -> str:
    """One row per number of tokens and attention, beside softmax where it was measured too."""
    rows = []
    for result in results:
        softmax, cells = softmax_beside(results, result), ('-', '-')
        if softmax:
            ratio = result.timing.against(softmax.timing)
            cells = f'{ratio.median:.3f}', _span(ratio.quartiles, 3)
        rows.append((str(result.tokens), result.subject.name, *_times(result.timing), _mebibytes(result),
                     *cells))
    table = align(rows, OPERATOR_HEADER, {1}, markdown)
    left_out = sum({result.tokens: result.left_out for result in results}.values())
    notes = OPERATOR_NOTES.format(reference=SOFTMAX, left_out=left_out, busy=BUSY_CPUS)
    return f'{table}\n\n{notes}'


def softmax_beside(results: Sequence[Result], result: Result) -> Result | None:
    """Softmax attention at the same number of tokens, if it was measured."""
    return next((other for other in results if (other.subject.name, other.tokens) == (SOFTMAX, result.tokens)), None)


@dataclass(frozen=True)
class Curve:
    """An attention over the number of tokens.

    Attributes:
        name: of the attention.
        tokens: rising.
        seconds: median time at each.
        mebibytes: peak memory at each.
    """

    name: str
    tokens: tuple[int, ...]
    seconds: tuple[float, ...]
    mebibytes: tuple[float, ...]


def curves_of(results: Sequence[Result]) -> list[Curve]:
    """Results by attention."""
    curves = []
    for name in dict.fromkeys(result.subject.name for result in results):
        points = sorted((result for result in results if result.subject.name == name), key=lambda point: point.tokens)
        curves.append(Curve(name, tuple(point.tokens for point in points),
                            tuple(point.timing.median for point in points),
                            tuple(point.mebibytes for point in points)))
    return curves


def crossovers(curves: Sequence[Curve], quantity: str) -> dict[str, float]:
    """For every attention the number of tokens from which on it costs less than softmax; empty without softmax.

    Args:
        curves: over the same numbers of tokens.
        quantity: 'seconds' or 'mebibytes'.
    """
    softmax = next((curve for curve in curves if curve.name == SOFTMAX), None)
    if softmax is None:
        return {}
    return {curve.name: crossover(curve.tokens, getattr(softmax, quantity), getattr(curve, quantity))
            for curve in curves if curve is not softmax}


def crossover_table(curves: Sequence[Curve], markdown: bool = False) -> str:
    """From how many tokens on each attention is cheaper than softmax; '' without softmax."""
    by_time, by_memory = crossovers(curves, 'seconds'), crossovers(curves, 'mebibytes')
    if not by_time:
        return ''
    tokens = curves[0].tokens
    rows = [(name, say_crossover(tokens, by_time[name]), say_crossover(tokens, by_memory[name])) for name in by_time]
    return align(rows, ('attention', f'faster than {SOFTMAX} from tokens', 'less memory from tokens'), {0}, markdown)


def as_row(result: Result, reference: Result | None, settings: RunSettings) -> dict[str, Any]:
    """One row of the CSV, in seconds and MiB; the ratio is empty where there is nothing to compare with."""
    timing = result.timing
    size = map_of(result.tokens) if result.tokens else settings.size
    row = {'name': result.subject.name, 'tokens': result.tokens or '', 'height': size[0], 'width': size[1],
           'batch': settings.batch, 'dtype': settings.dtype, 'device': settings.device,
           'mode': 'training' if settings.train else 'inference', 'compiled': int(settings.compile),
           'params': result.subject.params, 'rounds': len(timing.seconds), 'rounds_left_out': result.left_out,
           'median_s': timing.median,
           'q1_s': timing.quartiles[0], 'q3_s': timing.quartiles[1], 'best_s': timing.best,
           'per_s': result.subject.images / timing.median, 'peak_mib': result.mebibytes}
    ratio = timing.against(reference.timing) if reference else None
    row.update({'reference': reference.subject.name if reference else '', 'ratio': ratio.median if ratio else '',
                'ratio_q1': ratio.quartiles[0] if ratio else '', 'ratio_q3': ratio.quartiles[1] if ratio else '',
                'ratio_best': ratio.best if ratio else '', 'goal': result.goal or ''})
    return row


def write_csv(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write rows with a header."""
    with open(path, 'w', newline='', encoding='utf-8') as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
