"""The attention of a trained model on a picture of one's own."""
from __future__ import annotations

import numpy as np

from mmflatten.building import pixels_of
from mmflatten.explain.attention import AttentionProbe
from mmflatten.predict.predictor import Image, Predictor


def probe_image(predictor: Predictor, image: Image) -> tuple[AttentionProbe, np.ndarray]:
    """Run a predictor's model on an image, with its own test pipeline.

    Returns:
        The probe, and the picture as `network_picture` has it.

    Raises:
        PredictionError: the image cannot be read or used.
        ValueError: the model has no attention, or its prediction does not reach it.
    """
    with AttentionProbe(predictor.model) as probe:
        picture = network_picture(predictor, image)
    if not probe.layers:
        raise ValueError(f'the prediction of the model ({type(predictor.model).__name__}) reaches none of its '
                         f'attentions: {", ".join(probe.names)}')
    return probe, picture


def network_picture(predictor: Predictor, image: Image) -> np.ndarray:
    """Run a predictor's model on an image; returns the image as the backbone saw it: resized, cropped and padded.

    RGB `(H, W, 3)`, 0 to 255. Of a pair it is the left image; of a segmentor that slides over the image, the first
    crop.

    Raises:
        PredictionError: the image cannot be read or used.
    """
    model, inputs = predictor.model, []
    backbone = predictor.spec.backbone(model)
    hook = backbone.register_forward_pre_hook(lambda module, args: inputs.append(args[0][:1]) if not inputs else None)
    try:
        predictor(image)
    finally:
        hook.remove()
    return pixels_of(inputs[0][0], model.data_preprocessor)
