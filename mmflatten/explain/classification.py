"""Targets of class activation maps of a classification model."""
from __future__ import annotations

from torch import Tensor

from mmflatten.explain.cam_targets import Target, TargetModel

METHOD = 'gradcam'  # the default
STAGE = -1  # whose output norm is the default layer, among the stages that the model reads


def targets(asked: TargetModel, image_13HW: Tensor) -> list[Target]:
    """Return the logits of classes."""
    logits = asked.model(image_13HW, mode='tensor')[0]
    scores = logits.detach().softmax(0)
    return [Target(label, float(scores[label]), logits[label]) for label in asked.labels or [int(scores.argmax())]]
