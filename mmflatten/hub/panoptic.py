"""Memory of the predictions of published panoptic models."""

from collections.abc import Mapping
from typing import Any

from mmflatten.hub import detection
from mmflatten.hub.cost import FLOAT, Share

_MAPS = 4 * 8  # bytes of a pixel: the map of segments, that of instances, and their copies

Size = tuple[int, int]

require_sizes = detection.require_sizes
network_size = detection.network_size


def prediction_shares(
    model: Mapping[str, Any], size: Size, image: Size, outputs: int
) -> list[Share]:
    """Return the memory of the things, of the logits of the stuff in the sizes of the input and of
    the image, and of the map of segments.

    Args:
        outputs: bytes of the largest output of the network, a map of scores.
    """
    stuff = model['panoptic_fusion_head'].get('num_stuff_classes', 0)
    pixels = image[0] * image[1]
    # One channel more for all things.
    logits = (stuff + 1) * FLOAT * (size[0] * size[1] + pixels)
    return [
        *detection.prediction_shares(model, size, image, outputs),
        Share('model.panoptic_fusion_head.num_stuff_classes', stuff, logits + _MAPS * pixels),
    ]
