"""Results of a measurement: rows, tables, CSV, and the number of tokens from which an attention beats softmax."""
from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mmflatten.measure.speed.models import RunSettings
from mmflatten.measure.speed.operators import SOFTMAX, map_of
from mmflatten.measure.speed.timing import Subject
from mmflatten.text import align

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
TIME, MEMORY = 'median_s', 'peak_mib'  # columns of a row
PANELS = {TIME: 'time of one call (s)', MEMORY: 'peak memory of one call (MiB)'}
LINES = ('-', '--', ':', '-.')  # ten colours each


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
            'mode': 'training' if settings.train else 'inference', 'compiled': int(settings.compile is not None),
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


def crossover(tokens: Sequence[int], softmax: Sequence[float], other: Sequence[float]) -> float:
    """Smallest number of tokens from which `other` costs less than `softmax`, up to the last measured by both.

    `softmax` and `other` are costs at the first of the ascending `tokens`, interpolated linearly in logarithmic axes.
    0 if `other` always costs less, infinity if it does not at the last number.
    """
    shared = min(len(softmax), len(other))
    gaps = np.log(other[:shared]) - np.log(softmax[:shared])
    dearer = np.flatnonzero(gaps >= 0)
    if not len(dearer):
        return 0.
    left = dearer[-1]
    if left == len(gaps) - 1:
        return math.inf
    return float(np.exp(np.interp(0, -gaps[left:left + 2], np.log(tokens[left:left + 2]))))


def format_crossover(tokens: Sequence[int], number: float) -> str:
    """Format as 'about 830', 'below 196' or 'above 12544'."""
    if number == 0:
        return f'below {min(tokens)}'
    return f'above {max(tokens)}' if math.isinf(number) else f'about {number:.0f}'


def curves(rows: Sequence[Row], column: str) -> tuple[list[int], dict[str, list[float]]]:
    """Return the numbers of tokens, and the costs of each attention (column `TIME` or `MEMORY`) at these numbers.

    An attention that was skipped at the larger numbers has fewer costs.
    """
    costs: dict[str, list[float]] = {}
    for row in rows:
        costs.setdefault(row['name'], []).append(row[column])
    return list(dict.fromkeys(row['tokens'] for row in rows)), costs


def forecast(tokens: Sequence[int], costs: Sequence[float], number: int) -> float:
    """Extrapolate the cost to a larger number of tokens by the power law through the last two costs.

    A single cost is extrapolated quadratically; without costs the result is 0.
    """
    if len(costs) < 2:
        return costs[0] * (number / tokens[0]) ** 2 if costs else 0.
    (n, m), (a, b) = tokens[len(costs) - 2:len(costs)], costs[-2:]
    return b * (number / m) ** (math.log(b / a) / math.log(m / n))


def crossovers(rows: Sequence[Row], column: str) -> dict[str, tuple[float, str]]:
    """Crossover of every attention with softmax, as a number and formatted; empty if softmax was not measured."""
    tokens, costs = curves(rows, column)
    softmax, found = costs.pop(SOFTMAX, []), {}
    for name, other in costs.items():
        shared = tokens[:min(len(softmax), len(other))]
        if shared:
            number = crossover(shared, softmax, other)
            found[name] = number, format_crossover(shared, number)
    return found


def crossover_table(rows: Sequence[Row], markdown: bool = False) -> str:
    """Render the crossover of each attention in time and memory. `softmax` must be one of the attentions."""
    by_time, by_memory = crossovers(rows, TIME), crossovers(rows, MEMORY)
    cells = [(name, label, by_memory[name][1]) for name, (_, label) in by_time.items()]
    return align(cells, ('attention', f'faster than {SOFTMAX} from tokens', 'less memory from tokens'), {0}, markdown)


def draw_operators(rows: Sequence[Row], path: Path, title: str) -> None:
    """Draw time (left) and peak memory (right) over the number of tokens, in logarithmic axes.

    A ring marks the crossover with softmax; the legend gives its number of tokens.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    figure = Figure(figsize=(14, max(5., .24 * len(curves(rows, TIME)[1]))), layout='constrained')
    for axes, (column, label) in zip(figure.subplots(1, 2), PANELS.items()):
        tokens, costs = curves(rows, column)
        _draw_panel(axes, tokens, costs, crossovers(rows, column))
        axes.set(xlabel='tokens N', ylabel=label, xscale='log', yscale='log')
        axes.set_xticks(tokens, list(map(str, tokens)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.grid(alpha=.3)
        axes.legend(title=f'cheaper than {SOFTMAX} from N', title_fontsize='small', fontsize='small',
                    loc='center left', bbox_to_anchor=(1, .5), frameon=False)
    figure.suptitle(title, fontsize='medium')
    figure.savefig(path, dpi=100)


def _draw_panel(axes: Any, tokens: list[int], costs: dict[str, list[float]],
                found: dict[str, tuple[float, str]]) -> None:
    softmax = costs.get(SOFTMAX, [])
    for index, name in enumerate(name for name in costs if name != SOFTMAX):
        color, line = f'C{index % 10}', LINES[index // 10 % len(LINES)]
        number, label = found.get(name, (0, ''))
        axes.plot(tokens[:len(costs[name])], costs[name], line, color=color, marker='.', linewidth=1.2,
                  label=f'{name}: {label}' if label else name)
        if 0 < number < math.inf:
            height = np.exp(np.interp(math.log(number), np.log(tokens[:len(softmax)]), np.log(softmax)))
            axes.plot(number, height, 'o', markersize=9, markerfacecolor='none', color=color, zorder=4)
    if found:
        axes.plot(tokens[:len(softmax)], softmax, 'k.-', linewidth=2.5, label=SOFTMAX, zorder=3)
