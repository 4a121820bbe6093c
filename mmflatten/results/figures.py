"""Numbers of the figures; `results.drawing` draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Confusion:
    """Confusion matrix (classes, classes); true classes are rows, predicted classes are columns."""

    matrix: np.ndarray
    names: Sequence[str]

    @property
    def description(self) -> str:
        correct = float(np.trace(self.matrix) / max(self.matrix.sum(), 1))
        return (
            f'Confusion matrix of {len(self.names)} classes; {correct:.1%} of the entries lie on'
            ' the diagonal'
        )


@dataclass(frozen=True)
class Lines:
    """Lines over a common axis. A line without points keeps its place in the order of colours."""

    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]]  # name -> x and y
    x_label: str
    y_label: str = ''
    # limits of the vertical axis; None is automatic
    limits: tuple[float | None, float | None] = (None, None)
    markers: bool = False
    mean: str = ''  # name of the mean of the other lines, drawn in black
    log: bool = False  # logarithmic axes
    ticks: Sequence[str] = ()  # labels of x = 0, 1, ...; () is the numbers

    @property
    def description(self) -> str:
        axes = f'{self.y_label} over {self.x_label}' if self.y_label else f'By {self.x_label}'
        ends = []
        for name, (_, y) in self.lines.items():
            if len(y):
                ends.append(f'{name} from {y[0]:.4g} to {y[-1]:.4g}')
        return f'{axes}: {", ".join(ends)}'


Plot = Confusion | Lines
