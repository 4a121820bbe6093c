"""Predicted boxes and masks as COCO JSON."""
from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mmflatten.engine.predictions import run_lengths
from mmflatten.predict import writer
from mmflatten.predict.inputs import Input

MAX_ROWS = 12


class Writer(writer.Writer):
    """`predictions.json`, a COCO data set: `images`, `categories`, `annotations`.

    Annotations have `bbox` (x, y, width, height in pixels), `score` and, for masks, `segmentation` as run lengths.
    """

    files = ('predictions.json', )

    def __init__(self, folder: Path, classes: Sequence[str], score: float) -> None:
        super().__init__(folder, classes, score)
        self._images: list[dict] = []
        self._annotations: list[dict] = []

    def add(self, item: Input, sample: Any, pixels: np.ndarray) -> dict:
        found = sample.pred_instances.cpu()
        found = found[found.scores >= self.score]
        image_id = len(self._images)
        image = dict(id=image_id, file_name=item.source, height=pixels.shape[0], width=pixels.shape[1])
        if item.video:
            image['frame'] = item.name
        self._images.append(image)
        masks = run_lengths(found.masks) if 'masks' in found else [None] * len(found)
        instances = []
        for box, score, label, mask in zip(found.bboxes.tolist(), found.scores.tolist(), found.labels.tolist(), masks):
            x, y, width, height = box[0], box[1], box[2] - box[0], box[3] - box[1]
            instance = dict(category_id=label, bbox=[x, y, width, height], score=score)
            if mask is not None:
                instance['segmentation'] = {**mask, 'counts': mask['counts'].decode()}  # JSON takes no bytes
            instances.append(instance)
            self._annotations.append(dict(id=len(self._annotations) + 1, image_id=image_id, iscrowd=0,
                                          area=width * height, **instance))
        return dict(instances=instances)

    def close(self) -> None:
        if self._images:
            categories = [dict(id=i, name=name) for i, name in enumerate(self.classes)]
            content = dict(images=self._images, categories=categories, annotations=self._annotations)
            (self.folder / self.files[0]).write_text(json.dumps(content) + '\n', encoding='utf-8')

    @staticmethod
    def table(record: dict, classes: Sequence[str]) -> tuple[str, tuple[str, ...], list[tuple[str, ...]]]:
        found = sorted(record['instances'], key=lambda instance: -instance['score'])
        rows = [(classes[instance['category_id']], f'{instance["score"]:.3f}',
                 *(f'{number:.0f}' for number in instance['bbox'])) for instance in found[:MAX_ROWS]]
        caption = '1 instance' if len(found) == 1 else f'{len(found)} instances'
        if len(found) > MAX_ROWS:
            caption += f', the best {MAX_ROWS} of them here'
        return caption, ('class', 'score', 'x', 'y', 'width', 'height') if rows else (), rows
