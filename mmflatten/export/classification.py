"""Export of classifiers."""

from torch import Tensor

from mmflatten.export.wrappers import ExportedModel


class Exported(ExportedModel):
    """Probabilities of the classes, `(B, classes)`."""

    task, outputs = 'classification', ('probabilities',)

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        return (self.model(self.prepare(image), mode='tensor').softmax(-1),)
