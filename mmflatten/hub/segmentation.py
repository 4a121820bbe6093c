"""Sizes and memory of the predictions of published segmentors."""

from collections.abc import Mapping
from typing import Any

from mmflatten.hub.cost import FLOAT, Share
from mmflatten.untrusted.published import HubError

MAX_WINDOWS = 4096  # in an image
# Windows that contain a pixel, on average. Strides of a quarter of a window have 16.
MAX_OVERLAP = 32
_LABEL = 8  # bytes of a pixel

Size = tuple[int, int]


def require_sizes(model: Mapping[str, Any], where: str) -> None:
    """Check the windows of a segmentor that slides over an image.

    Raises:
        HubError: a size is missing, or the windows overlap more than `MAX_OVERLAP` times.
    """
    sliding = _windows(model, where)
    if sliding is None:
        return
    (height, width), (down, right) = sliding
    if height * width > MAX_OVERLAP * down * right:
        raise HubError(
            f'{where}.test_cfg.stride: expected at most {MAX_OVERLAP} windows over a pixel, got'
            f' stride {sliding[1]} with crop_size {sliding[0]}. Use a larger stride.'
        )


def network_size(model: Mapping[str, Any], size: Size, where: str) -> Size:
    """Return (height, width) of the network's input: of the image of this size, or of a window of
    it.

    Raises:
        HubError: the image has more than `MAX_WINDOWS` windows.
    """
    sliding = _windows(model, where)
    if sliding is None:
        return size
    crop, stride = sliding
    count = 1
    for length, side, step in zip(size, crop, stride):
        count *= max(length - side + step - 1, 0) // step + 1  # as in mmseg's `slide_inference`
    if count > MAX_WINDOWS:
        raise HubError(
            f'{where}.test_cfg.stride: expected at most {MAX_WINDOWS} windows in an input of '
            f'{size[1]} x {size[0]}, got {stride} and {count} windows. Use a smaller image.'
        )
    return min(size[0], crop[0]), min(size[1], crop[1])


def prediction_shares(
    model: Mapping[str, Any], size: Size, image: Size, outputs: int
) -> list[Share]:
    """Return the memory of the logits in the sizes of the input and of the image, and of the
    labels.
    """
    classes = model['decode_head'].get('num_classes', 1)
    # In windows: the sum of logits, a padded window, and the quotient.
    maps = 1 if _windows(model, 'model') is None else 3
    logits = classes * FLOAT * (maps * size[0] * size[1] + image[0] * image[1])
    shares = [
        Share('model.decode_head.num_classes', classes, logits + _LABEL * image[0] * image[1])
    ]
    queries = model['decode_head'].get('num_queries')
    if queries:  # masks in the size of the input, and their sigmoid
        masks = 2 * FLOAT * queries * size[0] * size[1]
        shares.append(Share('model.decode_head.num_queries', queries, masks))
    return shares


def _windows(model: Mapping[str, Any], where: str) -> tuple[Size, Size] | None:
    """Return crop_size and stride of a segmentor that slides, else None."""
    test = model.get('test_cfg')
    if not isinstance(test, Mapping) or test.get('mode') != 'slide':
        return None
    for name in ('crop_size', 'stride'):
        value = test.get(name)
        if not _is_size(value):
            raise HubError(
                f'{where}.test_cfg.{name}: expected two integers, got {str(value)[:80]}. Publish'
                ' the model again.'
            )
    return tuple(test['crop_size']), tuple(test['stride'])


def _is_size(value: Any) -> bool:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return False
    return all(type(side) is int for side in value)
