"""What lies over a test image: truth and predictions as outlines, maps or text."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
from pycocotools import mask as coco_mask

from mmflatten.results.reading import Results
from mmflatten.tasks.stereo_visualizer import colour_map

MAX_ERROR = 5.  # pixels of disparity that get the brightest colour
OPACITY = 180  # of label maps, of 255
Encode = Callable[..., str]  # pixels (H, W, 3 or 4) as a data URL


@dataclass
class Layer:
    """What a toggle shows: `text` below the picture, `picture` or `shapes` (with `path`, `name`, `x`, `y`) over it.

    Attributes:
        kind: truth, prediction or error.
        run: index of the run that predicted it; 0 for the truth.
    """

    kind: str
    title: str
    run: int = 0
    text: str = ''
    picture: str = ''
    shapes: list[dict[str, Any]] = field(default_factory=list)


def _classification(results: Results, entry: dict, encode: Encode, score: float) -> tuple[list[Layer], list[str]]:
    scores = np.asarray(entry['pred_score'])
    names = results.names(len(scores))
    true, best = names[int(np.asarray(entry['gt_label']).reshape(-1)[0])], int(scores.argmax())
    return [Layer('truth', 'Truth', text=true),
            Layer('prediction', 'Prediction', text=f'{names[best]} ({scores[best]:.2f})')], [true, names[best]]


def _detection(results: Results, entry: dict, encode: Encode, score: float) -> tuple[list[Layer], list[str]]:
    layers, seen = [], []
    for key, kind in (('gt_instances', 'truth'), ('pred_instances', 'prediction')):
        if key in entry:
            shapes = _shapes(entry[key], results.origin.get('classes'), score)
            layers.append(Layer(kind, kind.capitalize(), shapes=shapes))
            seen += [shape['class'] for shape in shapes]
    return layers, seen


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


def _segmentation(results: Results, entry: dict, encode: Encode, score: float) -> tuple[list[Layer], list[str]]:
    maps = [np.asarray(entry[key]['data'])[0].astype(np.int64) for key in ('gt_sem_seg', 'pred_sem_seg')]
    names = results.names(len(results.origin.get('classes') or ()) or int(max(map(np.max, maps))) + 1)
    palette = np.asarray(palette_of(results, len(names)), np.uint8)
    layers = []
    for kind, labels in zip(('truth', 'prediction'), maps):
        known = labels < len(names)
        colours = np.dstack([palette[np.where(known, labels, 0)], OPACITY * known.astype(np.uint8)])
        layers.append(Layer(kind, kind.capitalize(), picture=encode(colours, lossless=True)))
    return layers, [names[label] for label in np.unique(np.concatenate([labels.ravel() for labels in maps]))
                    if label < len(names)]


def palette_of(results: Results, number: int) -> list:
    """The data set's colours, else colours spread around the wheel."""
    wheel = np.uint8([[(180 * label // max(number, 1), 160, 220) for label in range(number)]])
    return results.origin.get('palette') or cv2.cvtColor(wheel, cv2.COLOR_HSV2RGB)[0].tolist()


def _stereo(results: Results, entry: dict, encode: Encode, score: float) -> tuple[list[Layer], list[str]]:
    true, valid, predicted = (_unpadded(values, entry['ori_shape']) for values in (
        entry['gt_disparity']['data'], entry['gt_disparity']['valid'], entry['pred_disparity']['data']))
    top, error = max(1., float(true[valid].max(initial=0))), np.abs(predicted - true)
    return [Layer('truth', 'Truth', picture=encode(colour_map(true, top, cv2.COLORMAP_TURBO, valid))),
            Layer('prediction', 'Prediction', picture=encode(colour_map(predicted, top, cv2.COLORMAP_TURBO))),
            Layer('error', 'Error', picture=encode(colour_map(error, MAX_ERROR, cv2.COLORMAP_INFERNO, valid)))], []


def _unpadded(values: Any, hw_shape: tuple[int, int]) -> np.ndarray:
    """A map (1, H, W) without the border of `StereoPad`, which is above and to the right, as (H, W)."""
    array = np.asarray(values)[0]
    return array[array.shape[0] - hw_shape[0]:, :hw_shape[1]]


LAYERS: dict[str, Callable] = dict(
    classification=_classification, detection=_detection, segmentation=_segmentation, stereo=_stereo)
