"""The attention of a trained model on any image."""

import numpy as np
from torch import Tensor

from mmflatten.engine.pictures import pixels_of
from mmflatten.explain.attention import AttentionProbe
from mmflatten.predict.predictor import Image, Predictor


def probe_image(predictor: Predictor, image: Image) -> tuple[AttentionProbe, np.ndarray]:
    """Run a predictor on an image and record its attention layers.

    Also returns the image of `network_picture`.

    Raises:
        PredictionError: the image cannot be read or used.
        ValueError: the model has no attention, or does not use it for predictions.
    """
    with AttentionProbe(predictor.model) as probe:
        picture = network_picture(predictor, image)
    if not probe.layers:
        raise ValueError(
            f'model: predictions use none of the attention layers ({", ".join(probe.names)}),'
            f' got {type(predictor.model).__name__}.'
        )
    return probe, picture


def network_picture(predictor: Predictor, image: Image) -> np.ndarray:
    """Return the input of the backbone: the image resized, cropped and padded.

    The result is RGB `(H, W, 3)`, 0 to 255. It is the left image of a stereo pair, and the first
    crop for a segmentor with sliding-window inference. Errors are those of the predictor.
    """
    inputs: list[Tensor] = []
    backbone = predictor.task.backbone(predictor.model)
    with backbone.register_forward_pre_hook(lambda module, args: inputs.append(args[0][:1])):
        predictor(image)
    return pixels_of(inputs[0][0], predictor.model.data_preprocessor)
