"""The base class of writers: predictions of one task as files."""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mmflatten.predict.inputs import Input


class Writer:
    """Predictions of one task as files in a folder.

    Args:
        folder: exists already.
        classes: their names in the order of the labels.
        score: instances below it are left out.

    Attributes:
        files: names of files that an earlier run may have left in the folder.
    """

    files: tuple[str, ...] = ()

    def __init__(self, folder: Path, classes: Sequence[str], score: float) -> None:
        self.folder, self.classes, self.score = folder, classes, score
        for name in self.files:
            (folder / name).unlink(missing_ok=True)

    def add(self, item: Input, sample: Any, pixels: np.ndarray) -> dict:
        """Add a prediction for `pixels` (H, W, 3) and return it as plain numbers; maps are named by their file."""
        return {}

    def close(self) -> None:
        """Write what is written once for all images."""

    @staticmethod
    def table(record: dict, classes: Sequence[str]) -> tuple[str, tuple[str, ...], list[tuple[str, ...]]]:
        """Return caption, header and rows of a table of one record of `add`."""
        return '', (), []

    def name_of(self, label: int) -> str:
        return self.classes[label] if self.classes else str(label)

    def file(self, folder: str, item: Input, suffix: str) -> Path:
        (self.folder / folder).mkdir(exist_ok=True)
        return self.folder / folder / f'{item.name}{suffix}'
