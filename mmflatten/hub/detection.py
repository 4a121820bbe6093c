"""Memory of the predictions of published detectors."""

from collections.abc import Iterator, Mapping
from typing import Any

from mmflatten.hub.cost import FLOAT, Share

_CANDIDATE = 64  # bytes of a box of one class: box, score, label, and their copies
_COPIES = 6  # of a score above the threshold: with its index of two integers, and sorted

Size = tuple[int, int]


def require_sizes(model: Mapping[str, Any], where: str) -> None:
    """Accept all: the bounds of each number are enough."""


def network_size(model: Mapping[str, Any], size: Size, where: str) -> Size:
    """Return (height, width) of the network's input, that of the image."""
    return size


def prediction_shares(
    model: Mapping[str, Any], size: Size, image: Size, outputs: int
) -> list[Share]:
    """Return the memory of candidates and of masks in the size of the image.

    Args:
        outputs: bytes of the largest output of the network, a map of scores.
    """
    test = model.get('test_cfg') or {}
    if 'panoptic_head' in model:
        return _mask_shares(model, size, image)
    regions = (test.get('rpn') or {}).get('max_per_img', 0)
    final = test.get('rcnn') or {}
    numbers = [head.get('num_classes', 1) for head in _heads(model, 'bbox_head')]
    classes = max(numbers, default=1)
    shares = [
        Share('model.test_cfg.score_thr', test.get('score_thr'), _COPIES * outputs),
        Share('model.test_cfg.rpn.max_per_img', regions, _CANDIDATE * regions * classes),
    ]
    if list(_heads(model, 'mask_head')):
        masks = final.get('max_per_img', 0)
        # One byte a pixel, and once more where they are stored or drawn.
        shares.append(
            Share('model.test_cfg.rcnn.max_per_img', masks, 2 * masks * image[0] * image[1])
        )
    return shares


def _mask_shares(model: Mapping[str, Any], size: Size, image: Size) -> list[Share]:
    """Return the memory of Mask2Former's masks: of all queries in the sizes of input and image, and
    of the instances, with their scores and their binary form.
    """
    queries = model['panoptic_head'].get('num_queries', 100)
    instances = (model.get('test_cfg') or {}).get('max_per_image', 100)
    input_pixels, pixels = (height * width for height, width in (size, image))
    return [
        Share(
            'model.panoptic_head.num_queries', queries, FLOAT * queries * (input_pixels + pixels)
        ),
        Share('model.test_cfg.max_per_image', instances, 4 * FLOAT * instances * pixels),
    ]


def _heads(model: Mapping[str, Any], argument: str) -> Iterator[Mapping[str, Any]]:
    """Yield the heads that an argument of a detector or of its `roi_head` holds, one or a list."""
    for part in (model, model.get('roi_head') or {}):
        value = part.get(argument)
        if isinstance(value, Mapping):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from value
