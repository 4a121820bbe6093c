"""Targets of class activation maps of a segmentation model."""
from torch import Tensor

from mmflatten.explain.cam import Target, TargetModel

METHOD = 'layercam'  # default method
STAGE = -2


def targets(model: TargetModel, image_13HW: Tensor) -> list[Target]:
    """Return the mean logit of each class over the pixels with this prediction, for the whole input at once."""
    logits = model.model.encode_decode(image_13HW, [sample.metainfo for sample in model.samples])[0]
    height, width = model.samples[0].metainfo['img_shape'][:2]
    logits = logits[:, :height, :width]  # without padding
    scores = logits.detach().softmax(0)
    regions = logits.argmax(0)
    areas = regions.flatten().bincount(minlength=len(logits))
    labels = model.labels or areas.argsort(descending=True)[:int((areas > 0).sum())].tolist()
    return [Target(label, float(scores[label][regions == label].mean()), logits[label][regions == label].mean())
            for label in labels if areas[label]]
