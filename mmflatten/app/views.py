"""HTML tables of a trial, and its attention maps."""
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from mmflatten.app.trial import Trial, TriedModel
from mmflatten.explain.attention import AttentionLayer
from mmflatten.explain.drawings import attention_pixels

MEAN = -1  # head index that selects the mean over the heads


def result_table(model: TriedModel, trial: Trial) -> str:
    """Format the predictions of an image."""
    return _table(*model.task.part('predict').Writer.table(trial.record, model.classes))


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
    return _table('Cost', (), rows)


def _table(caption: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format an HTML table. The first cell of each row is its heading."""
    head = ''.join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = ''.join(f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}'
                   '</tr>' for first, *cells in rows)
    head = f'<thead><tr>{head}</tr></thead>' if head else ''
    return f'<table class="numbers"><caption>{escape(caption)}</caption>{head}<tbody>{body}</tbody></table>'


def network_pixel(trial: Trial, x: float, y: float) -> tuple[float, float] | None:
    """Map the centre of an image pixel to coordinates of the network input, or to None if it is outside of the input.

    Images are resized, then centre-cropped, then padded: at the right and bottom, but for stereo at the right and top.
    """
    (width, height), (input_height, input_width) = trial.size, trial.network_input.shape[:2]
    meta = trial.sample.metainfo
    inside_height, inside_width = meta.get('img_shape', (input_height, input_width))[:2]
    stereo = 'pred_disparity' in trial.sample
    scale_x, scale_y = (1., 1.) if stereo else meta.get('scale_factor', (inside_width / width, inside_height / height))
    x = (x + .5) * scale_x - max(0., width * scale_x - inside_width) / 2
    y = (y + .5) * scale_y - max(0., height * scale_y - inside_height) / 2
    if stereo:
        y += input_height - height
    return (x, y) if 0 <= x < input_width and 0 <= y < input_height else None


def attention_view(trial: Trial, layer: AttentionLayer, head: int, x: float, y: float, side: int,
                   ) -> tuple[np.ndarray, str]:
    """Draw the attention map of one pixel over the network input, and describe it in one line.

    Args:
        head: index of the head, or `MEAN`.
        x, y: pixel of the uploaded image.
        side: longer side of the drawing in pixels.
    """
    place = network_pixel(trial, x, y)
    if place is None:
        return attention_pixels(trial.network_input, None, None, side), 'The network does not see this pixel.'
    row = layer.row(layer.token_at(*place, trial.network_input.shape[:2])).cpu()
    row = row.mean(0) if head == MEAN else row[head]
    weights = layer.on_map(row).numpy()
    text = (f'{layer.kind}: {layer.hw[0]} × {layer.hw[1]} queries, {layer.kv_hw[0]} × {layer.kv_hw[1]} keys. The '
            f'weights of the query sum to {row.sum():.3g}; the largest is {np.abs(weights).max():.2g}.')
    return attention_pixels(trial.network_input, weights, (place[0] - .5, place[1] - .5), side), text
