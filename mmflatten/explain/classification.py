"""Targets of class activation maps of a classification model."""
from torch import Tensor

from mmflatten.explain.cam import Target, TargetModel

METHOD = 'gradcam'  # default method
STAGE = -1  # stage of the default layer, among the stages that the model uses


def targets(model: TargetModel, image_13HW: Tensor) -> list[Target]:
    """Return the logits of the requested classes, or of the predicted class."""
    logits = model.model(image_13HW, mode='tensor')[0]
    scores = logits.detach().softmax(0)
    return [Target(label, float(scores[label]), logits[label]) for label in model.labels or [int(scores.argmax())]]
