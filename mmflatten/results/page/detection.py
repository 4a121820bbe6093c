"""Layers of a detection image: outlines of instances."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
from pycocotools import mask as coco_mask

from mmflatten.results.page.samples import Encode, SampleLayer
from mmflatten.results.reading import Results


def layers(results: Results, entry: dict, encode: Encode, score: float) -> tuple[list[SampleLayer], list[str]]:
    shown = [SampleLayer(kind, shapes=_shapes(entry[key], results.origin.get('classes'), score))
             for key, kind in (('gt_instances', 'truth'), ('pred_instances', 'prediction')) if key in entry]
    return shown, [shape['class'] for layer in shown for shape in layer.shapes]


def _shapes(stored: dict, names: Sequence[str] | None, score: float) -> list[dict[str, Any]]:
    """Return instances with at least this score. The name is placed below a true and above a predicted instance."""
    shapes = []
    for number, (box, label) in enumerate(zip(stored['bboxes'].tolist(), stored['labels'].tolist())):
        confidence = float(stored['scores'][number]) if 'scores' in stored else None
        if confidence is not None and confidence < score:
            continue
        name = names[label] if names else str(label)
        shapes.append({'path': _outline(box, stored['masks'][number] if 'masks' in stored else None), 'class': name,
                       'x': round(box[0], 1), 'y': round(box[3 if confidence is None else 1], 1),
                       'name': name if confidence is None else f'{name} {confidence:.2f}'})
    return shapes


def _outline(box: Sequence[float], mask: dict | None) -> str:
    """Return the SVG path of a box x1, y1, x2, y2, or of the contours of a mask."""
    x1, y1, x2, y2 = (round(value, 1) for value in box)
    if mask is None:
        return f'M{x1} {y1}H{x2}V{y2}H{x1}Z'
    contours, _ = cv2.findContours(coco_mask.decode(mask), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    return ''.join('M' + 'L'.join(f'{x} {y}' for x, y in cv2.approxPolyDP(contour, 0.7, True)[:, 0].tolist()) + 'Z'
                   for contour in contours)
