"""Random cases for every operator, to be run with `mmcv._ext` compiled and in PyTorch, and their
comparison.

A case is made by its number alone, so results of the compiled extension can be stored and compared
on another machine.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

CPU, CUDA = 'compiled for the CPU', "the CUDA kernel's source, run on the CPU"
Extension = Any  # a module with the functions of `mmcv._ext`
Run = Callable[[Extension], list[Tensor]]


class Operator(NamedTuple):
    """How to make a case, how many of the cases there are, and what the results are compared
    with.
    """

    make: Callable[[Draw], Run]
    cases: int
    reference: str
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.float64)


class Case(NamedTuple):
    """One call with random arguments; `run(extension)` returns its results and gradients."""

    name: str
    dtype: torch.dtype
    reference: str
    run: Run


class Draw:
    """Random arguments. NumPy's RandomState gives the same numbers in every version."""

    def __init__(self, seed: int, dtype: torch.dtype) -> None:
        self.random = np.random.RandomState(seed)
        # Numbers are rounded to `dtype` and returned in the type `after`.
        self.dtype = dtype
        self.after = dtype

    def one_of(self, *options: Any) -> Any:
        return options[self.random.randint(len(options))]

    def integer(self, low: int, high: int) -> int:
        return int(self.random.randint(low, high + 1))

    def uniform(self, *shape: int, low: float = 0, high: float = 1) -> Tensor:
        return self._tensor(self.random.uniform(low, high, shape))

    def normal(self, *shape: int) -> Tensor:
        return self._tensor(self.random.standard_normal(shape))

    def threshold(self) -> float:
        """A threshold, often in tenths, which overlaps of boxes of whole pixels hit exactly."""
        return self.one_of(float(self.random.uniform(0.1, 0.9)), self.integer(1, 9) / 10)

    def integers(self, high: int, *shape: int) -> Tensor:
        return torch.from_numpy(self.random.randint(0, high, shape))

    def scores(self, number: int) -> Tensor:
        """Different scores in a random order, since equal ones have no defined order in mmcv."""
        places = self.random.permutation(number) + self.random.uniform(0.1, 0.9, number)
        return self._tensor(places / max(1, number))

    def boxes(self, number: int, side: float, ordered: bool = True) -> Tensor:
        """Boxes that reach over the image of `side`, some without width or height, some the wrong
        way round.
        """
        corners = self.uniform(number, 4, low=-0.3 * side, high=1.3 * side)
        if ordered:
            first, second = corners.split(2, dim=1)
            corners = torch.cat((torch.minimum(first, second), torch.maximum(first, second)), 1)
        flat = torch.from_numpy(self.random.random_sample(number) < 0.1)
        corners[flat, 2] = corners[flat, 0]
        return corners

    def rois(self, images: int, side: float, ordered: bool = True) -> Tensor:
        number = self.integer(0, 6)
        image = self.integers(images, number, 1).to(self.after)
        return torch.cat((image, self.boxes(number, side, ordered)), 1)

    def image(self, largest: int) -> Tensor:
        """One or two maps of up to 3 channels, with sides from 4 to `largest`."""
        batch, channels = self.integer(1, 2), self.integer(1, 3)
        height, width = self.integer(4, largest), self.integer(4, largest)
        return self.normal(batch, channels, height, width)

    def _tensor(self, numbers: np.ndarray) -> Tensor:
        return torch.from_numpy(np.asarray(numbers)).to(self.dtype).to(self.after)


def nms(draw: Draw) -> Run:
    number = draw.integer(0, 60)
    boxes = draw.boxes(number, 20)
    scores = draw.scores(number)
    threshold = draw.threshold()
    offset = draw.integer(0, 1)
    boxes = draw.one_of(boxes, boxes.round())
    return lambda ext: [ext.nms(boxes, scores, iou_threshold=threshold, offset=offset)]


def softnms(draw: Draw) -> Run:
    number = draw.integer(0, 40)
    method = draw.integer(0, 2)
    offset = draw.integer(0, 1)
    boxes = draw.boxes(number, 20)
    scores = draw.scores(number)
    boxes[:, 2:] += 0.5  # mmcv's gives NaN to overlaps of boxes without area
    threshold = draw.threshold()
    sigma, smallest = draw.random.uniform([0.2, 0.001], [0.9, 0.1])

    def run(ext: Extension) -> list[Tensor]:
        dets = boxes.new_zeros(number, 5)
        indices = ext.softnms(
            boxes,
            scores,
            dets,
            iou_threshold=threshold,
            sigma=sigma,
            min_score=smallest,
            method=method,
            offset=offset,
        )
        return [indices, dets[: len(indices)]]

    return run


def nms_match(draw: Draw) -> Run:
    number = draw.integer(1, 40)
    threshold = draw.threshold()
    boxes = draw.boxes(number, 20)
    dets = torch.cat((draw.one_of(boxes, boxes.round()), draw.scores(number)[:, None]), 1)

    def run(ext: Extension) -> list[Tensor]:
        groups = ext.nms_match(dets, threshold)
        indices = torch.tensor(list(chain.from_iterable(groups)))
        return [indices, torch.tensor([len(group) for group in groups])]

    return run


def bbox_overlaps(draw: Draw) -> Run:
    first = draw.integer(1, 12)
    second = draw.integer(1, 12)
    aligned = draw.one_of(True, False)
    if aligned:
        second = first
    boxes1 = draw.boxes(first, 10) + 0.01
    boxes2 = draw.boxes(second, 10)
    boxes1[:, 2:] += 0.5
    mode = draw.integer(0, 1)
    offset = draw.integer(0, 1)

    def run(ext: Extension) -> list[Tensor]:
        ious = boxes1.new_zeros((first,) if aligned else (first, second))
        ext.bbox_overlaps(boxes1, boxes2, ious, mode=mode, aligned=aligned, offset=offset)
        return [ious]

    return run


def roi_align(draw: Draw) -> Run:
    image = draw.image(12)
    scale = draw.one_of(1.0, 0.5, 0.25)
    aligned = draw.one_of(True, False)
    mode = draw.integer(0, 1)
    rois = draw.rois(len(image), 12 / scale, ordered=aligned)
    if mode == 0 and aligned:  # mmcv's gives -10000 for regions without area
        rois[:, 3:] += 0.5 / scale
    height, width = draw.integer(1, 4), draw.integer(1, 4)
    options = dict(
        aligned_height=height,
        aligned_width=width,
        spatial_scale=scale,
        sampling_ratio=draw.integer(0, 3),
        pool_mode=mode,
        aligned=aligned,
    )
    shape = len(rois), image.shape[1], height, width
    gradient = draw.normal(*shape)

    def run(ext: Extension) -> list[Tensor]:
        output, grad_input = image.new_zeros(shape), torch.zeros_like(image)
        y, x = (image.new_zeros(shape if mode == 0 else 0) for _ in range(2))
        ext.roi_align_forward(image, rois, output, y, x, **options)
        ext.roi_align_backward(gradient, rois, y, x, grad_input, **options)
        return [output, grad_input]

    return run


def roi_pool(draw: Draw) -> Run:
    image = draw.image(14)
    scale = draw.one_of(1.0, 0.5, 0.25)
    rois = draw.rois(len(image), 14 / scale)  # of the wrong way round: see roi_pool_forward
    height, width = draw.integer(1, 4), draw.integer(1, 4)
    options = dict(pooled_height=height, pooled_width=width, spatial_scale=scale)
    shape = len(rois), image.shape[1], height, width
    gradient = draw.normal(*shape)

    def run(ext: Extension) -> list[Tensor]:
        output, argmax = image.new_zeros(shape), torch.zeros(shape, dtype=torch.int)
        grad_input = torch.zeros_like(image)
        ext.roi_pool_forward(image, rois, output, argmax, **options)
        ext.roi_pool_backward(gradient, rois, argmax, grad_input, **options)
        return [output, argmax, grad_input]

    return run


def deform_roi_pool(draw: Draw) -> Run:
    image = draw.image(12)
    scale = draw.one_of(1.0, 0.5)
    rois = draw.rois(len(image), 12 / scale)
    height, width = draw.integer(1, 4), draw.integer(1, 4)
    offset = image.new_zeros(0)
    if draw.one_of(True, True, False):
        offset = draw.normal(len(rois), 2, height, width)
    options = dict(
        pooled_height=height,
        pooled_width=width,
        spatial_scale=scale,
        sampling_ratio=draw.integer(0, 3),
        gamma=draw.one_of(0.125, 0.5),
    )
    shape = len(rois), image.shape[1], height, width
    gradient = draw.normal(*shape)

    def run(ext: Extension) -> list[Tensor]:
        output = image.new_zeros(shape)
        grad_input, grad_offset = torch.zeros_like(image), torch.zeros_like(offset)
        ext.deform_roi_pool_forward(image, rois, offset, output, **options)
        ext.deform_roi_pool_backward(
            gradient, image, rois, offset, grad_input, grad_offset, **options
        )
        return [output, grad_input, grad_offset]

    return run


class _Convolution(NamedTuple):
    """Arguments of a deformable convolution."""

    input: Tensor
    weight: Tensor
    bias: Tensor
    offset: Tensor
    mask: Tensor
    gradient: Tensor
    sizes: dict[str, int]


def _convolution(draw: Draw, modulated: bool) -> _Convolution:
    groups = draw.integer(1, 2)
    offset_groups = draw.integer(1, 2)
    kernel, stride = _pair(draw, 1, 3), _pair(draw, 1, 2)
    padding, dilation = _pair(draw, 0, 2), _pair(draw, 1, 2)
    batch, channels = draw.integer(1, 2), 2 * draw.integer(1, 2)
    image = draw.normal(batch, channels, draw.integer(5, 9), draw.integer(5, 9))
    output = []
    for axis in range(2):
        free = image.shape[2 + axis] + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1
        output.append(free // stride[axis] + 1)
    weight = draw.normal(2 * draw.integer(1, 2), channels // groups, *kernel)
    taps = offset_groups * kernel[0] * kernel[1]
    # mmcv names the sizes of the two versions differently.
    names = 'kH kW dH dW padH padW dilationH dilationW'
    if modulated:
        names = 'kernel_h kernel_w stride_h stride_w pad_h pad_w dilation_h dilation_w'
    sizes = dict(zip(names.split(), (*kernel, *stride, *padding, *dilation), strict=True))
    offset = 2 * draw.normal(batch, 2 * taps, *output)
    # also whole pixels, for the border
    offset = draw.one_of(offset, offset.round(), torch.zeros_like(offset))
    mask = draw.uniform(batch, taps, *output)
    gradient = draw.normal(batch, len(weight), *output)
    return _Convolution(
        input=image,
        weight=weight,
        bias=draw.normal(len(weight)),
        offset=offset,
        mask=mask,
        gradient=gradient,
        sizes=dict(sizes, group=groups, deformable_group=offset_groups),
    )


def _pair(draw: Draw, low: int, high: int) -> tuple[int, int]:
    return draw.integer(low, high), draw.integer(low, high)


def deform_conv(draw: Draw) -> Run:
    conv = _convolution(draw, modulated=False)
    sizes = dict(conv.sizes, im2col_step=len(conv.input))

    def run(ext: Extension) -> list[Tensor]:
        columns, ones = conv.input.new_empty(0), conv.input.new_empty(0)
        output = torch.zeros_like(conv.gradient)
        parts = (conv.input, conv.offset, conv.weight)
        grad_input, grad_offset, grad_weight = (torch.zeros_like(part) for part in parts)
        ext.deform_conv_forward(
            conv.input, conv.weight, conv.offset, output, columns, ones, **sizes
        )
        ext.deform_conv_backward_input(
            conv.input,
            conv.offset,
            conv.gradient,
            grad_input,
            grad_offset,
            conv.weight,
            columns,
            **sizes,
        )
        ext.deform_conv_backward_parameters(
            conv.input, conv.offset, conv.gradient, grad_weight, columns, ones, scale=1, **sizes
        )
        return [output, grad_input, grad_offset, grad_weight]

    return run


def modulated_deform_conv(draw: Draw) -> Run:
    conv = _convolution(draw, modulated=True)
    with_bias = draw.one_of(True, False)
    bias = conv.bias if with_bias else conv.input.new_empty(0)

    def run(ext: Extension) -> list[Tensor]:
        ones, columns = conv.input.new_empty(0), conv.input.new_empty(0)
        output = torch.zeros_like(conv.gradient)
        parts = (conv.input, conv.weight, bias, conv.offset, conv.mask)
        gradients = [torch.zeros_like(part) for part in parts]
        ext.modulated_deform_conv_forward(
            conv.input,
            conv.weight,
            bias,
            ones,
            conv.offset,
            conv.mask,
            output,
            columns,
            with_bias=with_bias,
            **conv.sizes,
        )
        ext.modulated_deform_conv_backward(
            conv.input,
            conv.weight,
            bias,
            ones,
            conv.offset,
            conv.mask,
            columns,
            *gradients,
            conv.gradient,
            with_bias=with_bias,
            **conv.sizes,
        )
        return [output, *gradients]

    return run


def focal_loss(draw: Draw) -> Run:
    number = draw.integer(1, 12)
    classes = draw.integer(1, 8)
    kind = draw.one_of('sigmoid', 'softmax')
    logits = draw.normal(number, classes) * draw.one_of(1, 8, 60)
    target = draw.integers(classes, number)
    weight = draw.uniform(classes) if draw.one_of(True, False) else logits.new_empty(0)
    if kind == 'sigmoid' and not weight.numel():
        target[:1] = classes  # background
    options = dict(gamma=draw.one_of(2.0, 1.5, 1.0), alpha=draw.one_of(0.25, 0.5))
    input = logits if kind == 'sigmoid' else (logits / 8).softmax(1)

    def run(ext: Extension) -> list[Tensor]:
        output = logits.new_zeros(logits.shape if kind == 'sigmoid' else number)
        scratch = () if kind == 'sigmoid' else (logits.new_zeros(number),)
        grad_input = torch.zeros_like(logits)
        getattr(ext, f'{kind}_focal_loss_forward')(input, target, weight, output, **options)
        getattr(ext, f'{kind}_focal_loss_backward')(
            input, target, weight, *scratch, grad_input, **options
        )
        return [output, grad_input]

    return run


def ms_deform_attn(draw: Draw) -> Run:
    batch, heads, width, queries, points = (draw.integer(1, 3) for _ in range(5))
    # at sides of powers of two, so that no rounding moves them
    on_pixels = draw.one_of(True, False)
    sides = (1, 2, 4) if on_pixels else (1, 2, 3, 4, 5)
    shapes = [(draw.one_of(*sides), draw.one_of(*sides)) for _ in range(draw.integer(1, 3))]
    lengths = [height * side for height, side in shapes]
    value = draw.normal(batch, sum(lengths), heads, 2 * width)
    locations = draw.uniform(batch, queries, heads, len(shapes), points, 2, low=-0.3, high=1.3)
    if on_pixels:
        width_height = torch.tensor(shapes).flip(1)[:, None]
        locations = ((locations * width_height).round() + draw.one_of(-0.5, 0.5)) / width_height
        locations = locations.to(value.dtype)
    weights = draw.uniform(batch, queries, heads, len(shapes), points)
    levels = torch.tensor(shapes), torch.tensor([0, *np.cumsum(lengths)[:-1]])
    gradient = draw.normal(batch, queries, heads * 2 * width)

    def run(ext: Extension) -> list[Tensor]:
        gradients = [torch.zeros_like(part) for part in (value, locations, weights)]
        output = ext.ms_deform_attn_forward(value, *levels, locations, weights, im2col_step=batch)
        ext.ms_deform_attn_backward(
            value, *levels, locations, weights, gradient, *gradients, im2col_step=batch
        )
        return [output.view(gradient.shape), *gradients]

    return run


def carafe(draw: Draw) -> Run:
    groups = draw.integer(1, 2)
    scale = draw.integer(1, 3)
    kernel = draw.one_of(1, 3, 5)
    batch, channels = draw.integer(1, 2), 2 * draw.integer(1, 2)
    height, width = draw.integer(1, 6), draw.integer(1, 6)
    features = draw.normal(batch, channels, height, width)
    masks = draw.uniform(batch, groups * kernel * kernel, scale * height, scale * width)
    options = dict(kernel_size=kernel, group_size=groups, scale_factor=scale)
    gradient = draw.normal(batch, channels, scale * height, scale * width)

    def run(ext: Extension) -> list[Tensor]:
        output = torch.zeros_like(gradient)
        grad_input, grad_masks = torch.zeros_like(features), torch.zeros_like(masks)
        ext.carafe_naive_forward(features, masks, output, **options)
        ext.carafe_naive_backward(gradient, features, masks, grad_input, grad_masks, **options)
        return [output, grad_input, grad_masks]

    return run


def psa_mask(draw: Draw) -> Run:
    height, width, rows, columns = (draw.integer(1, 5) for _ in range(4))
    image = draw.normal(draw.integer(1, 2), rows * columns, height, width)
    options = dict(
        psa_type=draw.integer(0, 1),
        num_=len(image),
        h_feature=height,
        w_feature=width,
        h_mask=rows,
        w_mask=columns,
        half_h_mask=(rows - 1) // 2,
        half_w_mask=(columns - 1) // 2,
    )
    gradient = draw.normal(len(image), height * width, height, width)

    def run(ext: Extension) -> list[Tensor]:
        output, grad_input = torch.zeros_like(gradient), torch.zeros_like(image)
        ext.psamask_forward(image, output, **options)
        ext.psamask_backward(gradient, grad_input, **options)
        return [output, grad_input]

    return run


def masked_conv(draw: Draw) -> Run:
    kernel = draw.one_of((1, 1), (3, 3), (3, 5))
    padding = draw.integer(0, 2)
    image = draw.normal(1, draw.integer(1, 3), draw.integer(6, 9), draw.integer(6, 9))
    height, width = (image.shape[2 + axis] + 2 * padding - kernel[axis] + 1 for axis in range(2))
    sides = min(height, image.shape[2]), min(width, image.shape[3])
    chosen = torch.from_numpy(draw.random.random_sample(sides) < 0.4)
    chosen[0, 0] = True
    rows, columns = (place.contiguous() for place in chosen.nonzero().T)
    results = draw.normal(2, len(rows))

    def run(ext: Extension) -> list[Tensor]:
        patches = image.new_zeros(image.shape[1] * kernel[0] * kernel[1], len(rows))
        output = image.new_zeros(1, 2, height, width)
        ext.masked_im2col_forward(
            image,
            rows,
            columns,
            patches,
            kernel_h=kernel[0],
            kernel_w=kernel[1],
            pad_h=padding,
            pad_w=padding,
        )
        ext.masked_col2im_forward(
            results, rows, columns, output, height=height, width=width, channels=2
        )
        return [patches, output]

    return run


SINGLE = (torch.float32,)  # the precision that mmcv has on the CPU
OPERATORS = {
    'nms': Operator(nms, 120, CPU, SINGLE),
    'softnms': Operator(softnms, 90, CPU, SINGLE),
    'nms_match': Operator(nms_match, 60, CPU, SINGLE),
    'bbox_overlaps': Operator(bbox_overlaps, 60, CPU),
    'roi_align': Operator(roi_align, 160, CPU),
    'deform_conv': Operator(deform_conv, 80, CPU),
    'modulated_deform_conv': Operator(modulated_deform_conv, 80, CPU),
    'psa_mask': Operator(psa_mask, 50, CPU),
    'roi_pool': Operator(roi_pool, 70, CUDA),
    'deform_roi_pool': Operator(deform_roi_pool, 70, CUDA),
    'focal_loss': Operator(focal_loss, 60, CUDA),
    'ms_deform_attn': Operator(ms_deform_attn, 40, CUDA),
    'carafe': Operator(carafe, 40, CUDA),
    'masked_conv': Operator(masked_conv, 20, CUDA),
}


def all_cases() -> list[Case]:
    """Return the 1,000 cases, the same in every call."""
    cases = []
    for place, (name, operator) in enumerate(OPERATORS.items()):
        for number in range(operator.cases):
            dtype = operator.dtypes[number % len(operator.dtypes)]
            run = operator.make(Draw(10_000 * place + number, dtype))
            cases.append(Case(f'{name}-{number}', dtype, operator.reference, run))
    return cases


def sampled(result: Tensor, most: int = 24) -> np.ndarray:
    """Return the shape of a result and up to `most` of its elements, spread evenly, in one
    array.
    """
    flat = result.detach().flatten().double().numpy()
    chosen = np.linspace(0, len(flat) - 1, min(most, len(flat))).round().astype(int)
    return np.concatenate((np.array(result.shape, float), flat[chosen]))


def difference(result: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference, in units of the largest expected value or 1; infinite for
    other shapes or NaN.
    """
    if result.shape != expected.shape:
        return float('inf')
    if not result.size:
        return 0.0
    largest = np.abs(result.astype(float) - expected.astype(float)).max()
    relative = largest / max(1, np.abs(expected).max())
    return float('inf') if np.isnan(relative) else float(relative)
