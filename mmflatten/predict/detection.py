"""Predicted boxes and masks as COCO JSON."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from mmflatten.checkpoints.run_files import atomic_write
from mmflatten.engine.predictions import run_lengths
from mmflatten.predict import results
from mmflatten.predict.inputs import Input


class Writer(results.Writer):
    """`predictions.json`, a COCO data set: `images`, `categories`, `annotations`.

    Annotations have `bbox` (x, y, width, height in pixels), `score` and, for masks, run-length
    `segmentation`. A row of `predictions.part.jsonl` is one image with its annotations.
    """

    table = 'predictions.json'
    rows_file = 'predictions.part.jsonl'

    def add(self, item: Input, sample: Any, pixels: np.ndarray) -> dict:
        instances = sample.pred_instances.cpu()
        instances = instances[instances.scores >= self.score]
        columns = zip(
            instances.bboxes.tolist(), instances.scores.tolist(), instances.labels.tolist()
        )
        records = [
            dict(category_id=label, bbox=[x1, y1, x2 - x1, y2 - y1], score=score)
            for (x1, y1, x2, y2), score, label in columns
        ]
        if 'masks' in instances:
            for record, mask in zip(records, run_lengths(instances.masks)):
                # JSON has no bytes
                record['segmentation'] = {**mask, 'counts': mask['counts'].decode()}
        height, width = pixels.shape[:2]
        image = dict(id=self.rows.count, file_name=item.source, height=height, width=width)
        if item.video:
            image['frame'] = item.name
        self.rows.add(json.dumps(dict(image=image, annotations=records)) + '\n')
        return dict(instances=records)

    def write_table(self, rows: Path, table: Path) -> None:
        images, annotations = [], []
        with open(rows, encoding='ascii') as lines:
            for line in lines:
                row = json.loads(line)
                images.append(row['image'])
                for record in row['annotations']:
                    ids = dict(id=len(annotations) + 1, image_id=row['image']['id'])
                    area = record['bbox'][2] * record['bbox'][3]
                    annotations.append(dict(**ids, iscrowd=0, area=area, **record))
        categories = [dict(id=label, name=name) for label, name in enumerate(self.classes)]
        content = dict(images=images, categories=categories, annotations=annotations)
        with atomic_write(table) as partial:
            partial.write_text(json.dumps(content) + '\n', encoding='utf-8')
        rows.unlink()
