"""Class activation maps of a trained model for any image."""
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from mmengine.registry import DefaultScope
from torch import Tensor, nn

from mmflatten.config import pixels_of
from mmflatten.explain.layer_maps import LayerMap, find_layer, input_gradients, stages
from mmflatten.models.backbones.pyramid import ClassTokenStage
from mmflatten.predict.predictor import Image, Predictor
from mmflatten.text import shorten

# Names of the command line to classes of the grad-cam package that need one forward and one backward pass.
METHODS = {'gradcam': 'GradCAM', 'gradcam++': 'GradCAMPlusPlus', 'hirescam': 'HiResCAM', 'layercam': 'LayerCAM',
           'eigencam': 'EigenCAM'}


class Activation(NamedTuple):
    """Class activation map of one class, for the image or for the region where it is predicted."""

    heat: np.ndarray  # (H, W) on the picture, 0 to 1
    label: int
    name: str
    score: float  # predicted probability; its mean over a region
    layer: str
    method: str  # one of `METHODS`


class Target(NamedTuple):
    """One class of a prediction, as in `Activation`, with the scalar `value` to differentiate."""

    label: int
    score: float
    value: Tensor


class TargetModel(nn.Module):
    """A predictor's model as a module that maps an input `(1, 3, H, W)` to the targets of the image.

    `samples` are those of `Predictor.prepare`, and `labels` the indices of the classes, by default the predicted ones.
    """

    def __init__(self, predictor: Predictor, samples: Sequence[Any], labels: Sequence[int] = ()) -> None:
        super().__init__()
        self.model, self.samples, self.labels, self.task = predictor.model, samples, labels, predictor.spec

    def forward(self, image_13HW: Tensor) -> list[list[Target]]:
        with DefaultScope.overwrite_default_scope(self.task.scope):
            return [self.task.part('explain').targets(self, image_13HW)]


def cam(predictor: Predictor, image: Image, classes: Sequence[str | int] = (), layer: str | int | None = None,
        method: str | None = None) -> tuple[np.ndarray, list[Activation]]:
    """Compute class activation maps of an image with the grad-cam package.

    Args:
        classes: names or indices, by default the predicted classes.
        layer: a stage or a module, as in `find_layer`. Defaults to `default_layer`.
        method: one of `METHODS`. Defaults to `METHOD` of the task's module.

    Returns the input of the network as a picture, RGB `(H, W, 3)`, 0 to 255, and one activation per class.
    Raises ValueError if the task has no class activation maps, if the class, layer or method is unknown, or if the
    layer has no map, runs several times, or cannot influence the prediction.
    """
    if not predictor.spec.offers('explain'):
        raise ValueError(f'model: class activation maps are not available for {predictor.spec.name}, got '
                         f'{type(predictor.model).__name__}.')
    method = method or predictor.spec.part('explain').METHOD
    if method not in METHODS:
        raise ValueError(f'method: expected one of {", ".join(METHODS)}, got {method}.')
    labels, prepared = [_label(predictor.classes, each) for each in classes], predictor.prepare(image)
    model = TargetModel(predictor, prepared['data_samples'], labels)
    name, module = find_layer(predictor.model, default_layer(predictor) if layer is None else layer)
    inputs, activations = prepared['inputs'].detach().clone().requires_grad_(), []
    with torch.enable_grad(), input_gradients(predictor.model), LayerMap(predictor.model, module) as watched:
        targets = model(inputs)[0]
        if targets and watched.calls != 1:
            raise ValueError(f'layer: expected one call per image, got {watched.calls} of {name}. Use another layer.')
        for target in targets:
            _require_influence(target, watched, name)
        for number, target in enumerate(targets):
            heat = _heat(METHODS[method], model, module, watched, inputs, number)
            activations.append(Activation(heat, target.label, predictor.classes[target.label], target.score, name,
                                          method))
    return pixels_of(prepared['inputs'][0], predictor.model.data_preprocessor), activations


def _label(names: Sequence[str], label: str | int) -> int:
    if label in names:
        return names.index(label)
    if str(label).isdecimal() and int(label) < len(names):
        return int(label)
    raise ValueError(f'class: expected one of {shorten(names, 20)}, or an index below {len(names)}, got {label}.')


def _require_influence(target: Target, watched: LayerMap, layer: str) -> None:
    """Raise ValueError for a layer without a map, or without influence on a target."""
    watched.map(watched.output)
    gradient, = torch.autograd.grad(target.value, watched.output, retain_graph=True, allow_unused=True)
    if gradient is None or not watched.map(gradient).any():
        raise ValueError(f'layer: the prediction does not depend on its map, got {layer}. Use an earlier layer.')


def _heat(kind: str, model: nn.Module, layer: nn.Module, watched: LayerMap, image: Tensor, number: int) -> np.ndarray:
    try:
        import pytorch_grad_cam
    except ImportError as error:
        raise ImportError(f"class activation requires grad-cam ({error}): pip install 'grad-cam>=1.5.4'") from error
    explainer = getattr(pytorch_grad_cam, kind)(model, [layer], watched.map)
    try:
        return explainer(image, [lambda targets: targets[number].value])[0]
    finally:
        explainer.activations_and_grads.release()


def default_layer(predictor: Predictor) -> str:
    """Return the name of the default layer.

    It is the output norm of the last stage for a classifier, and of the second-last stage that a segmentor uses, or the
    last block of the stage if there is no norm. Only mean and linear layer follow the output norm of a classifier, so
    there Grad-CAM shows the contribution of each position to the logit. If only the class token is used, it is the norm
    before the last attention.
    """
    model, backbone = predictor.model, predictor.model.backbone
    used = getattr(backbone, 'out_indices', (-1,))
    block, _ = find_layer(model, used[max(-len(used), predictor.spec.part('explain').STAGE)])
    last_stage = getattr(backbone, 'stages', [None])[-1]
    if isinstance(last_stage, ClassTokenStage) or getattr(backbone, 'out_type', None) == 'cls_token':
        return f'{block}.attn.norm'
    modules = dict(model.named_modules())
    norms = (f'backbone.norms.{stages(model).index(block)}', f'{block.partition(".blocks.")[0]}.norm')
    return next((name for name in norms if not isinstance(modules.get(name, nn.Identity()), nn.Identity)), block)
