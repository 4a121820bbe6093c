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


class DetectionWriter(writer.Writer):
    """`predictions.json`, a COCO data set: `images`, `categories`, `annotations`.

    Annotations have `bbox` (x, y, width, height in pixels), `score` and, for masks, run-length `segmentation`.
    """

    files = ('predictions.json', )

    def __init__(self, folder: Path, classes: Sequence[str], score: float) -> None:
        super().__init__(folder, classes, score)
        self._images: list[dict] = []
        self._annotations: list[dict] = []

    def add(self, item: Input, sample: Any, pixels: np.ndarray) -> dict:
        instances = sample.pred_instances.cpu()
        instances = instances[instances.scores >= self.score]
        image_id = len(self._images)
        image = dict(id=image_id, file_name=item.source, height=pixels.shape[0], width=pixels.shape[1])
        if item.video:
            image['frame'] = item.name
        self._images.append(image)
        masks = run_lengths(instances.masks) if 'masks' in instances else [None] * len(instances)
        records = []
        columns = (instances.bboxes.tolist(), instances.scores.tolist(), instances.labels.tolist(), masks)
        for box, score, label, mask in zip(*columns):
            x, y, width, height = box[0], box[1], box[2] - box[0], box[3] - box[1]
            instance = dict(category_id=label, bbox=[x, y, width, height], score=score)
            if mask is not None:
                instance['segmentation'] = {**mask, 'counts': mask['counts'].decode()}  # JSON has no bytes
            records.append(instance)
            self._annotations.append(dict(id=len(self._annotations) + 1, image_id=image_id, iscrowd=0,
                                          area=width * height, **instance))
        return dict(instances=records)

    def close(self) -> None:
        if self._images:
            categories = [dict(id=i, name=name) for i, name in enumerate(self.classes)]
            content = dict(images=self._images, categories=categories, annotations=self._annotations)
            (self.folder / self.files[0]).write_text(json.dumps(content) + '\n', encoding='utf-8')

    @staticmethod
    def table(record: dict, classes: Sequence[str]) -> writer.TableParts:
        instances = sorted(record['instances'], key=lambda instance: -instance['score'])
        rows = [(classes[instance['category_id']], f'{instance["score"]:.3f}',
                 *(f'{number:.0f}' for number in instance['bbox'])) for instance in instances[:writer.MAX_ROWS]]
        caption = '1 instance' if len(instances) == 1 else f'{len(instances)} instances'
        if len(instances) > writer.MAX_ROWS:
            caption += f', of which the {writer.MAX_ROWS} with the highest scores'
        return caption, ('class', 'score', 'x', 'y', 'width', 'height') if rows else (), rows


Writer = DetectionWriter
