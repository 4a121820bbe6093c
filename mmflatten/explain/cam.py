"""Class activation maps of a trained model for any image."""
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from mmengine.registry import DefaultScope
from torch import Tensor, nn

from mmflatten.building import pixels_of
from mmflatten.explain.layer_maps import LayerMap, find_layer, input_gradients, stages
from mmflatten.models.backbones.pyramid import ClassTokenStage
from mmflatten.predict.predictor import Image, Predictor
from mmflatten.text import shorten

# Names of the command line to classes of the grad-cam package that need one forward and one backward pass.
METHODS = {'gradcam': 'GradCAM', 'gradcam++': 'GradCAMPlusPlus', 'hirescam': 'HiResCAM', 'layercam': 'LayerCAM',
           'xgradcam': 'XGradCAM', 'eigencam': 'EigenCAM', 'eigengradcam': 'EigenGradCAM'}


@dataclass(frozen=True)
class Activation:
    """Class activation map of one class, box or region.

    Attributes:
        heat: `(H, W)` on the picture, 0 to 1. None for a box whose score does not depend on the layer: boxes from the
            coarsest levels of a feature pyramid depend on the last stage only.
        label, name: index and name of the class.
        score: predicted score; the mean probability for a region.
        box, image_box: x1 y1 x2 y2 in pixels of the picture and of the image file, for detectors.
        layer, method: name of the layer, and one of `METHODS`.
    """

    heat: np.ndarray | None
    label: int
    name: str
    score: float
    box: tuple[float, ...] | None
    image_box: tuple[float, ...] | None
    layer: str
    method: str


@dataclass(frozen=True)
class Target:
    """One class, box or region of a prediction, as in `Activation`, with the scalar `value` to differentiate."""

    label: int
    score: float
    value: Tensor
    box: tuple[float, float, float, float] | None = None


class TargetModel(nn.Module):
    """A predictor's model as a module that maps an input `(1, 3, H, W)` to the targets of the image.

    The arguments are those of `cam`, with `samples` as returned by `Predictor.prepare`, and `labels` as indices.
    """

    def __init__(self, predictor: Predictor, samples: Sequence[Any], labels: Sequence[int] = (),
                 score: float = .3) -> None:
        super().__init__()
        self.model, self.samples, self.labels, self.score = predictor.model, samples, labels, score
        self.task = predictor.spec

    def forward(self, image_13HW: Tensor) -> list[list[Target]]:
        with DefaultScope.overwrite_default_scope(self.task.scope):
            return [self.task.part('explain').targets(self, image_13HW)]


def cam(predictor: Predictor, image: Image, classes: Sequence[str | int] = (), layer: str | int | None = None,
        method: str | None = None, score: float = .3, top: int = 5) -> tuple[np.ndarray, list[Activation]]:
    """Compute class activation maps of an image with the grad-cam package.

    Args:
        classes: names or indices, by default the predicted classes.
        layer: a stage or a module, as in `find_layer`. Defaults to `default_layer`, or to the last stage that a box
            depends on if its score does not depend on the default layer.
        method: one of `METHODS`. Defaults to `METHOD` of the task's module.
        score: boxes with a lower score are skipped.
        top: maximum number of boxes, in order of their scores.

    Returns:
        The input of the network as a picture, RGB `(H, W, 3)`, 0 to 255, and one activation per class, box or region.

    Raises:
        PredictionError: the image cannot be read or used.
        ImportError: grad-cam is not installed.
        ValueError: the task has no class activation maps; the class, layer or method is unknown; the layer has no map,
            runs several times, or cannot influence any prediction.
    """
    if not predictor.spec.offers('explain'):
        raise ValueError(f'model: class activation maps are not available for {predictor.spec.name}, got '
                         f'{type(predictor.model).__name__}.')
    method = method or predictor.spec.part('explain').METHOD
    if method not in METHODS:
        raise ValueError(f'method: expected one of {", ".join(METHODS)}, got {method}.')
    labels = [_label(predictor.classes, each) for each in classes]
    prepared = predictor.prepare(image)
    model = TargetModel(predictor, prepared['data_samples'], labels, score)
    layers: list = [layer]
    if layer is None:
        layers = [default_layer(predictor), *reversed(_stage_outputs(predictor))]
    activations = _activations(predictor, model, prepared['inputs'], layers.pop(0), method, top)
    while layers and any(activation.heat is None for activation in activations):
        on_other = _activations(predictor, model, prepared['inputs'], layers.pop(0), method, top)
        activations = [first if first.heat is not None else second for first, second in zip(activations, on_other)]
    return pixels_of(prepared['inputs'][0], predictor.model.data_preprocessor), activations


def _label(names: Sequence[str], label: str | int) -> int:
    if label in names:
        return names.index(label)
    if str(label).isdecimal() and int(label) < len(names):
        return int(label)
    raise ValueError(f'class: expected one of {shorten(names, 20)}, or an index below {len(names)}, got {label}.')


def _activations(predictor: Predictor, model: TargetModel, inputs: Tensor, layer: str | int, method: str,
                 top: int) -> list[Activation]:
    name, module = find_layer(predictor.model, layer)
    inputs, activations = inputs.detach().clone().requires_grad_(), []
    scale = model.samples[0].metainfo.get('scale_factor')
    with torch.enable_grad(), input_gradients(predictor.model), LayerMap(predictor.model, module) as watched:
        targets = model(inputs)[0]
        targets = targets[:top] if predictor.spec.has_instances else targets
        if targets and watched.calls != 1:
            raise ValueError(f'layer: expected one call per image, got {watched.calls} of {name}. Use another layer.')
        depends = [_depends(target, watched, name) for target in targets]
        for number, target in enumerate(targets):
            heat = _heat(METHODS[method], model, module, watched, inputs, number) if depends[number] else None
            box = tuple(side / scale[i % 2] for i, side in enumerate(target.box)) if target.box else None
            activations.append(Activation(heat, target.label, predictor.classes[target.label], target.score, target.box,
                                          box, name, method))
    return activations


def _depends(target: Target, watched: LayerMap, layer: str) -> bool:
    """Return True if a target depends on the layer. Reject layers without a map or any influence."""
    watched.map(watched.output)
    gradient, = torch.autograd.grad(target.value, watched.output, retain_graph=True, allow_unused=True)
    depends = gradient is not None and bool(watched.map(gradient).any())
    # Boxes come from different levels of a pyramid, but classes and regions use the same layers for every image.
    if gradient is None or not (depends or target.box):
        raise ValueError(f'layer: the prediction does not depend on its map, got {layer}. Use an earlier layer.')
    return depends


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

    It is the output norm of the last stage for a classifier, and of the second-last stage that a detector or segmentor
    uses, or the last block of the stage if there is no norm. Only mean and linear layer follow the output norm of a
    classifier, so there Grad-CAM shows the contribution of each position to the logit. If only the class token is
    used, it is the norm before the last attention.
    """
    outputs = _stage_outputs(predictor)
    return outputs[max(-len(outputs), predictor.spec.part('explain').STAGE)]


def _stage_outputs(predictor: Predictor) -> list[str]:
    """Return the names of the outputs of the stages that the rest of the model uses."""
    model, backbone, outputs = predictor.model, predictor.model.backbone, []
    last_stage = getattr(backbone, 'stages', [None])[-1]
    token = isinstance(last_stage, ClassTokenStage) or getattr(backbone, 'out_type', None) == 'cls_token'
    modules, blocks = dict(model.named_modules()), stages(model)
    for number in getattr(backbone, 'out_indices', (-1,)):
        block, _ = find_layer(model, number)
        names = (f'backbone.norms.{blocks.index(block)}', f'{block.partition(".blocks.")[0]}.norm')
        norms = [name for name in names if not isinstance(modules.get(name, nn.Identity()), nn.Identity)]
        outputs.append(f'{block}.attn.norm' if token else [*norms, block][0])
    return outputs
