"""Results of a measurement as rows, a table and CSV."""
from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mmflatten.measure.speed.models import RunSettings
from mmflatten.measure.speed.operators import SOFTMAX, map_of
from mmflatten.measure.speed.timing import Subject
from mmflatten.text_table import align

Row = dict[str, Any]  # one model, or one attention at one number of tokens, as in the CSV

HEADER = ('name', 'input', 'params (M)', 'rounds', 'median (ms)', 'quartiles (ms)', 'best (ms)', 'per s', 'ratio',
          'ratio quartiles', 'best ratio', 'to products', 'peak (MiB)')
NOTES = """\
input: height x width of the images, or number of tokens. per s: images, or maps of tokens, by the median time.
rounds: each round ran everything in turn. median, quartiles, best: time of one call, over the rounds.
ratio: throughput relative to {reference}
within a round; median and quartiles over the rounds; best ratio: by the two shortest times.
to products: time of a call relative to that of its matrix products alone (--bound).
peak: largest memory of the tensors made by one call, without weights and input."""


def result_rows(subjects: Sequence[Subject], seconds: Sequence[Sequence[float]], peaks: Sequence[int],
                settings: RunSettings, reference: int | None,
                bounds: Sequence[Sequence[float]] | None = None) -> list[Row]:
    """Make a row for each subject, in seconds and MiB.

    Args:
        seconds: seconds per call of each subject in each round.
        peaks: bytes, see `peak_memory`.
        reference: index of the subject that the ratios refer to; without it they are ''.
        bounds: seconds of the matrix products of each subject in each round.
    """
    rows = []
    for index, (subject, taken, peak) in enumerate(zip(subjects, seconds, peaks)):
        q1, median, q3 = _quartiles(taken)
        height, width = map_of(subject.tokens) if subject.tokens else settings.size
        rows.append({
            'name': subject.name, 'tokens': subject.tokens or '', 'height': height, 'width': width,
            'batch': settings.batch, 'dtype': settings.dtype, 'device': settings.device,
            'mode': 'training' if settings.train else 'inference', 'compiled': int(settings.compile),
            'params': subject.params, 'rounds': len(taken),
            'median_s': median, 'q1_s': q1, 'q3_s': q3, 'best_s': min(taken), 'per_s': subject.batch / median,
            'peak_mib': peak / 2 ** 20, 'reference': '' if reference is None else subjects[reference].name,
            'to_products': '' if bounds is None else _quartiles(np.divide(taken, bounds[index]))[1],
            **ratio_columns(taken, None if reference is None else seconds[reference]), 'seconds': taken})
    return rows


def _quartiles(values: Sequence[float]) -> list[float]:
    return np.quantile(values, (.25, .5, .75)).tolist()


def ratio_columns(seconds: Sequence[float], reference: Sequence[float] | None) -> dict[str, float | str]:
    """Throughput relative to a reference timed in the same rounds, '' without a reference.

    Ratios are taken within a round because a changing load affects both sides alike.
    """
    if reference is None:
        return dict(ratio='', ratio_q1='', ratio_q3='', ratio_best='')
    q1, median, q3 = _quartiles(np.divide(reference, seconds))
    return dict(ratio=median, ratio_q1=q1, ratio_q3=q3, ratio_best=min(reference) / min(seconds))


def result_table(rows: Sequence[Row], markdown: bool = False) -> str:
    """Render the rows as a table with explanatory notes."""
    cells = []
    for row in rows:
        digits = 1 if row['median_s'] > 0.01 else 3
        median, q1, q3, best = (f'{1e3 * row[name]:.{digits}f}' for name in ('median_s', 'q1_s', 'q3_s', 'best_s'))
        ratio, ratio_q1, ratio_q3, ratio_best = (f'{row[name]:.3f}' if row['reference'] else '-'
                                                 for name in ('ratio', 'ratio_q1', 'ratio_q3', 'ratio_best'))
        cells.append((row['name'], str(row['tokens'] or f'{row["height"]}x{row["width"]}'),
                      f'{row["params"] / 1e6:.2f}', str(row['rounds']), median, f'{q1}-{q3}', best,
                      f'{row["per_s"]:.2f}', ratio, f'{ratio_q1}-{ratio_q3}', ratio_best,
                      f'{row["to_products"]:.3f}' if row['to_products'] else '-', f'{row["peak_mib"]:.1f}'))
    notes = NOTES.format(reference=rows[0]['reference'] or f'{SOFTMAX}, which was not measured,')
    return f'{align(cells, HEADER, {0}, markdown)}\n\n{notes}'


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write rows with a header, without the times of single rounds."""
    with path.open('w', newline='', encoding='utf-8') as file:
        writer = csv.DictWriter(file, [name for name in rows[0] if name != 'seconds'], extrasaction='ignore')
        writer.writeheader()
        writer.writerows(rows)
