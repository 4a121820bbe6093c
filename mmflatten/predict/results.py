"""A folder of result files: drawings and the files of the task."""
from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import cv2
import mmcv
import numpy as np
from mmengine.structures import BaseDataElement

from mmflatten.engine.predictions import draw_sample
from mmflatten.predict.inputs import Input
from mmflatten.predict.predictor import PredictionError, Predictor

FOLDERS = ('drawings', 'label_maps', 'disparity')


class ResultFolder:
    """Folder of the predictions of a `Predictor`.

    It contains `drawings/NAME.png`, or `drawings/NAME.mp4` for a video, and the files of the task's `Writer`:
    `classes.csv`, `predictions.json` (COCO), `label_maps/NAME.png` or `disparity/NAME.pfm`.

    Use it as a context manager. Tables are written on exit, also after an error.

    Args:
        score: instances with a lower score are skipped in drawings and data.
    """

    def __init__(self, folder: str | Path, predictor: Predictor, score: float = 0.3) -> None:
        self.folder, self.predictor, self.score = Path(folder), predictor, score
        self.visualizer = predictor.visualizer()
        self._video: tuple[str, cv2.VideoWriter] | None = None
        (self.folder / 'drawings').mkdir(parents=True, exist_ok=True)
        self._writer = predictor.spec.part('predict').Writer(self.folder, predictor.classes, score)

    def __enter__(self) -> ResultFolder:
        return self

    def __exit__(self, *_: Any) -> None:
        self._end_video()
        self._writer.close()

    def add(self, item: Input, sample: BaseDataElement) -> dict:
        """Save and draw one prediction. Returns it as plain numbers, with label and disparity maps as file names.

        Raises:
            PredictionError: the task's visualizer cannot draw the prediction, which is saved nevertheless.
        """
        left = item.image[0] if isinstance(item.image, tuple) else item.image
        pixels = left if isinstance(left, np.ndarray) else mmcv.imread(left, channel_order='rgb')
        record = self._writer.add(item, sample, pixels)
        try:
            self._draw(item, pixels, sample)
        except (IndexError, ValueError, cv2.error) as error:
            raise PredictionError(f'{item.source}: cannot be drawn: {type(error).__name__}: {error}') from error
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
