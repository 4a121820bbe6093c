"""The attention of a trained model on a picture of one's own."""
from __future__ import annotations

import numpy as np

from mmflatten.analysis.attention import AttentionProbe
from mmflatten.apis.predictor import Image, Predictor
from mmflatten.engine.building import pixels_of


def probe_image(predictor: Predictor, image: Image) -> tuple[AttentionProbe, np.ndarray]:
    """Run a predictor's model on an image, with its own test pipeline.

    Returns:
        The probe, and the picture as the backbone saw it: RGB `(H, W, 3)`, 0 to 255, resized, cropped and padded. Of a
        pair it is the left image; of a segmentor that slides over the image, the first crop.

    Raises:
        PredictionError: the image cannot be read or used.
        ValueError: the model has no attention, or its prediction does not reach it.
    """
    model, inputs = predictor.model, []
    probe = AttentionProbe(model)
    backbone = model.features if predictor.task == 'stereo' else model.backbone
    hook = backbone.register_forward_pre_hook(lambda module, args: inputs.append(args[0][:1]) if not inputs else None)
    try:
        with probe:
            predictor(image)
    finally:
        hook.remove()
    if not probe.layers:
        raise ValueError(f'the prediction of the model ({type(model).__name__}) reaches none of its attentions: '
                         f'{", ".join(probe.names)}')
    return probe, pixels_of(inputs[0][0], model.data_preprocessor)
