"""Predicted boxes and masks as COCO JSON."""
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mmflatten.engine.predictions import run_lengths
from mmflatten.predict import results
from mmflatten.predict.inputs import Input


class Writer(results.Writer):
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
        image = dict(id=len(self._images), file_name=item.source, height=pixels.shape[0], width=pixels.shape[1])
        if item.video:
            image['frame'] = item.name
        self._images.append(image)
        records = [dict(category_id=label, bbox=[x1, y1, x2 - x1, y2 - y1], score=score)
                   for (x1, y1, x2, y2), score, label in zip(
                       instances.bboxes.tolist(), instances.scores.tolist(), instances.labels.tolist())]
        if 'masks' in instances:
            for record, mask in zip(records, run_lengths(instances.masks)):
                record['segmentation'] = {**mask, 'counts': mask['counts'].decode()}  # JSON has no bytes
        for record in records:
            self._annotations.append(dict(id=len(self._annotations) + 1, image_id=image['id'], iscrowd=0,
                                          area=record['bbox'][2] * record['bbox'][3], **record))
        return dict(instances=records)

    def close(self) -> None:
        if self._images:
            categories = [dict(id=i, name=name) for i, name in enumerate(self.classes)]
            content = dict(images=self._images, categories=categories, annotations=self._annotations)
            (self.folder / self.files[0]).write_text(json.dumps(content) + '\n', encoding='utf-8')

    @staticmethod
    def table(record: dict, classes: Sequence[str]) -> results.TableParts:
        instances = sorted(record['instances'], key=lambda instance: -instance['score'])
        rows = [(classes[instance['category_id']], f'{instance["score"]:.3f}',
                 *(f'{number:.0f}' for number in instance['bbox'])) for instance in instances[:results.MAX_ROWS]]
        caption = '1 instance' if len(instances) == 1 else f'{len(instances)} instances'
        if len(instances) > results.MAX_ROWS:
            caption += f', of which the {results.MAX_ROWS} with the highest scores'
        return caption, ('class', 'score', 'x', 'y', 'width', 'height') if rows else (), rows
