"""Predicted panoptic segments in the format of COCO's results."""

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from mmflatten.checkpoints.run_files import atomic_write, whole_file
from mmflatten.predict import results
from mmflatten.predict.inputs import Input
from mmflatten.structures.segments import (
    INSTANCE_OFFSET,
    VOID,
    predicted_segments,
    segment_colours,
)


class Writer(results.Writer):
    """`panoptic/NAME.png` with the number of the segment of each pixel, and `predictions.json`
    with `images`, `categories` and, in `annotations`, the segments of each image.

    A segment has its number in the PNG file, `R + 256 G + 256^2 B`, where 0 is void, and
    `category_id`, `isthing`, `area` in pixels. A row of `predictions.part.jsonl` is one image with
    its annotation.
    """

    table = 'predictions.json'
    rows_file = 'predictions.part.jsonl'
    folders = ('panoptic',)

    def add(self, item: Input, sample: Any, pixels: np.ndarray) -> dict:
        panoptic = sample.pred_panoptic_seg.sem_seg[0].cpu().numpy()
        ids = np.full(panoptic.shape, VOID, dtype=np.int32)
        segments = []
        labels = predicted_segments(panoptic, len(self.classes))
        for number, (value, label) in enumerate(labels.items(), 1):
            mask = panoptic == value
            ids[mask] = number
            segment = dict(
                id=number,
                category_id=label,
                isthing=int(value >= INSTANCE_OFFSET),
                area=int(mask.sum()),
            )
            segments.append(segment)
        file = self.file('panoptic', item, '.png')
        with whole_file(file) as partial:
            # OpenCV writes BGR; its own writing does not report a full disk.
            bgr = np.ascontiguousarray(segment_colours(ids)[..., ::-1])
            partial.write_bytes(cv2.imencode('.png', bgr)[1])
        height, width = panoptic.shape
        image = dict(id=self.rows.count, file_name=item.source, height=height, width=width)
        if item.video:
            image['frame'] = item.name
        annotation = dict(
            image_id=image['id'],
            file_name=file.relative_to(self.folder / 'panoptic').as_posix(),
            segments_info=segments,
        )
        self.rows.add(json.dumps(dict(image=image, annotation=annotation)) + '\n')
        named = []
        for segment in segments:
            name = self.name_of(segment['category_id'])
            named.append(dict(segment, name=name, share=segment['area'] / ids.size))
        return dict(panoptic_map=str(file), segments=named)

    def write_table(self, rows: Path, table: Path) -> None:
        images, annotations = [], []
        with open(rows, encoding='ascii') as lines:
            for line in lines:
                row = json.loads(line)
                images.append(row['image'])
                annotations.append(row['annotation'])
        categories = [dict(id=label, name=name) for label, name in enumerate(self.classes)]
        content = dict(images=images, categories=categories, annotations=annotations)
        with atomic_write(table) as partial:
            partial.write_text(json.dumps(content) + '\n', encoding='utf-8')
        rows.unlink()
