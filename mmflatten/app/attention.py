"""Where a pixel of a picture attends in a model that was tried on it."""
from __future__ import annotations

import numpy as np

from mmflatten.app.trial import Trial
from mmflatten.explain.attention import AttentionLayer
from mmflatten.explain.map_drawings import attention_pixels

MEAN = -1  # in the place of a head


def network_pixel(trial: Trial, x: float, y: float) -> tuple[float, float] | None:
    """The place in the network's input of a pixel's middle, from 0 to its width and height; None outside of it.

    Pictures are scaled, then cropped in their middle, then padded: on the right and below, in stereo on the right and
    above.
    """
    (width, height), (seen_height, seen_width) = trial.size, trial.seen.shape[:2]
    meta = trial.sample.metainfo
    inside_height, inside_width = meta.get('img_shape', (seen_height, seen_width))[:2]
    stereo = 'pred_disparity' in trial.sample
    scale_x, scale_y = (1., 1.) if stereo else meta.get('scale_factor', (inside_width / width, inside_height / height))
    x = (x + .5) * scale_x - max(0., width * scale_x - inside_width) / 2
    y = (y + .5) * scale_y - max(0., height * scale_y - inside_height) / 2
    y += seen_height - height if stereo else 0
    return (x, y) if 0 <= x < seen_width and 0 <= y < seen_height else None


def attention_view(trial: Trial, layer: AttentionLayer, head: int, x: float, y: float, side: int,
                   ) -> tuple[np.ndarray, str]:
    """The map of one head, or of their mean, over the picture as the network sees it, and a line about it.

    Args:
        head: its number, or `MEAN`.
        x, y: of the picture that was uploaded, in pixels.
        side: longer side of the drawing in pixels.
    """
    place = network_pixel(trial, x, y)
    if place is None:
        return attention_pixels(trial.seen, None, None, side), 'The network does not see this pixel.'
    row = layer.row(layer.token_at(*place, trial.seen.shape[:2])).cpu().numpy()
    row = row.mean(0) if head == MEAN else row[head]
    weights = row[layer.prefix:].reshape(layer.kv_hw)
    said = (f'{layer.kind}: {layer.hw[0]} × {layer.hw[1]} queries, {layer.kv_hw[0]} × {layer.kv_hw[1]} keys. The '
            f"query's weights sum to {row.sum():.3g}; the largest is {np.abs(weights).max():.2g}.")
    return attention_pixels(trial.seen, weights, (place[0] - .5, place[1] - .5), side), said
