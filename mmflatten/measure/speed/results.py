"""Results of a measurement: rows, tables, CSV, and the number of tokens from which an attention
beats softmax.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from mmflatten.measure.speed.launches import Work
from mmflatten.measure.speed.models import RunSettings
from mmflatten.measure.speed.operators import SOFTMAX, map_of
from mmflatten.measure.speed.timing import Subject
from mmflatten.text import align
from mmflatten.untrusted import csv_files

Row = dict[str, Any]  # one model, or one attention at one number of tokens, as in the CSV

HEADER = (
    'name',
    'input',
    'params (M)',
    'rounds',
    'median (ms)',
    'quartiles (ms)',
    'per s',
    'ratio',
    'ratio quartiles',
    'peak (MiB)',
)
NOTES = """\
input: height x width of the images, or number of tokens. per s: images, or maps of tokens, by the \
median time.
rounds: each round ran everything in turn. median, quartiles: time of one call, over the rounds.
ratio: throughput relative to {reference} within a round; median and quartiles over the rounds.
peak: largest memory of the tensors made by one call, without weights and input; - for files."""
GPU_HEADER = ('busy (ms)', 'launches', 'host (ms)')
GPU_NOTES = """
busy: time in which the GPU works, launches: kernels, copies and fills, host: time until the call \
returns; of one call,
under the profiler, which slows the host."""
TIME, MEMORY = 'median_s', 'peak_mib'  # columns of a row
NO_WORK = dict.fromkeys(Work._fields, '')  # of a CPU


def result_rows(
    subjects: Sequence[Subject],
    seconds: Sequence[Sequence[float]],
    peaks: Sequence[int | None],
    settings: RunSettings,
    reference: int | None,
    works: Sequence[Work] = (),
) -> list[Row]:
    """Make a row for each subject, in seconds and MiB.

    Args:
        seconds: seconds per call of each subject in each round.
        peaks: bytes, see `peak_memory`; None if they are unknown.
        reference: index of the subject that the ratios refer to; without it they are ''.
        works: work of a GPU.
    """
    rows = []
    for subject, taken, peak, work in zip_longest(subjects, seconds, peaks, works):
        q1, median, q3 = _quartiles(taken)
        height, width = settings.size
        if subject.tokens:
            height, width = map_of(subject.tokens)
        compared = None if reference is None else seconds[reference]
        rows.append(
            {
                'name': subject.name,
                'tokens': subject.tokens or '',
                'height': height,
                'width': width,
                'batch': settings.batch,
                'dtype': subject.dtype or settings.dtype,
                'device': settings.device,
                'mode': 'training' if settings.train else 'inference',
                'compiled': int(settings.compile is not None),
                'params': subject.params,
                'rounds': len(taken),
                'median_s': median,
                'q1_s': q1,
                'q3_s': q3,
                'per_s': subject.batch / median,
                'peak_mib': '' if peak is None else peak / 2**20,
                'reference': '' if reference is None else subjects[reference].name,
                **ratio_columns(taken, compared),
                **(NO_WORK if work is None else work._asdict()),
                'seconds': taken,
            }
        )
    return rows


def _quartiles(values: Sequence[float]) -> list[float]:
    return np.quantile(values, (0.25, 0.5, 0.75)).tolist()


def ratio_columns(
    seconds: Sequence[float], reference: Sequence[float] | None
) -> dict[str, float | str]:
    """Throughput relative to a reference timed in the same rounds, '' without a reference.

    Ratios are taken within a round because a changing load affects both sides alike.
    """
    if reference is None:
        return dict(ratio='', ratio_q1='', ratio_q3='')
    q1, median, q3 = _quartiles(np.divide(reference, seconds))
    return dict(ratio=median, ratio_q1=q1, ratio_q3=q3)


def result_table(rows: Sequence[Row], markdown: bool = False) -> str:
    """Render the rows as a table with explanatory notes."""
    header = HEADER
    cells = [_cells(row) for row in rows]
    notes = NOTES.format(reference=rows[0]['reference'] or f'{SOFTMAX}, which was not measured,')
    if rows[0]['launches'] != '':  # measured on a GPU
        header += GPU_HEADER
        cells = [line + _gpu_cells(row) for line, row in zip(cells, rows)]
        notes += GPU_NOTES
    return f'{align(cells, header, {0}, markdown)}\n\n{notes}'


def _cells(row: Row) -> tuple[str, ...]:
    digits = 1 if row['median_s'] > 0.01 else 3
    median, q1, q3 = (f'{1e3 * row[name]:.{digits}f}' for name in ('median_s', 'q1_s', 'q3_s'))
    ratio = ratio_q1 = ratio_q3 = '-'
    if row['reference']:
        names = ('ratio', 'ratio_q1', 'ratio_q3')
        ratio, ratio_q1, ratio_q3 = (f'{row[name]:.3f}' for name in names)
    return (
        row['name'],
        str(row['tokens'] or f'{row["height"]}x{row["width"]}'),
        f'{row["params"] / 1e6:.2f}',
        str(row['rounds']),
        median,
        f'{q1}-{q3}',
        f'{row["per_s"]:.2f}',
        ratio,
        f'{ratio_q1}-{ratio_q3}',
        '-' if row['peak_mib'] == '' else f'{row["peak_mib"]:.1f}',
    )


def _gpu_cells(row: Row) -> tuple[str, ...]:
    return f'{1e3 * row["busy_s"]:.2f}', str(row['launches']), f'{1e3 * row["host_s"]:.2f}'


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write rows with a header, without the times of single rounds."""
    header = [name for name in rows[0] if name != 'seconds']
    lines = []
    for row in rows:
        lines.append([row.get(name) for name in header])
    csv_files.write_csv(path, header, lines)


def crossover(tokens: Sequence[int], softmax: Sequence[float], other: Sequence[float]) -> float:
    """Smallest number of tokens from which `other` costs less than `softmax`.

    Costs at the ascending `tokens` are interpolated linearly in logarithmic axes. 0 if `other`
    always costs less, infinity if it does not at the last number.
    """
    gaps = np.log(other) - np.log(softmax)
    dearer = np.flatnonzero(gaps >= 0)
    if not len(dearer):
        return 0.0
    left = dearer[-1]
    if left == len(gaps) - 1:
        return math.inf
    around = slice(left, left + 2)
    return float(np.exp(np.interp(0, -gaps[around], np.log(tokens[around]))))


def format_crossover(tokens: Sequence[int], number: float) -> str:
    """Format as 'about 830', 'below 196' or 'above 12544'."""
    if number == 0:
        return f'below {min(tokens)}'
    return f'above {max(tokens)}' if math.isinf(number) else f'about {number:.0f}'


def curves(rows: Sequence[Row], column: str) -> dict[str, tuple[list[int], list[float]]]:
    """Return for each name its numbers of tokens, or pixels of an image, and the costs there
    (`TIME` or `MEMORY`).
    """
    found: dict[str, tuple[list[int], list[float]]] = {}
    for row in rows:
        if row[column] == '':
            continue
        numbers, costs = found.setdefault(row['name'], ([], []))
        numbers.append(row['tokens'] or row['height'] * row['width'])
        costs.append(row[column])
    return found


def crossover_table(rows: Sequence[Row], markdown: bool = False) -> str:
    """Render the crossover of each attention in time and memory. `softmax` must be one of the
    attentions.
    """
    cells: dict[str, list[str]] = {}
    for column in (TIME, MEMORY):
        found = curves(rows, column)
        tokens, softmax = found.pop(SOFTMAX)
        for name, (_, other) in found.items():
            number = crossover(tokens, softmax, other)
            cells.setdefault(name, [name]).append(format_crossover(tokens, number))
    header = ('attention', f'faster than {SOFTMAX} from tokens', 'less memory from tokens')
    return align([*cells.values()], header, {0}, markdown)
