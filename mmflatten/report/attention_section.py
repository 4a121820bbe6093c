"""Attention section of the page: data of the viewer, tables and charts of the layers."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from mmflatten.report.attention import BUDGET, attention_data
from mmflatten.report.collect import TrainedRun
from mmflatten.report.figures import Chart
from mmflatten.report.images import Sample
from mmflatten.results.analysis import ResultTable
from mmflatten.results.figures import Lines

HEADER = ('Layer', 'Attention', 'Heads', 'Matrix', 'Rank', 'Effective rank', 'Entropy', 'Distance', 'Uniform',
          'Row sum', 'Negative', 'No token')


def attention_section(runs: Sequence[TrainedRun], samples: Sequence[Sample]) -> dict[str, Any]:
    """Return the variables of the template for the first and the last sample; `attention` may be empty."""
    paths = list(dict.fromkeys(sample.path for sample in [*samples[:1], *samples[-1:]]))
    attention = []
    for run in runs if paths else ():
        data = run.predictor and run.attempt('attention', _read, run, paths, BUDGET // len(runs))
        if data:
            attention.append(dict(name=run.name, **data))
    return dict(attention=attention, attention_charts=layers_charts(attention),
                attention_tables=[layers_table(run) for run in attention])


def _read(run: TrainedRun, paths: Sequence[str], budget: int) -> dict:
    rights = {entry['img_path']: entry.get('right_path') for entry in run.results.entries} if run.results else {}
    images = [(path, rights[path]) if run.task.pairs else path for path in paths]
    return attention_data(run.predictor, images, budget)


def layers_table(run: dict) -> ResultTable:
    """Tabulate the statistics of `attention_data` for a run with `name` and `layers`."""
    rows = []
    for number, layer in enumerate(run['layers']):
        ranks = ['–' if layer[name] is None else f'{layer[name]:.1f}' for name in ('rank', 'effective_rank')]
        name = layer['name'].removeprefix('backbone.').removesuffix('.attn.fn')
        rows.append((f'{number} {name}', layer['kind'], layer['num_heads'], '{} × {}'.format(*layer['tokens']), *ranks,
                     layer['entropy'], layer['distance'], layer['uniform_distance'],
                     '{:.3f} to {:.3f}'.format(*layer['row_sum']), layer['negative'],
                     round(layer['no_token'], 3) + 0.))  # + 0 turns -0 into 0
    return ResultTable(f'Attention layers of {run["name"]}', HEADER, rows)


def layers_charts(runs: Sequence[dict]) -> list[Chart]:
    """Return charts of effective rank and entropy by layer, one line for each run.

    Args:
        runs: dictionaries with `name` and the `layers` of `attention_data`.
    """
    def lines(value: Callable[[dict], float]) -> Lines:
        return Lines({run['name']: (range(len(run['layers'])), [value(layer) for layer in run['layers']])
                      for run in runs}, 'layer', (0, 1.05), markers=True)

    return [Chart('Effective rank, fraction of the tokens', lines(
                lambda layer: math.nan if layer['effective_rank'] is None
                else layer['effective_rank'] / min(layer['tokens']))),
            Chart('Entropy, fraction of that of uniform weights', lines(lambda layer: layer['entropy']))]
