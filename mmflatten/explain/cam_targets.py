"""What class activation differentiates: a class, a box, a region, each as one number with its graph."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mmengine.registry import DefaultScope
from torch import Tensor, nn

from mmflatten.predict.predictor import Predictor


@dataclass(frozen=True)
class Target:
    """One thing that a model says of an image.

    Attributes:
        label: number of the class.
        score: what the model's prediction says, 0 to 1; of a region its mean probability.
        value: the number that is differentiated.
        box: x1 y1 x2 y2 in pixels of the network's input, for detectors.
    """

    label: int
    score: float
    value: Tensor
    box: tuple[float, float, float, float] | None = None


class TargetModel(nn.Module):
    """A predictor's model as a module of its input alone, `(1, 3, H, W)`, that returns the targets of the image.

    Args:
        predictor: of any of these tasks.
        samples: of `Predictor.prepare`.
        labels: classes that are asked for; none for the predicted ones.
        score: boxes below it are none.
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
