"""Result files: drawings, and the files of the task."""
import os
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import cv2
import mmcv
import numpy as np
from mmengine.structures import BaseDataElement

from mmflatten.engine.predictions import draw_sample
from mmflatten.predict.inputs import Input
from mmflatten.predict.predictor import PredictionError, Predictor
from mmflatten.tasks import Task

DRAWN_PIXELS = 40_000_000  # matplotlib takes more than 100 bytes for each


class ResultFolder:
    """Folder of predictions: `drawings/NAME.png` or, for a video, `drawings/NAME.mp4`, and the files of the `Writer`.

    Use it as a context manager. Tables are written on exit, also after an error. Instances with a score below `score`
    are skipped in drawings and data.
    """

    def __init__(self, folder: str | Path, predictor: Predictor, score: float = 0.3) -> None:
        self.drawings, self.score = Path(folder, 'drawings'), score
        self.visualizer = predictor.visualizer()
        self._video_name, self._video = '', cv2.VideoWriter()
        self.drawings.mkdir(parents=True, exist_ok=True)
        self._writer = predictor.spec.part('predict').Writer(Path(folder), predictor.classes, score)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self._video.release()
        self._writer.close()

    @staticmethod
    def replaced(folder: Path, task: Task) -> list[Path]:
        """Return the subfolders for files of single images, in which earlier files of the same name are replaced."""
        return [folder / name for name in ('drawings', *task.part('predict').Writer.folders)]

    def add(self, item: Input, sample: BaseDataElement) -> dict:
        """Save and draw one prediction. Returns it as plain numbers, with maps as file names.

        Raises PredictionError if the image has more than `DRAWN_PIXELS`, or the task's visualizer cannot draw the
        prediction, which is saved nevertheless.
        """
        left = item.image[0] if isinstance(item.image, tuple) else item.image
        pixels = left if isinstance(left, np.ndarray) else mmcv.imread(left, channel_order='rgb')
        record = self._writer.add(item, sample, pixels)
        try:
            self._draw(item, pixels, sample)
        except (IndexError, ValueError, MemoryError, cv2.error) as error:
            raise PredictionError(f'{item.source}: cannot be drawn: {type(error).__name__}: {error}') from error
        return dict(file=item.source, name=item.name, **record)

    def _draw(self, item: Input, pixels: np.ndarray, sample: BaseDataElement) -> None:
        height, width = pixels.shape[:2]
        if height * width > DRAWN_PIXELS:
            raise ValueError(f'expected at most {DRAWN_PIXELS // 10**6} million pixels, got {width} x {height}')
        draw = partial(draw_sample, self.visualizer, pixels, sample, score=self.score, truth=False)
        if item.video is None:
            draw(str(self.drawings / f'{item.name}.png'))
            return
        with tempfile.TemporaryDirectory() as scratch:
            draw(f'{scratch}/frame.png')
            frame = cv2.imread(f'{scratch}/frame.png')
        name, rate = item.video
        if name != self._video_name:
            self._video.release()
            file, codec = os.fsencode(self.drawings / f'{name}.mp4'), cv2.VideoWriter_fourcc(*'mp4v')
            self._video_name, self._video = name, cv2.VideoWriter(file, codec, rate, frame.shape[1::-1])
        self._video.write(frame)


class Writer:
    """Base class of the tasks' writers, which save predictions as files in an existing folder.

    Attributes:
        files: names of output files, which are deleted if an earlier run left them in the folder.
        folders: names of the subfolders for `file`, which must not contain inputs.
        classes: class names in the order of the labels.
        collected: entries of `add` for `close`, in any form.
    """

    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    def __init__(self, folder: Path, classes: Sequence[str], score: float) -> None:
        self.folder, self.classes, self.score = folder, classes, score
        self.collected: list = []
        for name in self.files:
            (folder / name).unlink(missing_ok=True)

    def add(self, item: Input, sample: Any, pixels: np.ndarray) -> dict:
        """Add the prediction for `pixels` (H, W, 3) and return it as plain numbers, with maps as file names."""
        return {}

    def close(self) -> None:
        """Write the files that cover all images."""

    def name_of(self, label: int) -> str:
        return self.classes[label] if self.classes else str(label)

    def file(self, folder: str, item: Input, suffix: str) -> Path:
        """Return the path of a file of one image in a subfolder, which is created and must be one of `folders`."""
        if folder not in self.folders:
            raise ValueError(f'folder: expected one of {type(self).__name__}.folders {self.folders}, got {folder!r}.')
        (self.folder / folder).mkdir(exist_ok=True)
        return self.folder / folder / f'{item.name}{suffix}'
