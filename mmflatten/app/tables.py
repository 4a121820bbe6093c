"""HTML tables of the results and cost of a trial."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from mmflatten.app.trial import Trial, TriedModel


def result_table(model: TriedModel, trial: Trial) -> str:
    """Format the predictions of an image."""
    return table(*model.task.part('predict').Writer.table(trial.record, model.classes))


def cost_table(model: TriedModel, trial: Trial) -> str:
    """Format parameters, operations at the size of the network input, and the time of the prediction."""
    height, width = trial.network_input.shape[:2]
    rows = [('parameters', f'{model.params / 1e6:.3f} M')]
    if isinstance(trial.cost, str):
        rows.append(('operations', f'not counted: {trial.cost}'))
    else:
        counts = trial.cost.counts
        rows += [('MACs', f'{counts.macs / 1e9:.3f} G'),
                 ("FLOPs, papers' convention", f'{counts.papers_convention() / 1e9:.3f} G')]
    rows += [('network input', f'{width} × {height}'), ('this prediction', f'{trial.seconds * 1000:.0f} ms'),
             ('processor', model.processor)]
    return table('Cost', (), rows)


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format an HTML table. The first cell of each row is its heading."""
    head = ''.join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = ''.join(f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}'
                   '</tr>' for first, *cells in rows)
    head = f'<thead><tr>{head}</tr></thead>' if head else ''
    return f'<table class="numbers"><caption>{escape(caption)}</caption>{head}<tbody>{body}</tbody></table>'
