"""The base class of writers, which save the predictions of one task as files."""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mmflatten.predict.inputs import Input

MAX_ROWS = 12  # rows of a table
TableParts = tuple[str, tuple[str, ...], list[tuple[str, ...]]]  # caption, header, rows


class Writer:
    """Predictions of one task as files in a folder.

    Args:
        folder: an existing folder.
        classes: class names in the order of the labels.
        score: instances with a lower score are skipped.

    Attributes:
        files: names of output files, which are deleted if an earlier run left them in the folder.
    """

    files: tuple[str, ...] = ()

    def __init__(self, folder: Path, classes: Sequence[str], score: float) -> None:
        self.folder, self.classes, self.score = folder, classes, score
        for name in self.files:
            (folder / name).unlink(missing_ok=True)

    def add(self, item: Input, sample: Any, pixels: np.ndarray) -> dict:
        """Add the prediction for `pixels` (H, W, 3) and return it as plain numbers, with maps as file names."""
        return {}

    def close(self) -> None:
        """Write the files that cover all images."""

    @staticmethod
    def table(record: dict, classes: Sequence[str]) -> TableParts:
        """Return caption, header and rows of a table of one record of `add`."""
        return '', (), []

    def name_of(self, label: int) -> str:
        return self.classes[label] if self.classes else str(label)

    def file(self, folder: str, item: Input, suffix: str) -> Path:
        (self.folder / folder).mkdir(exist_ok=True)
        return self.folder / folder / f'{item.name}{suffix}'
