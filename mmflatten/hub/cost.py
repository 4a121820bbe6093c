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
from mmflatten.engine.image_input import preprocessor_of
from mmflatten.measure.flops.meta import build_on_meta
from mmflatten.measure.meta_memory import planned_memory
from mmflatten.ops.sizes import ceil_div
from mmflatten.registry import SCOPE, TRANSFORMS
from mmflatten.tasks import Task, find_task
from mmflatten.untrusted.published import HubError, Input, Resize, ResizeEdge, arguments, checked

LIMIT_GIB = 8  # default of the memory of one prediction
LIMIT_VARIABLE = 'MMFLATTEN_PREDICTION_GIB'  # replaces it
FLOAT = 4  # bytes


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
        task = find_task(scope, model)
        if task is None:
            raise ValueError(f'scope: expected that of a task, got {scope}.')
        self.model, self.task, self.place = model, task, place
        self._part = task.part('hub') if task.offers('hub') else None
        self.numbers = checked(Input, numbers, place)
        bands = self.numbers.bands
        # An input without a number of bands has that of the model.
        self._channels = 3 if bands is None else bands.number or _bands_of(self.model)
        self._pixel = self._channels  # bytes of a pixel that is loaded
        if bands is not None:
            self._pixel *= FLOAT
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
        window = size
        if self._part is not None:
            window = self._part.network_size(self.model, size, f'{self.place}: model')
        network, outputs = self._memory(window, exact)
        running, predicted = [self._running(network, window)], []
        if self._part is not None:
            predicted = self._part.prediction_shares(self.model, size, (height, width), outputs)
        return shares + max(running, predicted, key=_sum)

    def _resized(self, height: int, width: int) -> tuple[list[Share], tuple[int, int]]:
        """Return the memory of the image until it is the input of the model, and the size of
        that.
        """
        images = 2 if self.task.pairs else 1
        size = height, width
        shares = []
        for name, size in input_sizes(self.numbers, height, width, self.task.scope):
            pixels = images * size[0] * size[1]
            field, value = f'input.{name}', arguments(getattr(self.numbers, name))
            shares.append(Share(field, value, self._pixel * pixels))
        largest = max(shares, key=lambda share: share.bytes)
        # as floats, and normalised
        values = self._channels * pixels
        shares.append(Share(largest.field, largest.value, 2 * FLOAT * values))
        return shares, size

    def _running(self, network: int, size: tuple[int, int]) -> Share:
        if 'max_disp' in self.model:
            return Share('model.max_disp', self.model['max_disp'], network)
        return Share(
            'model', f'{self.model["type"]} with an input of {size[1]} x {size[0]}', network
        )

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
            model = dict(self.model)
            if self.task.pairs:  # whose number of norms must be that of the bands
                model['data_preprocessor'] = preprocessor_of(self.numbers, self.task.scope)
            self._network = build_on_meta(model, self.task.scope)
        outputs: list[Any] = []
        image = torch.empty(1, self._channels, *size, device='meta')
        memory = planned_memory(
            lambda: outputs.append(self.task.forward_as_tested(self._network, image))
        )
        tensors = tree_leaves(outputs)
        sizes = [tensor.numel() * FLOAT for tensor in tensors if isinstance(tensor, torch.Tensor)]
        return memory, max(sizes, default=0)


def _bands_of(model: Mapping[str, Any]) -> int:
    """Return the bands that a config's backbone takes, or its model without a backbone."""
    bands = (model.get('backbone') or model).get('in_channels', 3)
    return bands if isinstance(bands, int) and bands > 0 else 3


def input_sizes(
    numbers: Input, height: int, width: int, scope: str
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield (height, width) of an image after each part of `Input` that changes it, with the name
    of the part.
    """
    size = height, width
    if numbers.resize is not None:
        size = _resized(numbers.resize, *size)
        yield 'resize', size
    if numbers.resize_edge is not None:
        size = _resized_edge(numbers.resize_edge, *size)
        yield 'resize_edge', size
    height, width = size
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
    if preprocessor.test_cfg is not None:
        divisor = preprocessor.test_cfg.size_divisor or divisor
    yield 'preprocessor', (_multiple(height, divisor), _multiple(width, divisor))


def _resized(resize: Resize, height: int, width: int) -> tuple[int, int]:
    wide, high = sides(resize.scale)
    if not resize.keep_ratio:
        return high, wide
    # Rounds as mmcv's `rescale_size` does.
    factor = min(max(wide, high) / max(height, width), min(wide, high) / min(height, width))
    return int(height * factor + 0.5), int(width * factor + 0.5)


def _resized_edge(resize: ResizeEdge, height: int, width: int) -> tuple[int, int]:
    edge = resize.edge or 'short'
    if edge == 'short':
        by_width = width < height
    elif edge == 'long':
        by_width = width > height
    else:
        by_width = edge == 'width'
    if by_width:
        return int(resize.scale * height / width), resize.scale
    return resize.scale, int(resize.scale * width / height)


def sides(value: Any) -> tuple[int, int]:
    """Return two sides; one is the length of both."""
    return (value, value) if isinstance(value, int) else tuple(value)


def _sum(shares: list[Share]) -> int:
    return sum(share.bytes for share in shares)


def _multiple(length: int, divisor: int) -> int:
    return ceil_div(length, divisor) * divisor
