"""The output of any layer as a map, for analyses of maps and their gradients."""
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Self

from torch import Tensor, nn

from mmflatten.models.layers import split_prefix, tokens_to_map


class LayerMap:
    """Hooks that record a layer's number of calls and latest output, and convert it into a map.

    Maps `(B, C, H, W)` are unchanged. Tokens `(B, N, C)` take the map shape that the layer receives or returns, as
    blocks, mixers and embeddings do, or else that of the latest module with such a shape. Class tokens are removed.

        with LayerMap(model, layer) as watched:
            model(image)
        watched.map(watched.output)                     # (B, C, H, W)
    """

    def __init__(self, model: nn.Module, layer: nn.Module) -> None:
        self.calls, self.output = 0, None
        self._model, self._layer = model, layer
        self._shape = self._latest = None  # map shapes of the layer and of the latest module
        self._hooks = ExitStack()

    def __enter__(self) -> Self:
        for module in self._model.modules():
            self._hooks.enter_context(module.register_forward_pre_hook(self._before, with_kwargs=True))
            self._hooks.enter_context(module.register_forward_hook(self._after))
        return self

    def __exit__(self, *_: object) -> None:
        self._hooks.close()

    def map(self, tensor: Tensor) -> Tensor:
        """Convert the layer's output, or its gradient, to `(B, C, H, W)`. Raises ValueError if it has no map."""
        shape = tuple(getattr(tensor, 'shape', ()))
        if len(shape) == 4:
            return tensor
        if len(shape) == 3 and self._shape is not None and shape[1] >= self._shape[0] * self._shape[1]:
            return tokens_to_map(split_prefix(tensor, self._shape)[1], self._shape)
        output = f'shape {shape}' if shape else type(tensor).__name__
        raise ValueError(f'layer: expected a map or its tokens as output, got {output} from '
                         f'{type(self._layer).__name__}. Use a block, a norm in a block, or a convolution.')

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
    pairs = (value for value in reversed(values) if isinstance(value, tuple) and len(value) == 2)
    return next((pair for pair in pairs if all(isinstance(side, int) for side in pair)), None)


def find_layer(model: nn.Module, name: str | int = -1) -> tuple[str, nn.Module]:
    """Return the name of a layer of a model, and the layer.

    Args:
        model: a backbone, or a model with a backbone.
        name: name of a module, or the end of its name. An integer is a stage of the backbone (-1 is the last one) and
            selects its last block, before any output norm. The stages of a plain backbone are its blocks.

    Raises:
        ValueError: no module or several modules match.
    """
    blocks = stages(model)
    if isinstance(name, str) and not name.lstrip('-').isdecimal():
        name = match_name(name, [each for each, _ in model.named_modules() if each], blocks)
        return name, model.get_submodule(name)
    if not -len(blocks) <= int(name) < len(blocks):
        known = f'0 to {len(blocks) - 1}' if blocks else f'unknown for {type(model).__name__}'
        raise ValueError(f'layer: expected a stage ({known}) or the name of a module, got {name}.')
    return blocks[int(name)], model.get_submodule(blocks[int(name)])


def match_name(name: str, names: Sequence[str], examples: Sequence[str]) -> str:
    """Return the module name that equals `name`, or else the only one that ends with it.

    If none or several match, a ValueError suggests matches or else `examples`.
    """
    matches = [each for each in names if each == name] or [each for each in names if each.endswith(f'.{name}')]
    if len(matches) != 1:
        problem = 'several modules match' if matches else 'no module matches'
        raise ValueError(f'layer: {problem}, got {name}. Use one of {", ".join(matches[:3] or examples)}.')
    return matches[0]


def stages(model: nn.Module) -> list[str]:
    """Return the name of the last block of each stage of a model's backbone, or nothing for unknown backbones."""
    prefix = 'backbone.' if hasattr(model, 'backbone') else ''
    backbone = getattr(model, 'backbone', model)
    if hasattr(backbone, 'stages'):  # FLatten, L2ViT, Focal; Swin of mmdet and mmpretrain
        return [f'{prefix}stages.{i}.blocks.{len(stage.blocks) - 1}' for i, stage in enumerate(backbone.stages)]
    if hasattr(backbone, 'blocks'):
        return [f'{prefix}blocks.{i}' for i in range(len(backbone.blocks))]
    return [f'{prefix}{name}' for name in getattr(backbone, 'res_layers', ())]  # ResNets


@contextmanager
def input_gradients(model: nn.Module) -> Iterator[None]:
    """Set evaluation mode, and disable weight gradients and checkpointing, which would call hooks twice."""
    saved = [(weight, 'requires_grad', weight.requires_grad) for weight in model.parameters()]
    saved += [(module, name, getattr(module, name)) for module in model.modules() for name in ('training', 'with_cp')
              if hasattr(module, name)]
    model.eval().requires_grad_(False)
    for module, name, _ in saved:
        if name == 'with_cp':
            module.with_cp = False
    try:
        yield
    finally:
        for holder, name, value in saved:
            setattr(holder, name, value)
