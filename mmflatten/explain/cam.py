"""Class activation of a trained model on a picture of one's own."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mmflatten.building import pixels_of
from mmflatten.explain.cam_targets import Target, TargetModel
from mmflatten.explain.layer_maps import LayerMap, find_layer, input_gradients, stages
from mmflatten.models.backbones.pyramid import ClassTokenStage
from mmflatten.predict.predictor import Image, Predictor

# Names of the command line, and classes of the grad-cam package: those that take one forward and one backward pass.
METHODS = {'gradcam': 'GradCAM', 'gradcam++': 'GradCAMPlusPlus', 'hirescam': 'HiResCAM', 'layercam': 'LayerCAM',
           'xgradcam': 'XGradCAM', 'eigencam': 'EigenCAM', 'eigengradcam': 'EigenGradCAM'}


@dataclass(frozen=True)
class Activation:
    """Where a picture speaks for a class.

    Attributes:
        heat: `(H, W)` on the picture, from 0 to 1 at its hottest; None for a box whose score does not depend on the
            layer, as those of a feature pyramid's coarsest maps depend on the last stage alone.
        label, name: the class.
        score: as in the prediction; of a region its mean probability.
        box: x1 y1 x2 y2 in pixels of the picture, for detectors.
        image_box: the same in pixels of the image file.
        layer, method: what it was computed from and how.
    """

    heat: np.ndarray | None
    label: int
    name: str
    score: float
    box: tuple[float, ...] | None
    image_box: tuple[float, ...] | None
    layer: str
    method: str


def cam(predictor: Predictor, image: Image, classes: Sequence[str | int] = (), layer: str | int | None = None,
        method: str | None = None, score: float = .3, top: int = 5) -> tuple[np.ndarray, list[Activation]]:
    """Class activation maps of an image, by the grad-cam package.

    Args:
        classes: names or numbers; none for the predicted ones.
        layer: a stage or a module, as in `find_layer`; None for `default_layer`, and for boxes whose score does not
            depend on that the last stage that it depends on.
        method: one of `METHODS`; None for `DEFAULT_METHODS`.
        score: boxes below it are left out.
        top: how many boxes, the surest first.

    Returns:
        The picture as the network sees it, RGB `(H, W, 3)`, 0 to 255; and an activation for each class, box or region,
        none where nothing of the kind is predicted.

    Raises:
        PredictionError: the image cannot be read or used.
        ImportError: grad-cam is not installed.
        ValueError: the task is stereo; there is no such class, layer or method; the layer has no map, runs several
            times, or no prediction of any picture depends on it.
    """
    options = (_labels(predictor, classes), _method(predictor, method), score, top)
    picture, found = _activations(predictor, image, default_layer(predictor) if layer is None else layer, *options)
    for stage in reversed(used_stages(predictor) if layer is None else ()):
        if any(each.heat is None for each in found):
            _, others = _activations(predictor, image, _output(predictor, stage), *options)
            found = [other if each.heat is None else each for each, other in zip(found, others)]
    return picture, found


def _activations(predictor: Predictor, image: Image, layer: str | int, labels: Sequence[int], method: str, score: float,
                 top: int) -> tuple[np.ndarray, list[Activation]]:
    name, module = find_layer(predictor.model, layer)
    prepared = predictor.prepare(image)
    inputs, meta = prepared['inputs'], prepared['data_samples'][0].metainfo
    model = TargetModel(predictor, prepared['data_samples'], labels, score)
    image_input = inputs.detach().clone().requires_grad_()
    with torch.enable_grad(), input_gradients(predictor.model), LayerMap(predictor.model, module) as watched:
        targets = model(image_input)[0]
        targets = targets[:top] if predictor.spec.has_instances else targets
        reached = _reached(targets, watched, name) if targets else []
        heats = [_heat(METHODS[method], model, module, watched, image_input, i) if depends else None
                 for i, depends in enumerate(reached)]
    scale = meta.get('scale_factor')
    found = [Activation(heat, target.label, predictor.classes[target.label], target.score, target.box,
                        target.box and tuple(side / scale[i % 2] for i, side in enumerate(target.box)), name, method)
             for heat, target in zip(heats, targets)]
    return pixels_of(inputs[0], predictor.model.data_preprocessor), found


def default_layer(predictor: Predictor) -> str:
    """What is looked at where no layer is named.

    It is the output norm of the last stage for a classifier, and of the last but one of those that a detector or
    segmentor reads, or that stage's last block where it has no norm. Behind a classifier's output norm stand only mean
    and linear layer, so there Grad-CAM shows what each place adds to the logit. Where the class token alone counts, it
    is the norm before the last attention.
    """
    used = used_stages(predictor)
    return _output(predictor, used[max(-len(used), predictor.spec.part('explain').STAGE)])


def _output(predictor: Predictor, number: int) -> str:
    model, backbone = predictor.model, predictor.model.backbone
    block, _ = find_layer(model, number)
    token_stage = block.startswith('backbone.stages') and isinstance(backbone.stages[-1], ClassTokenStage)
    if token_stage or getattr(backbone, 'out_type', None) == 'cls_token':
        return f'{block}.attn.norm'
    stage = block.partition('.blocks.')[0]
    modules = dict(model.named_modules())
    for norm in (f'backbone.norms.{stages(model).index(block)}', f'{stage}.norm'):
        if not isinstance(modules.get(norm, nn.Identity()), nn.Identity):
            return norm
    return block


def used_stages(predictor: Predictor) -> tuple[int, ...]:
    """Numbers of the backbone's stages that the rest of the model reads."""
    return tuple(getattr(predictor.model.backbone, 'out_indices', (-1,)))


def _method(predictor: Predictor, method: str | None) -> str:
    if not predictor.spec.offers('explain'):
        raise ValueError(f'class activation maps: not available for {predictor.spec.name}, got '
                         f'{type(predictor.model).__name__}.')
    method = method or predictor.spec.part('explain').METHOD
    if method not in METHODS:
        raise ValueError(f'method ({method}) must be one of {", ".join(METHODS)}')
    return method


def _labels(predictor: Predictor, classes: Sequence[str | int]) -> list[int]:
    names = predictor.classes
    labels = []
    for each in classes:
        number = names.index(each) if each in names else int(each) if str(each).isdecimal() else -1
        if not 0 <= number < len(names):
            raise ValueError(f'class ({each}) must be one of {", ".join(names[:20])}'
                             f'{", ..." if len(names) > 20 else ""}, or its number from 0 to {len(names) - 1}')
        labels.append(number)
    return labels


def _reached(targets: Sequence[Target], watched: LayerMap, layer: str) -> list[bool]:
    """Which targets depend on a layer; one that has an empty map or a wrong one for any picture is refused."""
    if watched.calls != 1:
        raise ValueError(f'layer ({layer}) runs {watched.calls} times for one image; take one that runs once')
    watched.map(watched.output)
    reached = []
    for target in targets:
        gradient, = torch.autograd.grad(target.value, watched.output, retain_graph=True, allow_unused=True)
        depends = gradient is not None and bool(watched.map(gradient).any())
        # Boxes come from one level of a pyramid or another; classes and regions from the same layers in any picture.
        if gradient is None or not (depends or target.box):
            raise ValueError(f'layer ({layer}): the prediction does not depend on its map; take an earlier one')
        reached.append(depends)
    return reached


def _heat(kind: str, model: nn.Module, layer: nn.Module, watched: LayerMap, image: Tensor, number: int) -> np.ndarray:
    made = getattr(_grad_cam(), kind)(model, [layer], watched.map)
    try:
        return made(image, [lambda targets: targets[number].value])[0]
    finally:
        made.activations_and_grads.release()


def _grad_cam() -> Any:
    try:
        import pytorch_grad_cam
    except ImportError as error:
        raise ImportError(f"class activation requires grad-cam ({error}): pip install 'grad-cam>=1.5.4'") from error
    return pytorch_grad_cam
