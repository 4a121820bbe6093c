"""Models of every task with plain tensors in and out, the form in which they are exported."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.building import takes_rgb
from mmflatten.measure.flops.inputs import library_of
from mmflatten.models.layers import pad_to_multiple
from mmflatten.models.stereo.padding import crop_top_right, pad_top_right
from mmflatten.ops.sizes import ceil_div


class ExportError(ValueError):
    """A model that cannot be exported in the way asked for."""


class ExportedModel(nn.Module):
    """What a graph computes: raw RGB images `(1, 3, H, W)`, float32 from 0 to 255, to a tuple of tensors.

    Normalisation and padding are part of the graph.

    Attributes:
        task: of the metadata.
        inputs: names of the inputs.
        outputs: names of the results.
        stride: that of the coarsest map.
    """

    task = 'features'
    inputs: tuple[str, ...] = ('image',)
    outputs: tuple[str, ...]

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        preprocessor = model.data_preprocessor
        self.flip = not takes_rgb(preprocessor)  # the network sees BGR
        normalises = getattr(preprocessor, '_enable_normalize', hasattr(preprocessor, 'mean'))
        for name, other in (('mean', 0.), ('std', 1.)):
            value = getattr(preprocessor, name).detach().clone() if normalises else torch.full((3, 1, 1), other)
            self.register_buffer(name, value, persistent=False)
        self.divisor = max(getattr(preprocessor, 'pad_size_divisor', 1) or 1, 1)
        strides = getattr(getattr(model, 'backbone', None), 'out_strides', (32,))
        self.stride = max(strides)

    def normalise(self, image: Tensor) -> Tensor:
        return ((image.flip(1) if self.flip else image) - self.mean) / self.std

    def prepare(self, image: Tensor) -> Tensor:
        """What the data preprocessor makes of an image; zeros are added at the right and the bottom."""
        return pad_to_multiple(self.normalise(image), (self.divisor, self.divisor))


class Features(ExportedModel):
    """The maps of the backbone, or of the neck where there is one: `(1, C_i, H_i, W_i)` each."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        neck, backbone = getattr(model, 'neck', None), model.backbone
        number = getattr(neck, 'num_outs', None) or len(backbone.out_indices)
        self.outputs = tuple(f'map{level}' for level in range(number))
        self.stride *= 2 ** max(0, number - len(backbone.out_indices))  # of the maps that the neck adds

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.model.extract_feat(self.prepare(image)))


class Backbone(ExportedModel):
    """The maps of the backbone, of an image as the data preprocessor hands it on: `(1, C_i, H_i, W_i)` each."""

    task = 'backbone'

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.outputs = tuple(f'map{level}' for level in range(len(model.backbone.out_indices)))

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.model.backbone(image))


class Classifier(ExportedModel):
    """Probabilities of the classes, `(1, classes)`."""

    task, outputs = 'classification', ('probabilities',)

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        logits = self.model(self.prepare(image), mode='tensor')
        return (logits.softmax(-1),)


class _Enlarge(nn.Module):
    """mmseg's `Upsample` by a whole number; its own takes `int()` of the size, which would then not stay open."""

    def __init__(self, original: nn.Module) -> None:
        super().__init__()
        self.factor = int(original.scale_factor)
        self.options = dict(mode=original.mode, align_corners=original.align_corners)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return F.interpolate(x_BCHW, [side * self.factor for side in x_BCHW.shape[-2:]], **self.options)


class Segmentor(ExportedModel):
    """Logits of the classes at the size of the image, `(1, classes, H, W)`; of the whole image, never slid over it."""

    task, outputs = 'segmentation', ('logits',)

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        from mmseg.models.utils import Upsample
        for parent in list(model.modules()):
            for name, child in parent.named_children():
                if isinstance(child, Upsample) and not child.size and float(child.scale_factor).is_integer():
                    setattr(parent, name, _Enlarge(child))

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        x, head = self.prepare(image), self.model.decode_head
        logits = head(self.model.extract_feat(x))
        logits = F.interpolate(logits, size=x.shape[-2:], mode='bilinear', align_corners=head.align_corners)
        return (logits[:, :, :image.shape[2], :image.shape[3]] if self.divisor > 1 else logits,)


class Stereo(ExportedModel):
    """Disparities of the left image in pixels, `(1, H, W)`, from two images."""

    task, inputs, outputs = 'stereo', ('left', 'right'), ('disparity',)

    def forward(self, left: Tensor, right: Tensor) -> tuple[Tensor, ...]:
        size, divisor = left.shape[-2:], self.model.data_preprocessor.pad_divisor
        padded = (ceil_div(size[0], divisor) * divisor, ceil_div(size[1], divisor) * divisor)
        left, right = (pad_top_right(self.normalise(image), padded) for image in (left, right))
        return (crop_top_right(self.model(dict(left=left, right=right), mode='tensor'), size),)


class Detector(ExportedModel):
    """Every anchor of a one-stage detector, decoded; `detection.select_boxes` keeps the best of them.

    `boxes` `(A, 4)`, x1 y1 x2 y2 in pixels of the image; `scores` `(A, classes)`; `factors` `(A,)`, which the scores of
    the kept ones are multiplied by (ATSS's centreness; ones in RetinaNet); `levels` `(A,)`, the map of each.
    """

    task, outputs = 'detection', ('boxes', 'scores', 'factors', 'levels')

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.stride = max(max(stride) for stride in model.bbox_head.prior_generator.strides)

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        head = self.model.bbox_head
        scores, deltas, *factors = head(self.model.extract_feat(self.prepare(image)))
        priors = head.prior_generator.grid_priors([level.shape[-2:] for level in scores], device=image.device)
        boxes = [head.bbox_coder.decode(prior, _rows(delta, 4)) for prior, delta in zip(priors, deltas)]
        scores = [_rows(level, head.cls_out_channels) for level in scores]
        scores = [level.sigmoid() if head.use_sigmoid_cls else level.softmax(-1)[:, :-1] for level in scores]
        factors = [_rows(level, 1)[:, 0].sigmoid() for level in factors[0]] if factors else [
            torch.ones_like(level[:, 0]) for level in scores]
        levels = [torch.full_like(level, number, dtype=torch.long) for number, level in enumerate(factors)]
        H, W = (torch.scalar_tensor(side, dtype=image.dtype) for side in image.shape[-2:])
        inside = torch.minimum(torch.cat(boxes).clamp(min=0), torch.stack((W, H, W, H)))
        return inside, torch.cat(scores), torch.cat(factors), torch.cat(levels)


def _rows(x_1CHW: Tensor, channels: int) -> Tensor:
    """`(1, A * channels, H, W) -> (H * W * A, channels)`, in the order of the anchors."""
    return x_1CHW[0].permute(1, 2, 0).reshape(-1, channels)


TASKS = {'mmpretrain': Classifier, 'mmseg': Segmentor, 'mmflatten': Stereo}


def wrap(model: nn.Module, features: bool = False) -> ExportedModel:
    """The model as it is exported.

    Raises:
        ExportError: a two-stage or another detector whose boxes cannot be exported.
    """
    if features:
        if not hasattr(model, 'backbone'):
            raise ExportError(f'{type(model).__name__} has no backbone, so --features has nothing to export')
        return Features(model)
    library = library_of(model)
    if library == 'mmdet':
        return _detector(model)
    if library not in TASKS:
        raise ExportError(f'{type(model).__name__} is no classifier, segmentor, detector or stereo model')
    return TASKS[library](model)


def _detector(model: nn.Module) -> Detector:
    from mmdet.models.dense_heads import AnchorHead
    if getattr(model, 'with_roi_head', False):
        raise ExportError(f'{type(model).__name__} has two stages: the second works on as many regions as the first '
                          'finds, in operators of mmcv that no format has. --features exports backbone and neck; '
                          'RetinaNet and ATSS can be exported whole')
    head = getattr(model, 'bbox_head', None)
    if not isinstance(head, AnchorHead) or head.bbox_coder.encode_size != 4 or hasattr(model, 'mask_head'):
        raise ExportError(f'the boxes of {type(model).__name__} with {type(head).__name__} cannot be exported, only '
                          'those of RetinaNet and ATSS; --features exports backbone and neck')
    return Detector(model)
