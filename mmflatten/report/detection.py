"""Truth and predictions of detection as layers over an image."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
from pycocotools import mask as coco_mask

from mmflatten.report.layers import Encode, Layer
from mmflatten.results.reading import Results


def layers(results: Results, entry: dict, encode: Encode, score: float) -> tuple[list[Layer], list[str]]:
    found, seen = [], []
    for key, kind in (('gt_instances', 'truth'), ('pred_instances', 'prediction')):
        if key in entry:
            shapes = _shapes(entry[key], results.origin.get('classes'), score)
            found.append(Layer(kind, kind.capitalize(), shapes=shapes))
            seen += [shape['class'] for shape in shapes]
    return found, seen


def _shapes(stored: dict, names: Sequence[str] | None, score: float) -> list[dict[str, Any]]:
    """Instances of at least this score; names of the true ones stand below them, of predicted ones above."""
    shapes = []
    for number, (box, label) in enumerate(zip(stored['bboxes'].tolist(), stored['labels'].tolist())):
        certainty = float(stored['scores'][number]) if 'scores' in stored else None
        if certainty is not None and certainty < score:
            continue
        name = names[label] if names else str(label)
        shapes.append({'path': _outline(box, stored['masks'][number] if 'masks' in stored else None), 'class': name,
                       'x': round(box[0], 1), 'y': round(box[3 if certainty is None else 1], 1),
                       'name': name if certainty is None else f'{name} {certainty:.2f}'})
    return shapes


def _outline(box: Sequence[float], mask: dict | None) -> str:
    """A box x1, y1, x2, y2 or the contours of a mask as the path of an SVG."""
    x1, y1, x2, y2 = (round(value, 1) for value in box)
    if mask is None:
        return f'M{x1} {y1}H{x2}V{y2}H{x1}Z'
    contours, _ = cv2.findContours(coco_mask.decode(mask), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    return ''.join('M' + 'L'.join(f'{x} {y}' for x, y in cv2.approxPolyDP(contour, 0.7, True)[:, 0].tolist()) + 'Z'
                   for contour in contours)
