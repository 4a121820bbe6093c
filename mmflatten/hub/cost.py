"""Memory of one prediction of a published model, estimated from shapes before anything of that size
is made.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from mmflatten.console import error_text, quiet_libraries
from mmflatten.measure.flops.meta import build_on_meta
from mmflatten.measure.meta_memory import planned_memory
from mmflatten.registry import SCOPE, TRANSFORMS
from mmflatten.tasks import Task, find_task
from mmflatten.untrusted.published import HubError, Input, arguments, checked

LIMIT_GIB = 8  # default of the memory of one prediction
LIMIT_VARIABLE = 'MMFLATTEN_PREDICTION_GIB'  # replaces it
MAX_WINDOWS = 4096  # of a segmentor that slides over an image
# windows of which a pixel is part, on average; strides of a quarter of a window have 16
MAX_OVERLAP = 32
_FLOAT, _INTEGER = 4, 8  # bytes


@dataclass(frozen=True)
class Share:
    """A part of the memory of a prediction, and the field of `config.json` that it grows with."""

    field: str
    value: Any
    bytes: int


def limit_bytes() -> float:
    """Return the largest memory of a prediction, in bytes. Raises HubError if the variable is not a
    number.
    """
    text = os.environ.get(LIMIT_VARIABLE, str(LIMIT_GIB))
    try:
        return float(text) * 2**30
    except ValueError as error:
        raise HubError(
            f'{LIMIT_VARIABLE}: expected a number of GiB, got {text!r}. Use inf for no limit.'
        ) from error


def require_large_strides(model: Mapping[str, Any], place: str) -> None:
    """Raise HubError if the windows of a segmentor overlap more than `MAX_OVERLAP` times, or miss a
    size.
    """
    sliding = windows(model, place)
    if sliding is None:
        return
    (height, width), (down, right) = sliding
    if height * width > MAX_OVERLAP * down * right:
        raise HubError(
            f'{place}.test_cfg.stride: expected at most {MAX_OVERLAP} windows over a pixel, got'
            f' stride {sliding[1]} with crop_size {sliding[0]}. Use a larger stride.'
        )


def cost_check(model: Mapping[str, Any], numbers: Input, task: Task, place: Path) -> dict[str, Any]:
    """Return the config of the transform that checks the memory of each image. It follows the one
    that loads.
    """
    return dict(
        type=f'{SCOPE}.{CostCheck.__name__}',
        model=dict(model),
        scope=task.scope,
        numbers=arguments(numbers),
        place=str(place),
    )


@TRANSFORMS.register_module()
class CostCheck:
    """Transform that refuses an image whose prediction would take more than `limit_bytes`, before
    it is resized.

    The estimate, for a batch of one image, is that of the resized image and of the larger one of
    the other parts:

    - the resized image: its bytes after each transform, and the normalised input;
    - the network: all tensors that its forward pass holds at a time, on the meta device
      (`planned_memory`), with as many regions as `test_cfg` keeps, or for one window of a segmentor
      that slides;
    - the predictions: maps of logits in the sizes of the input and of the image, masks of the size
      of the image, and candidates of boxes.

    The weights are not part of it: reading the folder bounds them by the size of their file.

    Args:
        model: of the published config, accepted.
        scope: of the task.
        numbers: `input` of the published config.
        place: the config, for messages.
    """

    def __init__(
        self, model: Mapping[str, Any], scope: str, numbers: Mapping[str, Any], place: str
    ) -> None:
        self.model, self.scope, self.place = model, scope, place
        self.numbers = checked(Input, numbers, place)
        self._network: Any = None  # on the meta device
        # input -> memory of the network, its outputs
        self._known: dict[tuple[int, int], tuple[int, int]] = {}

    def __call__(self, results: dict) -> dict:
        image = results['left'] if 'left' in results else results['img']
        self.require(*image.shape[:2])
        return results

    def require(self, height: int, width: int) -> None:
        """Check an image of this size.

        Raises:
            HubError: its prediction takes too much, or the network cannot run. The message names
                the largest part.
        """
        limit = limit_bytes()
        if limit == math.inf:
            return
        for exact in (False, True):
            shares = self._peak(height, width, limit, exact)
            total = _sum(shares)
            if total <= limit:
                return
        largest = max(shares, key=lambda share: share.bytes)
        raise HubError(
            f'{self.place}: {largest.field}: expected a prediction of an image of {width} x'
            f' {height} in at most {limit / 2**30:g} GiB of memory, got {largest.value}, with which'
            f' it takes about {total / 2**30:.1f} GiB. Use a smaller image, or set {LIMIT_VARIABLE}'
            ' to more GiB.'
        )

    def estimate(self, height: int, width: int) -> int:
        """Return the memory of a prediction of an image of this size, in bytes."""
        return _sum(self._peak(height, width))

    def _peak(
        self, height: int, width: int, limit: float = math.inf, exact: bool = True
    ) -> list[Share]:
        """Return the parts of the memory at its peak, without those that the network adds to more
        than the limit.

        Args:
            exact: see `_memory`.
        """
        shares, size = self._resized(height, width)
        if _sum(shares) > limit:
            return shares
        window = self._window(size)
        network, outputs = self._memory(window, exact)
        running = [self._running(network, window)]
        predicted: list[Share] = []
        if self.scope == 'mmseg':
            predicted = [self._label_maps(size, (height, width))]
        if self.scope == 'mmdet':
            predicted = list(self._instances(outputs, height, width))
        return shares + max(running, predicted, key=_sum)

    def _resized(self, height: int, width: int) -> tuple[list[Share], tuple[int, int]]:
        """Return the memory of the image until it is the input of the model, and the size of
        that.
        """
        images = 2 if self._task.pairs else 1
        size = height, width
        shares = []
        for name, size in input_sizes(self.numbers, height, width, self.scope):
            pixels = images * 3 * size[0] * size[1]
            shares.append(Share(f'input.{name}', arguments(getattr(self.numbers, name)), pixels))
        largest = max(shares, key=lambda share: share.bytes)
        # as floats, and normalised
        shares.append(Share(largest.field, largest.value, 2 * _FLOAT * pixels))
        return shares, size

    def _running(self, network: int, size: tuple[int, int]) -> Share:
        if 'max_disp' in self.model:
            return Share('model.max_disp', self.model['max_disp'], network)
        return Share(
            'model', f'{self.model["type"]} with an input of {size[1]} x {size[0]}', network
        )

    @property
    def _task(self) -> Task:
        task = find_task(self.scope)
        assert task is not None, self.scope
        return task

    def _window(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return the size of the network's input: of the image, or of a window of it."""
        sliding = windows(self.model)
        if sliding is None:
            return size
        crop, stride = sliding
        count = 1
        for length, side, step in zip(size, crop, stride):
            count *= max(length - side + step - 1, 0) // step + 1
        if count > MAX_WINDOWS:
            raise HubError(
                f'{self.place}: model.test_cfg.stride: expected at most {MAX_WINDOWS} windows in an'
                f' input of {size[1]} x {size[0]}, got {stride} and {count} windows. Use a smaller'
                ' image.'
            )
        return min(size[0], crop[0]), min(size[1], crop[1])

    def _memory(self, size: tuple[int, int], exact: bool) -> tuple[int, int]:
        """Return the memory of the network for an input of this size, and of its largest output.

        Args:
            exact: False for that of a larger input if it is known. A folder of images of many sizes
                takes few runs.
        """
        if not exact:
            for known, memory in self._known.items():
                if known[0] >= size[0] and known[1] >= size[1]:
                    return memory
        if size not in self._known:
            try:
                with quiet_libraries():
                    self._known[size] = self._run(size)
            except Exception as error:  # of several libraries, for wrong arguments
                raise HubError(
                    f'{self.place}: model: cannot run with an input of {size[1]} x {size[0]}: '
                    f'{error_text(error)[:300]}. Publish the model again.'
                ) from error
        return self._known[size]

    def _run(self, size: tuple[int, int]) -> tuple[int, int]:
        if self._network is None:
            self._network = build_on_meta(dict(self.model), self.scope)
        outputs: list[Any] = []
        image = torch.empty(1, 3, *size, device='meta')
        memory = planned_memory(
            lambda: outputs.append(self._task.forward_as_tested(self._network, image))
        )
        tensors = tree_leaves(outputs)
        sizes = [tensor.numel() * _FLOAT for tensor in tensors if isinstance(tensor, torch.Tensor)]
        return memory, max(sizes, default=0)

    def _label_maps(self, size: tuple[int, int], image: tuple[int, int]) -> Share:
        classes = self.model['decode_head'].get('num_classes', 1)
        # the sum, a window padded to it, and their quotient
        maps = 1 if windows(self.model) is None else 3
        logits = classes * _FLOAT * (maps * size[0] * size[1] + image[0] * image[1])
        labels = _INTEGER * image[0] * image[1]
        return Share('model.decode_head.num_classes', classes, logits + labels)

    def _instances(self, outputs: int, height: int, width: int) -> Iterator[Share]:
        test = self.model.get('test_cfg') or {}
        # Scores above the threshold are copied with their index, label and box.
        yield Share('model.test_cfg.score_thr', test.get('score_thr'), 6 * outputs)
        regions = (test.get('rpn') or {}).get('max_per_img', 0)
        final = test.get('rcnn') or {}
        classes = max(
            (head.get('num_classes', 1) for head in heads(self.model, 'bbox_head')), default=1
        )
        yield Share('model.test_cfg.rpn.max_per_img', regions, regions * classes * 64)
        if next(heads(self.model, 'mask_head'), None) is not None:
            masks = final.get('max_per_img', 100)
            # All masks as pixels, and once more where they are stored or drawn.
            yield Share('model.test_cfg.rcnn.max_per_img', masks, 2 * masks * height * width)


def input_sizes(
    numbers: Input, height: int, width: int, scope: str
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield (height, width) of an image after each part of `Input` that changes it, with the name
    of the part.
    """
    if numbers.resize is not None:
        wide, high = sides(numbers.resize.scale)
        if numbers.resize.keep_ratio:
            factor = min(max(wide, high) / max(height, width), min(wide, high) / min(height, width))
            height, width = int(height * factor + 0.5), int(width * factor + 0.5)
        else:
            height, width = high, wide
        yield 'resize', (height, width)
    if numbers.resize_edge is not None:
        scale, edge = numbers.resize_edge.scale, numbers.resize_edge.edge or 'short'
        by_width = (
            edge == 'width'
            or edge == 'short'
            and width < height
            or edge == 'long'
            and width > height
        )
        if by_width:
            height, width = int(scale * height / width), scale
        else:
            height, width = scale, int(scale * width / height)
        yield 'resize_edge', (height, width)
    if numbers.crop is not None:
        wide, high = sides(numbers.crop.crop_size)
        height, width = min(height, high), min(width, wide)
        yield 'crop', (height, width)
    if numbers.multiple is not None:
        divisor = numbers.multiple.size_divisor
        height, width = _multiple(height, divisor), _multiple(width, divisor)
        yield 'multiple', (height, width)
    preprocessor = numbers.preprocessor
    default = 16 if scope == SCOPE else 1  # of stereo and of the other data preprocessors
    divisor = preprocessor.pad_size_divisor or preprocessor.pad_divisor or default
    yield 'preprocessor', (_multiple(height, divisor), _multiple(width, divisor))


def windows(
    model: Mapping[str, Any], where: str = 'model'
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return crop_size and stride, (height, width) each, of a segmentor that slides over an image,
    else None.

    Raises:
        HubError: they are not two integers each.
    """
    test = model.get('test_cfg')
    if not isinstance(test, Mapping) or test.get('mode') != 'slide':
        return None
    for name in ('crop_size', 'stride'):
        value = test.get(name)
        if (
            not isinstance(value, (list, tuple))
            or len(value) != 2
            or not all(type(side) is int for side in value)
        ):
            raise HubError(
                f'{where}.test_cfg.{name}: expected two integers, got {str(value)[:80]}. Publish'
                ' the model again.'
            )
    return tuple(test['crop_size']), tuple(test['stride'])


def sides(value: Any) -> tuple[int, int]:
    """Return two sides; one is the length of both."""
    return (value, value) if isinstance(value, int) else tuple(value)


def heads(model: Mapping[str, Any], argument: str) -> Iterator[Mapping[str, Any]]:
    """Yield the heads that an argument of a detector or of its `roi_head` holds, one or a list."""
    for part in (model, model.get('roi_head') or {}):
        value = part.get(argument)
        yield from value if isinstance(value, (list, tuple)) else [value] if value else []


def _sum(shares: list[Share]) -> int:
    return sum(share.bytes for share in shares)


def _multiple(length: int, divisor: int) -> int:
    return -(-length // divisor) * divisor
