"""Export of detectors: backbone, neck, head and suppression in one graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from torch import Tensor, nn

from mmflatten.export.detection.agreement import image_errors
from mmflatten.export.detection.heads import head_of
from mmflatten.export.detection.suppression import translations
from mmflatten.export.wrappers import ExportedModel


class Exported(ExportedModel):
    """Boxes `(B, K, 4)` in pixels of the image, the best first, scores and labels `(B, K)`; masks
    `(B, K, H, W)` of models with masks.

    K is the largest number of detections of an image of the batch, at least 1. Rows beyond the
    detections of an image have the score 0 and the label -1.
    """

    task = 'detection'
    # Whether a box suppresses another may depend on rounding. With it the results change from one
    # box to another, in PyTorch too.
    outliers = 0.02

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.head = head_of(model)
        # A map of one cell in the traced example would fix the graph of some heads to its size. The
        # pyramid of a plain ViT has coarser maps than the backbone, up to the multiple of padding.
        self.stride = getattr(self.head, 'stride', max(self.stride, self.divisor))
        self.outputs = ('boxes', 'scores', 'labels')
        if getattr(self.head, 'has_masks', False):
            self.outputs += ('masks',)

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        features = self.model.extract_feat(self.prepare(image))
        return tuple(self.head(features, image.shape[-2:]))

    def translations(self) -> dict[Callable, Callable]:
        return translations()

    def errors(
        self, outputs: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Return the error of each detection, see `image_errors`."""
        if any(np.isnan(value).any() for value in outputs.values()):
            return np.array([np.nan])
        errors = []
        for image in range(len(expected['scores'])):
            ours = {name: value[image] for name, value in outputs.items()}
            theirs = {name: value[image] for name, value in expected.items()}
            errors += image_errors(
                ours, theirs, threshold=self.head.score_threshold, most=self.head.max_boxes
            )
        return np.array(errors)
