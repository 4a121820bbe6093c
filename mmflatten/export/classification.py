"""Export of classifiers."""
from __future__ import annotations

from torch import Tensor, nn

from mmflatten.export.wrappers import ExportedModel


class ExportedClassifier(ExportedModel):
    """Probabilities of the classes, `(1, classes)`."""

    task, outputs = 'classification', ('probabilities',)

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        logits = self.model(self.prepare(image), mode='tensor')
        return (logits.softmax(-1),)


def wrap(model: nn.Module) -> ExportedModel:
    return ExportedClassifier(model)
