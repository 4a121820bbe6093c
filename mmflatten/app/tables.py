"""Numbers of a trial as tables of HTML."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from mmflatten.app.trial import Trial, TriedModel

MAX_ROWS = 12


def result_table(model: TriedModel, trial: Trial) -> str:
    """Classes and scores, boxes, shares of classes, or disparities."""
    return _RESULTS[model.task](model, trial.record)


def cost_table(model: TriedModel, trial: Trial) -> str:
    """Parameters, operations at the size that the network saw, and the time that this prediction took."""
    height, width = trial.seen.shape[:2]
    rows = [('parameters', f'{model.params / 1e6:.3f} M')]
    if isinstance(trial.cost, str):
        rows.append(('operations', f'not counted: {trial.cost}'))
    else:
        counts = trial.cost.counts
        rows += [('MACs', f'{counts.macs / 1e9:.3f} G'),
                 ("FLOPs, papers' way", f'{counts.papers_convention() / 1e9:.3f} G')]
    rows += [("network's input", f'{width} × {height}'), ('this prediction', f'{trial.seconds * 1000:.0f} ms'),
             ('processor', model.processor)]
    return table('Cost', (), rows)


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """An HTML table; the first cell of each row is its heading."""
    head = ''.join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = ''.join(f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}'
                   '</tr>' for first, *cells in rows)
    head = f'<thead><tr>{head}</tr></thead>' if head else ''
    return f'<table class="numbers"><caption>{escape(caption)}</caption>{head}<tbody>{body}</tbody></table>'


def _classification(model: TriedModel, record: dict) -> str:
    rows = [(entry['name'], f'{entry["score"]:.4f}') for entry in record['classes']]
    return table(f'The {len(rows)} likeliest classes', ('class', 'score'), rows)


def _detection(model: TriedModel, record: dict) -> str:
    found = sorted(record['instances'], key=lambda instance: -instance['score'])
    rows = [(model.classes[instance['category_id']], f'{instance["score"]:.3f}',
             *(f'{number:.0f}' for number in instance['bbox'])) for instance in found[:MAX_ROWS]]
    more = f', the best {MAX_ROWS} of them here' if len(found) > MAX_ROWS else ''
    caption = f'{len(found)} instance{"" if len(found) == 1 else "s"}{more}'
    return table(caption, ('class', 'score', 'x', 'y', 'width', 'height') if rows else (), rows)


def _segmentation(model: TriedModel, record: dict) -> str:
    shares = sorted(record['shares'], key=lambda entry: -entry['share'])
    rows = [(entry['name'], f'{100 * entry["share"]:.2f} %') for entry in shares[:MAX_ROWS]]
    more = f', the largest {MAX_ROWS} of {len(shares)} classes' if len(shares) > MAX_ROWS else ''
    return table(f'Share of the picture{more}', ('class', 'share'), rows)


def _stereo(model: TriedModel, record: dict) -> str:
    rows = [(what, f'{record[key]:.2f}') for what, key in (('smallest', 'min'), ('mean', 'mean'), ('largest', 'max'))]
    return table('Disparity in pixels', (), rows)


_RESULTS = dict(classification=_classification, detection=_detection, segmentation=_segmentation, stereo=_stereo)
