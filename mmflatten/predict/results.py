"""Result files: drawings, and the files of the task."""

import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Self

import cv2
import numpy as np
from mmengine.structures import BaseDataElement

from mmflatten.checkpoints.run_files import only_process, remove_partial_files, whole_file
from mmflatten.console import explain, print_progress
from mmflatten.datasets.bands import drawn_bands
from mmflatten.datasets.storage import read_rgb
from mmflatten.engine.predictions import draw_sample
from mmflatten.predict.inputs import Input
from mmflatten.predict.predictor import Image, PredictionError, Predictor
from mmflatten.predict.rows import Rows
from mmflatten.predict.videos import DrawnVideo
from mmflatten.tasks import Task

DRAWN_PIXELS = 40_000_000  # matplotlib takes more than 100 bytes for each


class ResultFolder:
    """Folder of predictions: drawings and the files of the task's `Writer`.

    Drawings are `drawings/NAME.png` or, for a video, `drawings/NAME.mp4`.

    Use it as a context manager, which one process at a time can enter for a folder. The table of an
    earlier run is replaced on exit, also after an error. Instances with a score below `score` are
    skipped in drawings and data.

    Attributes:
        failures: after the exit, a line for each table or video that could not be written.

    Raises:
        FolderInUseError: another process predicts into the folder.
    """

    def __init__(self, folder: str | Path, predictor: Predictor, score: float = 0.3) -> None:
        self.folder = Path(folder)
        self.score = score
        self.failures: list[str] = []
        self._visualizer = predictor.visualizer()
        self._reads_bands = predictor.reads_bands
        self._video: DrawnVideo | None = None
        self._subfolders = self.replaced(self.folder, predictor.task)
        writer = predictor.task.part('predict').Writer
        self._writer = writer(self.folder, predictor.classes, score)
        self._lock = ExitStack()

    def __enter__(self) -> Self:
        self._lock.enter_context(only_process(self.folder, 'prediction', '--out'))
        self._remove_leftovers()
        self._drawings.mkdir(exist_ok=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._lock:
            self._close_video()
            try:
                self._writer.close(complete=kind is None)
            except OSError as error:
                self.failures.append(f'{explain(error)} The rows are in {self._writer.rows.path}.')
            self._remove_leftovers()
        if kind is not None:  # the caller, which ends, does not print them
            for failure in self.failures:
                print_progress(failure)

    @staticmethod
    def replaced(folder: Path, task: Task) -> list[Path]:
        """Return the subfolders whose files are replaced by those of images with the same name."""
        return [folder / name for name in ('drawings', *task.part('predict').Writer.folders)]

    def add(self, item: Input, sample: BaseDataElement, image: Image | None = None) -> dict:
        """Save and draw one prediction. Returns it as plain numbers, with maps as file names.

        Args:
            image: result of `Predictor.read` for `item.image`. Without it, the file is read again.

        Raises:
            PredictionError: a file of the image cannot be written, the image has more than
                `DRAWN_PIXELS`, or the task's visualizer cannot draw the prediction. The other files
                of the image are written nevertheless.
        """
        pixels = _drawn_pixels(item.image if image is None else image, self._reads_bands)
        record: dict = {}
        problems: list[str] = []
        try:
            record = self._writer.add(item, sample, pixels)
        except OSError as error:
            problems.append(explain(error))
        try:
            self._draw(item, pixels, sample)
        except (IndexError, ValueError, MemoryError, OSError, cv2.error) as error:
            problems.append(f'cannot be drawn: {explain(error)}')
        if problems:
            raise PredictionError(f'{item.source}: {"; ".join(problems)}')
        return dict(file=item.source, name=item.name, **record)

    @property
    def _drawings(self) -> Path:
        return self._subfolders[0]

    def _draw(self, item: Input, pixels: np.ndarray, sample: BaseDataElement) -> None:
        height, width = pixels.shape[:2]
        if height * width > DRAWN_PIXELS:
            raise ValueError(
                f'expected at most {DRAWN_PIXELS // 10**6} million pixels, got {width} x {height}'
            )
        draw = partial(
            draw_sample,
            visualizer=self._visualizer,
            image=pixels,
            sample=sample,
            score=self.score,
            truth=False,
        )
        if item.video is None:
            with whole_file(self._drawings / f'{item.name}.png') as file:
                draw(out_file=str(file))
        else:
            # The visualizers of the libraries write files only.
            with tempfile.TemporaryDirectory() as scratch:
                draw(out_file=f'{scratch}/frame.png')
                frame = cv2.imread(f'{scratch}/frame.png')
            self._add_frame(frame, *item.video)

    def _add_frame(self, frame: np.ndarray, name: str, rate: float) -> None:
        """Add a drawing to the video `name`, which completes the video of earlier frames."""
        file = self._drawings / f'{name}.mp4'
        if self._video is None or self._video.file != file:
            self._close_video()
            self._video = DrawnVideo(file, rate, size=(frame.shape[1], frame.shape[0]))
        self._video.add(frame)

    def _close_video(self) -> None:
        video, self._video = self._video, None
        try:
            if video is not None:
                video.close()
        except OSError as error:
            self.failures.append(explain(error))

    def _remove_leftovers(self) -> None:
        for folder in self._subfolders:
            remove_partial_files(folder)


def _drawn_pixels(image: Image, reads_bands: bool) -> np.ndarray:
    """Return the RGB pixels of an image, of the left one of a pair."""
    left = image[0] if isinstance(image, tuple) else image
    if isinstance(left, np.ndarray):
        return left
    try:
        return drawn_bands(str(left)) if reads_bands else read_rgb(str(left))
    except (OSError, ValueError) as error:  # deleted or replaced after the prediction
        raise PredictionError(str(error)) from error


class Writer:
    """Base class of the tasks' writers, which save predictions as files in an existing folder.

    Attributes:
        table: name of the file with a row for each image, if the task has one.
        rows_file: name of the file with the rows so far, which become the table.
        folders: names of the subfolders for `file`, which must not contain inputs.
        classes: class names in the order of the labels.
    """

    table = rows_file = ''
    folders: tuple[str, ...] = ()

    def __init__(self, folder: Path, classes: Sequence[str], score: float) -> None:
        self.folder = folder
        self.classes = classes
        self.score = score
        self.rows = Rows(folder / self.rows_file)

    def add(self, item: Input, sample: Any, pixels: np.ndarray) -> dict:
        """Add the prediction for `pixels` (H, W, 3).

        Returns it as plain numbers, with maps as file names.

        Raises:
            OSError: a file cannot be written.
        """
        return {}

    def close(self, complete: bool) -> None:
        """Replace the table of an earlier run by the rows.

        Args:
            complete: the run did not end early. Without rows, an earlier table is then deleted,
                unless the disk had no space for them.

        Raises:
            OSError: the table cannot be written. The file of the rows and the earlier table remain.
        """
        self.rows.close()
        if self.rows.count:
            self.write_table(self.rows.path, self.folder / self.table)
        elif self.table:
            self.rows.path.unlink(missing_ok=True)  # of a run that was killed
            if complete and not self.rows.lost:
                (self.folder / self.table).unlink(missing_ok=True)

    def write_table(self, rows: Path, table: Path) -> None:
        """Convert the file of the rows to the table, and remove it."""
        os.replace(rows, table)

    def name_of(self, label: int) -> str:
        return self.classes[label] if self.classes else str(label)

    def file(self, folder: str, item: Input, suffix: str) -> Path:
        """Return the path of a file of one image in a subfolder, which is created.

        Raises:
            ValueError: the subfolder is not one of `folders`.
        """
        if folder not in self.folders:
            raise ValueError(
                f'folder: expected one of {type(self).__name__}.folders {self.folders}, got'
                f' {folder!r}.'
            )
        (self.folder / folder).mkdir(exist_ok=True)
        return self.folder / folder / f'{item.name}{suffix}'
