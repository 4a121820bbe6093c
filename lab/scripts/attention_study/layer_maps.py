"""The output of any layer as a map, for analyses of maps and their gradients."""
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from mmflatten.explain.attention.layer import match_name
from mmflatten.models.layers import split_prefix, tokens_to_map


@contextmanager
def recorded_calls(layer: nn.Module) -> Iterator[list[tuple[Any, tuple[int, int] | None]]]:
    """Record the output of each call of a layer, and the map shape that it received, as blocks and mixers do."""
    calls: list[tuple[Any, tuple[int, int] | None]] = []

    def record(module: nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
        pairs = [value for value in (*args, *kwargs.values()) if isinstance(value, tuple) and len(value) == 2]
        calls.append((output, pairs[-1] if pairs else None))

    with layer.register_forward_hook(record, with_kwargs=True):
        yield calls


def as_map(output: Any, hw: tuple[int, int] | None, layer: nn.Module) -> Tensor:
    """Convert a map, or its tokens `(B, N, C)` and any class tokens, to `(B, C, H, W)`; raise ValueError for others."""
    shape = tuple(getattr(output, 'shape', ()))
    if len(shape) == 4:
        return output
    if len(shape) == 3 and hw is not None and shape[1] >= hw[0] * hw[1]:
        return tokens_to_map(split_prefix(output, hw)[1], hw)
    got = f'shape {shape}' if shape else type(output).__name__
    raise ValueError(f'layer: expected a map, or tokens and their map shape, got {got} from {type(layer).__name__}. '
                     'Use a block or a convolution.')


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
