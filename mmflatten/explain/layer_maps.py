"""The output of any layer as a map, whatever its layout, for what is computed from maps and their gradients."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from torch import Tensor, nn

from mmflatten.models.layers import split_prefix, tokens_to_map


class LayerMap:
    """Watches a layer in forward passes and turns its output, or a gradient of the same shape, into a map.

    Maps `(B, C, H, W)` stay as they are. Tokens `(B, N, C)` take the shape of the map that the layer is called with or
    returns, as blocks, mixers and embeddings do, else that of the latest module that was; a class token is left out.

        with LayerMap(model, layer) as watched:
            model(image)
        watched.map(watched.output)                     # (B, C, H, W)

    Args:
        model: the layer is somewhere in it.
        layer: a module whose output is a tensor.

    Attributes:
        output: of the layer in the latest pass; None before one has reached it.
        calls: how often the layer has run.
    """

    def __init__(self, model: nn.Module, layer: nn.Module) -> None:
        self.output: Any = None
        self.calls = 0
        self._model, self._layer = model, layer
        self._latest: tuple[int, int] | None = None
        self._shape: tuple[int, int] | None = None
        self._hooks: list = []

    def __enter__(self) -> LayerMap:
        for module in self._model.modules():
            self._hooks.append(module.register_forward_pre_hook(self._before, with_kwargs=True))
            self._hooks.append(module.register_forward_hook(self._after))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        while self._hooks:
            self._hooks.pop().remove()

    def map(self, tensor: Tensor) -> Tensor:
        """The layer's output, or its gradient, as `(B, C, H, W)`.

        Raises:
            ValueError: it is neither a map nor the tokens of one.
        """
        if isinstance(tensor, Tensor) and tensor.ndim == 4:
            return tensor
        tokens = isinstance(tensor, Tensor) and tensor.ndim == 3 and self._shape is not None
        if not tokens or tensor.shape[1] < self._shape[0] * self._shape[1]:
            what = f'the shape {tuple(tensor.shape)}' if isinstance(tensor, Tensor) else f'type {type(tensor).__name__}'
            raise ValueError(f'output of the layer ({type(self._layer).__name__}) has {what}, which is no map and no '
                             'tokens of one; take a block, a norm in a block, or a convolution')
        return tokens_to_map(split_prefix(tensor, self._shape)[1], self._shape)

    def _before(self, module: nn.Module, args: tuple, kwargs: dict) -> None:
        given = _find_shape((*args, *kwargs.values()))
        self._latest = given or self._latest
        if module is self._layer:
            self._shape = given  # a mixer may show those inside it windows as their maps

    def _after(self, module: nn.Module, args: tuple, output: Any) -> None:
        given = _find_shape(output if isinstance(output, tuple) else ())
        self._latest = given or self._latest
        if module is self._layer:
            self.output = output
            self._shape = given or self._shape or self._latest
            self.calls += 1


def _find_shape(values: tuple) -> tuple[int, int] | None:
    """The last pair of whole numbers among arguments or results: the shape of a map."""
    pairs = [value for value in values if isinstance(value, tuple) and len(value) == 2
             and all(isinstance(side, int) for side in value)]
    return pairs[-1] if pairs else None


def find_layer(model: nn.Module, name: str | int = -1) -> tuple[str, nn.Module]:
    """A layer of a model and its name.

    Args:
        model: a backbone, or a model with one.
        name: a module of the model by its name or the end of it; or the number of a stage of the backbone, from 0 or,
            from the end, -1: its last block, before any norm of the output. A plain backbone's blocks are its stages.

    Raises:
        ValueError: none or several are meant.
    """
    if isinstance(name, int) or name.lstrip('-').isdecimal():
        return _stage(model, int(name))
    names = [each for each, _ in model.named_modules() if each]
    found = [each for each in names if each == name] or [each for each in names if each.endswith(f'.{name}')]
    if len(found) != 1:
        raise ValueError(f'layer ({name}) names {"several modules" if found else "no module"} of '
                         f'{type(model).__name__}; take the number of a stage or a name'
                         + (f', such as {", ".join(found[:3])}' if found else f'; stages: {", ".join(stages(model))}'))
    return found[0], model.get_submodule(found[0])


def stages(model: nn.Module) -> list[str]:
    """The name of the last block of each stage of a model's backbone; empty where the stages are not known."""
    prefix = 'backbone.' if hasattr(model, 'backbone') else ''
    backbone = getattr(model, 'backbone', model)
    if hasattr(backbone, 'stages'):  # FLatten, L2ViT, Focal; Swin of mmdet and mmpretrain
        return [f'{prefix}stages.{i}.blocks.{len(stage.blocks) - 1}' for i, stage in enumerate(backbone.stages)]
    if hasattr(backbone, 'blocks'):
        return [f'{prefix}blocks.{i}' for i in range(len(backbone.blocks))]
    return [f'{prefix}{name}' for name in getattr(backbone, 'res_layers', ())]  # ResNets


def _stage(model: nn.Module, number: int) -> tuple[str, nn.Module]:
    names = stages(model)
    if not names:
        raise ValueError(f'stages of {type(getattr(model, "backbone", model)).__name__} are not known; name a layer')
    if not -len(names) <= number < len(names):
        raise ValueError(f'layer ({number}) must be a stage from 0 to {len(names) - 1}, or the name of a module')
    return names[number], model.get_submodule(names[number])


@contextmanager
def input_gradients(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, no gradients for weights, and no recomputation, which would run a layer's hooks twice.

    Gradients still flow from an input that requires them.
    """
    weights = [(weight, weight.requires_grad) for weight in model.parameters()]
    modules = [(module, module.training, getattr(module, 'with_cp', None)) for module in model.modules()]
    model.eval().requires_grad_(False)
    for module, _, with_cp in modules:
        if with_cp:
            module.with_cp = False
    try:
        yield
    finally:
        for weight, wanted in weights:
            weight.requires_grad_(wanted)
        for module, training, with_cp in modules:
            module.training = training
            if with_cp:
                module.with_cp = with_cp
