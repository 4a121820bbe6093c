"""The output of any layer as a map, for analyses of maps and their gradients."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from torch import Tensor, nn

from mmflatten.models.layers import split_prefix, tokens_to_map


class LayerMap:
    """Hooks that record a layer's output and convert it, or a gradient of the same shape, into a map.

    Maps `(B, C, H, W)` are unchanged. Tokens `(B, N, C)` take the map shape that the layer receives or returns, as
    blocks, mixers and embeddings do, or else that of the latest module with such a shape. Class tokens are removed.

        with LayerMap(model, layer) as watched:
            model(image)
        watched.map(watched.output)                     # (B, C, H, W)

    Args:
        model: a model that contains the layer.
        layer: a module whose output is a tensor.

    Attributes:
        output: output of the latest call of the layer, None before the first call.
        calls: number of calls of the layer.
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
        """Convert the layer's output, or its gradient, to `(B, C, H, W)`.

        Raises:
            ValueError: the tensor is neither a map nor the tokens of one.
        """
        if isinstance(tensor, Tensor) and tensor.ndim == 4:
            return tensor
        tokens = isinstance(tensor, Tensor) and tensor.ndim == 3 and self._shape is not None
        if not tokens or tensor.shape[1] < self._shape[0] * self._shape[1]:
            output = f'shape {tuple(tensor.shape)}' if isinstance(tensor, Tensor) else f'type {type(tensor).__name__}'
            raise ValueError(f'layer: expected a map or its tokens as output, got {output} from '
                             f'{type(self._layer).__name__}. Use a block, a norm in a block, or a convolution.')
        return tokens_to_map(split_prefix(tensor, self._shape)[1], self._shape)

    def _before(self, module: nn.Module, args: tuple, kwargs: dict) -> None:
        shape = _find_shape((*args, *kwargs.values()))
        self._latest = shape or self._latest
        if module is self._layer:
            self._shape = shape  # modules inside a mixer may receive the shape of its windows

    def _after(self, module: nn.Module, args: tuple, output: Any) -> None:
        shape = _find_shape(output if isinstance(output, tuple) else ())
        self._latest = shape or self._latest
        if module is self._layer:
            self.output = output
            self._shape = shape or self._shape or self._latest
            self.calls += 1


def _find_shape(values: tuple) -> tuple[int, int] | None:
    """Return the last pair of integers among arguments or results, which is the shape of a map."""
    pairs = [value for value in values if isinstance(value, tuple) and len(value) == 2
             and all(isinstance(side, int) for side in value)]
    return pairs[-1] if pairs else None


def find_layer(model: nn.Module, name: str | int = -1) -> tuple[str, nn.Module]:
    """Return the name of a layer of a model, and the layer.

    Args:
        model: a backbone, or a model with a backbone.
        name: name of a module, or the end of its name. An integer is a stage of the backbone (-1 is the last one) and
            selects its last block, before any output norm. The stages of a plain backbone are its blocks.

    Raises:
        ValueError: no module or several modules match.
    """
    if isinstance(name, int) or name.lstrip('-').isdecimal():
        return _stage(model, int(name))
    matches = match_name(name, [each for each, _ in model.named_modules() if each])
    if len(matches) > 1:
        raise ValueError(f'layer: several modules of {type(model).__name__} match, got {name}. Use a longer name, '
                         f'such as {", ".join(matches[:3])}.')
    if not matches:
        raise ValueError(f'layer: no module of {type(model).__name__} matches, got {name}. Use a stage index or '
                         f'a name, such as {", ".join(stages(model))}.')
    return matches[0], model.get_submodule(matches[0])


def match_name(name: str, names: Sequence[str]) -> list[str]:
    """Return the module names that equal `name`, or else those that end with it."""
    return [each for each in names if each == name] or [each for each in names if each.endswith(f'.{name}')]


def stages(model: nn.Module) -> list[str]:
    """Return the name of the last block of each stage of a model's backbone, or nothing for unknown backbones."""
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
        raise ValueError(f'layer: stages of {type(getattr(model, "backbone", model)).__name__} are unknown, got '
                         f'{number}. Use the name of a module.')
    if not -len(names) <= number < len(names):
        raise ValueError(f'layer: expected a stage from 0 to {len(names) - 1} or the name of a module, got {number}.')
    return names[number], model.get_submodule(names[number])


@contextmanager
def input_gradients(model: nn.Module) -> Iterator[None]:
    """Set evaluation mode, and disable weight gradients and checkpointing, which would call hooks twice.

    Inputs that require gradients still get them.
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
