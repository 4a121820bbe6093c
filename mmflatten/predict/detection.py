"""Predicted boxes and masks as COCO JSON."""
import json
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

    def add(self, item: Input, sample: Any, pixels: np.ndarray) -> dict:
        instances = sample.pred_instances.cpu()
        instances = instances[instances.scores >= self.score]
        columns = zip(instances.bboxes.tolist(), instances.scores.tolist(), instances.labels.tolist())
        records = [dict(category_id=label, bbox=[x1, y1, x2 - x1, y2 - y1], score=score)
                   for (x1, y1, x2, y2), score, label in columns]
        if 'masks' in instances:
            for record, mask in zip(records, run_lengths(instances.masks)):
                record['segmentation'] = {**mask, 'counts': mask['counts'].decode()}  # JSON has no bytes
        image = dict(id=len(self.collected), file_name=item.source, height=pixels.shape[0], width=pixels.shape[1])
        if item.video:
            image['frame'] = item.name
        self.collected.append((image, records))
        return dict(instances=records)

    def close(self) -> None:
        if not self.collected:
            return
        annotations = [dict(image_id=image['id'], iscrowd=0, area=record['bbox'][2] * record['bbox'][3], **record)
                       for image, records in self.collected for record in records]
        content = dict(
            images=[image for image, _ in self.collected],
            categories=[dict(id=label, name=name) for label, name in enumerate(self.classes)],
            annotations=[dict(id=number, **annotation) for number, annotation in enumerate(annotations, 1)])
        (self.folder / self.files[0]).write_text(json.dumps(content) + '\n', encoding='utf-8')
