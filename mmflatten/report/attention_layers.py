"""The layers of the runs in a table each, and side by side in diagrams."""
from __future__ import annotations

from collections.abc import Sequence

HEADER = ('Layer', 'Attention', 'Heads', 'Queries', 'Keys', 'Rank', 'Effective rank', 'Entropy', 'Distance',
          'Distance, equal weights', 'Row sum', 'Negative', 'On no token')


def layers_table(run: str, layers: Sequence[dict]) -> dict:
    """Title, header and rows of what `attention_data` says of each layer."""
    rows = [(f'{number} {layer["name"].removeprefix("backbone.")}', layer['kind'], layer['num_heads'], *layer['tokens'],
             *(None if layer[name] is None else f'{layer[name]:.1f}' for name in ('rank', 'effective_rank')),
             layer['entropy'], layer['distance'], layer['uniform_distance'],
             '{:.3f} to {:.3f}'.format(*layer['row_sum']), layer['negative'], layer['no_token'])
            for number, layer in enumerate(layers)]
    return dict(title=f'Attention layers of {run}', header=HEADER, rows=rows)


def layers_figures(runs: Sequence[dict]) -> list[dict]:
    """Diagrams of effective rank and entropy, a line for each run; `runs` hold `name` and `layers`."""
    shares = dict(
        rank=('Effective rank, share of the largest possible', lambda layer: None if layer['effective_rank'] is None
              else layer['effective_rank'] / min(layer['tokens'])),
        entropy=('Entropy of the weights, share of that of equal ones', lambda layer: layer['entropy']))
    return [dict(id=f'attn-{name}', title=title, run=None, height=260,
                 alt=f'{title}, by layer; the table below has the numbers',
                 data=[dict(type='scatter', mode='lines+markers', name=run['name'], x=list(range(len(run['layers']))),
                            y=[share(layer) for layer in run['layers']],
                            text=[layer['name'] for layer in run['layers']]) for run in runs],
                 layout=dict(xaxis=dict(title='layer', dtick=1), yaxis=dict(range=[0, 1.02]),
                             showlegend=len(runs) > 1))
            for name, (title, share) in shares.items()]
