"""Predictions as files: drawings, COCO JSON, CSV of classes, PNG label maps, PFM disparities."""
from __future__ import annotations

import csv
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import cv2
import mmcv
import numpy as np
from mmengine.structures import BaseDataElement

from mmflatten.engine.predictions import draw_sample, run_lengths
from mmflatten.predict.inputs import Input
from mmflatten.predict.predictor import PredictionError, Predictor

TOP = 5  # classes of an image that the CSV lists
TABLES = dict(classification='classes.csv', detection='predictions.json')
FOLDERS = ('drawings', 'label_maps', 'disparity')


class ResultFolder:
    """A folder that fills with what a `Predictor` says of inputs.

    - `drawings/NAME.png`, and for a video `drawings/NAME.mp4`
    - classification: `classes.csv`, one line an image: file, class, score, then the five likeliest
    - detection: `predictions.json`, a COCO data set: `images`, `categories`, `annotations` with `bbox` (x, y, width,
      height in pixels), `score` and, for masks, `segmentation` as run lengths
    - segmentation: `label_maps/NAME.png`, one grey value (16 bits beyond 256 classes) a class, as in training
    - stereo: `disparity/NAME.pfm`, pixels of disparity of the left image

    Use it as a context manager: the tables are written at its end, also after an error.

    Args:
        score: instances below it are left out, of drawings and data.
    """

    def __init__(self, folder: str | Path, predictor: Predictor, score: float = 0.3) -> None:
        self.folder, self.predictor, self.score = Path(folder), predictor, score
        self.visualizer = predictor.visualizer()
        self._rows: list[list] = []
        self._images: list[dict] = []
        self._annotations: list[dict] = []
        self._video: tuple[str, cv2.VideoWriter] | None = None
        (self.folder / 'drawings').mkdir(parents=True, exist_ok=True)
        if predictor.task in TABLES:  # of an earlier run
            (self.folder / TABLES[predictor.task]).unlink(missing_ok=True)

    def __enter__(self) -> ResultFolder:
        return self

    def __exit__(self, *_: Any) -> None:
        self._end_video()
        if self._rows:
            with open(self.folder / TABLES['classification'], 'w', newline='', encoding='utf-8',
                      errors='surrogateescape') as file:  # names of files need not be UTF-8
                writer = csv.writer(file)
                count = (len(self._rows[0]) - 1) // 2
                writer.writerow(['file', *(f'{what}_{i + 1}' for i in range(count) for what in ('class', 'score'))])
                writer.writerows(self._rows)
        if self._images:
            categories = [dict(id=i, name=name) for i, name in enumerate(self.predictor.classes)]
            content = dict(images=self._images, categories=categories, annotations=self._annotations)
            (self.folder / TABLES['detection']).write_text(json.dumps(content) + '\n', encoding='utf-8')

    def add(self, item: Input, sample: BaseDataElement) -> dict:
        """Note and draw one prediction; returns it as plain numbers, the label and disparity maps by their file.

        Raises:
            PredictionError: the task's visualizer cannot draw it; it is noted all the same.
        """
        left = item.image[0] if isinstance(item.image, tuple) else item.image
        pixels = left if isinstance(left, np.ndarray) else mmcv.imread(left, channel_order='rgb')
        record = getattr(self, f'_{self.predictor.task}')(item, sample, pixels)
        try:
            self._draw(item, pixels, sample)
        except (IndexError, ValueError, cv2.error) as error:
            raise PredictionError(f'{item.source}: no drawing: {type(error).__name__}: {error}') from error
        return dict(file=item.source, name=item.name, **record)

    def _draw(self, item: Input, pixels: np.ndarray, sample: BaseDataElement) -> None:
        if item.video is None:
            self._draw_to(str(self.folder / 'drawings' / f'{item.name}.png'), pixels, sample)
            return
        with tempfile.TemporaryDirectory() as scratch:
            self._draw_to(f'{scratch}/frame.png', pixels, sample)
            frame = cv2.imread(f'{scratch}/frame.png')
        name, rate = item.video
        if self._video is None or self._video[0] != name:
            self._end_video()
            target = os.fsencode(self.folder / 'drawings' / f'{name}.mp4')
            size = (frame.shape[1], frame.shape[0])
            self._video = name, cv2.VideoWriter(target, cv2.VideoWriter_fourcc(*'mp4v'), rate, size)
        self._video[1].write(frame)

    def _draw_to(self, file: str, pixels: np.ndarray, sample: BaseDataElement) -> None:
        draw_sample(self.visualizer, pixels, sample, file, score=self.score, truth=False)

    def _end_video(self) -> None:
        if self._video is not None:
            self._video[1].release()
            self._video = None

    def _classification(self, item: Input, sample: Any, pixels: np.ndarray) -> dict:
        scores = sample.pred_score.float().cpu().numpy()
        ranking = [dict(label=label, name=self._name(label), score=float(scores[label]))
                   for label in np.argsort(-scores)[:TOP].tolist()]
        self._rows.append([item.source, *(cell for entry in ranking for cell in (
            entry['name'], f'{entry["score"]:.6f}'))])
        return dict(label=ranking[0]['label'], classes=ranking)

    def _detection(self, item: Input, sample: Any, pixels: np.ndarray) -> dict:
        found = sample.pred_instances.cpu()
        found = found[found.scores >= self.score]
        image_id = len(self._images)
        self._images.append(dict(id=image_id, file_name=item.source, height=pixels.shape[0], width=pixels.shape[1],
                                 **({'frame': item.name} if item.video else {})))
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

    def _segmentation(self, item: Input, sample: Any, pixels: np.ndarray) -> dict:
        labels = sample.pred_sem_seg.data[0].cpu().numpy()
        file = self._file('label_maps', item, '.png')
        grey = labels.astype(np.uint8 if len(self.predictor.classes) <= 256 else np.uint16)
        if not cv2.imwrite(os.fsencode(file), grey):
            raise OSError(f'{file} cannot be written; is there room, and may its folder be written to?')
        values, counts = np.unique(labels, return_counts=True)
        shares = [dict(label=label, name=self._name(label), share=count / labels.size)
                  for label, count in zip(values.tolist(), counts.tolist())]
        return dict(label_map=str(file), shares=shares)

    def _stereo(self, item: Input, sample: Any, pixels: np.ndarray) -> dict:
        from mmflatten.datasets.stereo.files import write_pfm
        height, width = pixels.shape[:2]
        disparity = sample.pred_disparity.data[0].cpu().numpy()
        disparity = disparity[disparity.shape[0] - height:, :width]  # without `StereoPad`'s border
        file = self._file('disparity', item, '.pfm')
        write_pfm(file, disparity)
        return dict(disparity=str(file), mean=float(disparity.mean()), min=float(disparity.min()),
                    max=float(disparity.max()))

    def _name(self, label: int) -> str:
        return self.predictor.classes[label] if self.predictor.classes else str(label)

    def _file(self, folder: str, item: Input, suffix: str) -> Path:
        (self.folder / folder).mkdir(exist_ok=True)
        return self.folder / folder / f'{item.name}{suffix}'
