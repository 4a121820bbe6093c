"""Targets of class activation maps: classes, boxes and regions, each a differentiable scalar."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mmengine.registry import DefaultScope
from torch import Tensor, nn

from mmflatten.predict.predictor import Predictor


@dataclass(frozen=True)
class Target:
    """One class, box or region of a prediction.

    Attributes:
        label: index of the class.
        score: predicted score, 0 to 1; the mean probability for a region.
        value: scalar to differentiate.
        box: x1 y1 x2 y2 in pixels of the network input, for detectors.
    """

    label: int
    score: float
    value: Tensor
    box: tuple[float, float, float, float] | None = None


class TargetModel(nn.Module):
    """A predictor's model as a module that maps an input `(1, 3, H, W)` to the targets of the image.

    Args:
        predictor: predictor of a task with the part `explain`.
        samples: data samples of `Predictor.prepare`.
        labels: classes to explain, by default the predicted ones.
        score: boxes with a lower score are skipped.
    """

    def __init__(self, predictor: Predictor, samples: Sequence[Any], labels: Sequence[int] = (),
                 score: float = .3) -> None:
        super().__init__()
        self.model, self.samples, self.labels, self.score = predictor.model, samples, labels, score
        self.scope = predictor.scope
        self._targets = predictor.spec.part('explain').targets

    def forward(self, image_13HW: Tensor) -> list[list[Target]]:
        with DefaultScope.overwrite_default_scope(self.scope):
            return [self._targets(self, image_13HW)]
