"""The page's section on attention: the viewer's data, a table for each run, and charts with a line for each."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mmflatten.report.attention import BUDGET, attention_data
from mmflatten.report.collect import Run
from mmflatten.report.figures import Chart
from mmflatten.report.images import Sample
from mmflatten.results.analysis import Table

HEADER = ('Layer', 'Attention', 'Heads', 'Matrix', 'Rank', 'Effective rank', 'Entropy', 'Distance', 'Uniform',
          'Row sum', 'Negative', 'No token')


def attention_section(runs: Sequence[Run], samples: Sequence[Sample]) -> dict[str, Any]:
    """What the template takes, on the first and the last sample; `attention` is empty where no run has any."""
    paths = list(dict.fromkeys(sample.path for sample in [*samples[:1], *samples[-1:]]))
    seen = []
    for run in runs if paths else ():
        data = run.predictor and run.attempt('attention', _read, run, paths, BUDGET // len(runs))
        seen += [dict(name=run.name, **data)] if data else []
    return dict(attention=seen, attention_charts=layers_charts(seen),
                attention_tables=[layers_table(run) for run in seen])


def _read(run: Run, paths: Sequence[str], budget: int) -> dict:
    rights = {entry['img_path']: entry.get('right_path') for entry in run.results.entries} if run.results else {}
    images = [(path, rights[path]) if run.task.pairs else path for path in paths]
    return attention_data(run.predictor, images, budget)


def layers_table(run: dict) -> Table:
    """What `attention_data` says of each layer; `run` has its `name`, too."""
    rows = []
    for number, layer in enumerate(run['layers']):
        ranks = ['–' if layer[name] is None else f'{layer[name]:.1f}' for name in ('rank', 'effective_rank')]
        name = layer['name'].removeprefix('backbone.').removesuffix('.attn.fn')
        rows.append((f'{number} {name}', layer['kind'], layer['num_heads'], '{} × {}'.format(*layer['tokens']), *ranks,
                     layer['entropy'], layer['distance'], layer['uniform_distance'],
                     '{:.3f} to {:.3f}'.format(*layer['row_sum']), layer['negative'],
                     round(layer['no_token'], 3) + 0.))  # -0 + 0 is 0
    return Table(f'Attention layers of {run["name"]}', HEADER, rows)


def layers_charts(runs: Sequence[dict]) -> list[Chart]:
    """Effective rank and entropy by layer, a line for each run; `runs` hold `name` and `layers`."""
    shares = {
        'Effective rank, share of tokens': lambda layer: None if layer['effective_rank'] is None
        else layer['effective_rank'] / min(layer['tokens']),
        'Entropy, share of uniform weights': lambda layer: layer['entropy']}
    return [Chart(title, f'{title}, by layer; a table below has the numbers',
                  [dict(type='scatter', mode='lines+markers', name=run['name'], x=list(range(len(run['layers']))),
                        y=[share(layer) for layer in run['layers']], text=[layer['name'] for layer in run['layers']],
                        meta=number) for number, run in enumerate(runs)],
                  dict(xaxis=dict(title=dict(text='layer'), dtick=1), yaxis=dict(range=[0, 1.05]),
                       showlegend=len(runs) > 1), height=260)
            for title, share in shares.items()]
