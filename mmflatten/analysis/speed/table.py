"""Timings as people and spreadsheets read them."""
from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmflatten.analysis.speed.machine import BUSY_CPUS
from mmflatten.analysis.speed.models import RunSettings
from mmflatten.analysis.speed.operators import SOFTMAX, crossover, map_of, say_crossover
from mmflatten.analysis.speed.timing import Subject, Timing
from mmflatten.analysis.text_table import align

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


@dataclass(frozen=True)
class Result:
    """What was measured of one subject."""

    subject: Subject
    timing: Timing
    peak: int  # bytes, see `peak_memory`
    left_out: int = 0  # rounds that are not in `timing`, because other processes were busy meanwhile
    tokens: int = 0  # of an attention; 0 for a model

    @property
    def mebibytes(self) -> float:
        return self.peak / 2 ** 20


Curves = dict[str, list[Result]]  # results of each attention, the number of tokens rising; the same for all


def settings_line(settings: RunSettings, threads: int, what: str) -> str:
    """How the models ran, in one line; `what` says what they were fed."""
    extras = ['torch.compile'] * settings.compile + ['channels-last'] * settings.channels_last
    cpus = [f'{threads} threads'] * (settings.device == 'cpu')
    return ', '.join(['training (forward and backward)' if settings.train else 'inference', f'batch {settings.batch}',
                      what, settings.dtype, settings.device, *cpus, *extras])


def model_table(results: Sequence[Result], reference: Result, markdown: bool = False) -> str:
    """One row per model."""
    rows = []
    for result in results:
        timing, ratio = result.timing, result.timing.against(reference.timing)
        rows.append((result.subject.name, f'{result.subject.params / 1e6:.2f}', *_times(timing),
                     f'{result.subject.images / timing.median:.2f}', f'{ratio.median:.3f}', _span(ratio.quartiles, 3),
                     f'{ratio.best:.3f}', f'{result.mebibytes:.1f}'))
    notes = NOTES.format(rounds=len(reference.timing.seconds), left_out=reference.left_out, busy=BUSY_CPUS,
                         reference=reference.subject.name)
    return f'{align(rows, MODEL_HEADER, {0}, markdown)}\n\n{notes}'


def _times(timing: Timing) -> tuple[str, str, str]:
    digits = 1 if timing.median > 0.01 else 3
    return (f'{1e3 * timing.median:.{digits}f}', _span([1e3 * value for value in timing.quartiles], digits),
            f'{1e3 * timing.best:.{digits}f}')


def _span(values: Sequence[float], digits: int) -> str:
    return '-'.join(f'{value:.{digits}f}' for value in values)


def operator_table(results: Sequence[Result], markdown: bool = False) -> str:
    """One row per number of tokens and attention, beside softmax where it was measured too."""
    rows = []
    for result in results:
        softmax = softmax_beside(results, result)
        ratio = softmax and result.timing.against(softmax.timing)
        peak = f'{result.mebibytes:.0f}' if result.mebibytes >= 100 else f'{result.mebibytes:.3g}'
        rows.append((str(result.tokens), result.subject.name, *_times(result.timing), peak,
                     *((f'{ratio.median:.3f}', _span(ratio.quartiles, 3)) if ratio else ('-', '-'))))
    left_out = sum({result.tokens: result.left_out for result in results}.values())
    notes = OPERATOR_NOTES.format(reference=SOFTMAX, left_out=left_out, busy=BUSY_CPUS)
    return f'{align(rows, OPERATOR_HEADER, {1}, markdown)}\n\n{notes}'


def softmax_beside(results: Sequence[Result], result: Result) -> Result | None:
    """Softmax attention at the same number of tokens, if it was measured."""
    return next((other for other in results if (other.subject.name, other.tokens) == (SOFTMAX, result.tokens)), None)


def curves_of(results: Sequence[Result]) -> Curves:
    """Results by attention."""
    curves: Curves = {}
    for result in sorted(results, key=lambda result: result.tokens):
        curves.setdefault(result.subject.name, []).append(result)
    return curves


def cost_of(result: Result, quantity: str) -> float:
    """'seconds' (the median) or 'mebibytes' (the peak) of one call."""
    return result.timing.median if quantity == 'seconds' else result.mebibytes


def crossovers(curves: Curves, quantity: str) -> dict[str, float]:
    """For every attention the number of tokens from which on it costs less than softmax; empty without softmax."""

    def costs(name: str) -> list[float]:
        return [cost_of(result, quantity) for result in curves[name]]

    others = [name for name in curves if name != SOFTMAX and SOFTMAX in curves]
    return {name: crossover([result.tokens for result in curves[name]], costs(SOFTMAX), costs(name)) for name in others}


def crossover_table(curves: Curves, markdown: bool = False) -> str:
    """From how many tokens on each attention is cheaper than softmax, which must be among them."""
    tokens = [result.tokens for result in curves[SOFTMAX]]
    by_time, by_memory = crossovers(curves, 'seconds'), crossovers(curves, 'mebibytes')
    rows = [(name, say_crossover(tokens, by_time[name]), say_crossover(tokens, by_memory[name])) for name in by_time]
    return align(rows, ('attention', f'faster than {SOFTMAX} from tokens', 'less memory from tokens'), {0}, markdown)


def as_row(result: Result, reference: Result | None, settings: RunSettings) -> dict[str, Any]:
    """One row of the CSV, in seconds and MiB; the ratio is empty where there is nothing to compare with."""
    timing, subject = result.timing, result.subject
    height, width = map_of(result.tokens) if result.tokens else settings.size
    row = {'name': subject.name, 'tokens': result.tokens or '', 'height': height, 'width': width,
           'batch': settings.batch, 'dtype': settings.dtype, 'device': settings.device,
           'mode': 'training' if settings.train else 'inference', 'compiled': int(settings.compile),
           'params': subject.params, 'rounds': len(timing.seconds), 'rounds_left_out': result.left_out,
           'median_s': timing.median, 'q1_s': timing.quartiles[0], 'q3_s': timing.quartiles[1], 'best_s': timing.best,
           'per_s': subject.images / timing.median, 'peak_mib': result.mebibytes}
    if reference is None:
        return row | dict.fromkeys(('reference', 'ratio', 'ratio_q1', 'ratio_q3', 'ratio_best'), '')
    ratio = timing.against(reference.timing)
    return row | {'reference': reference.subject.name, 'ratio': ratio.median, 'ratio_q1': ratio.quartiles[0],
                  'ratio_q3': ratio.quartiles[1], 'ratio_best': ratio.best}


def write_csv(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write rows with a header."""
    with open(path, 'w', newline='', encoding='utf-8') as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
