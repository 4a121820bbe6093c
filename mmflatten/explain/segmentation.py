"""Targets of class activation maps of a segmentation model."""
from __future__ import annotations

from torch import Tensor

from mmflatten.explain.cam_targets import Target, TargetModel

METHOD = 'layercam'  # the default
STAGE = -2


def targets(asked: TargetModel, image_13HW: Tensor) -> list[Target]:
    """Return the mean logit of each class over the pixels where it is predicted, on the whole input at once."""
    logits = asked.model.encode_decode(image_13HW, [sample.metainfo for sample in asked.samples])[0]
    height, width = asked.samples[0].metainfo['img_shape'][:2]
    logits = logits[:, :height, :width]  # without padding
    scores = logits.detach().softmax(0)
    regions = logits.argmax(0)
    areas = regions.flatten().bincount(minlength=len(logits))
    labels = asked.labels or areas.argsort(descending=True)[:int((areas > 0).sum())].tolist()
    return [Target(label, float(scores[label][regions == label].mean()), logits[label][regions == label].mean())
            for label in labels if areas[label]]
