"""Hooks that record the inputs of all attention layers in a forward pass."""
from contextlib import ExitStack
from functools import partial
from typing import Self

import torch
from torch import nn

from mmflatten.explain.attention.layer import AttentionLayer
from mmflatten.explain.layer_maps import match_name
from mmflatten.models.attention import CrossShapedAttention, MapAttention, TokenMixer, Windowed

ATTENTIONS = (TokenMixer, Windowed, CrossShapedAttention, MapAttention)


class AttentionProbe:
    """Attention weights of all layers of a model, recorded with hooks that are removed on exit.

        with AttentionProbe(model) as probe:
            model(image)
        probe.layer('stages.2.blocks.0.attn.fn').row(query=0)      # (heads, keys)

    Only the first image of the first call of each module is recorded. Attention on volumes has no map and is skipped.
    The model is a backbone or a whole model; one without attention raises ValueError.

    Attributes:
        names: names of the attention modules that are not inside another one, in model order.
    """

    def __init__(self, model: nn.Module) -> None:
        self.names: list[str] = []
        for name, module in model.named_modules():
            inside = any(not outer or name.startswith(f'{outer}.') for outer in self.names)
            if isinstance(module, ATTENTIONS) and not inside and getattr(module, 'ndim', 2) == 2:
                self.names.append(name)
        if not self.names:
            raise ValueError(f'model: expected a model with an attention of mmflatten, got {type(model).__name__}.')
        self._model, self._hooks = model, ExitStack()
        self._layers: dict[str, AttentionLayer] = {}

    def __enter__(self) -> Self:
        self._layers.clear()
        for name in self.names:
            module = self._model.get_submodule(name)
            self._hooks.enter_context(module.register_forward_pre_hook(partial(self._record, name)))
        return self

    def __exit__(self, *_: object) -> None:
        self._hooks.close()

    @property
    def layers(self) -> list[AttentionLayer]:
        """The layers called in the forward pass, in model order."""
        return [self._layers[name] for name in self.names if name in self._layers]

    def layer(self, name: str) -> AttentionLayer:
        """Return the layer with an index in `layers`, or with a name as in `match_name`."""
        names = [layer.name for layer in self.layers]
        if name.isdecimal() and int(name) < len(names):
            return self.layers[int(name)]
        return self._layers[match_name(name, names, names)]

    def _record(self, name: str, module: nn.Module, args: tuple) -> None:
        if name not in self._layers:
            x, hw_shape = args[0], args[1] if len(args) > 1 else args[0].shape[-2:]
            with torch.inference_mode(False):  # the copy must support gradients
                first = x[:1].detach().clone()
            self._layers[name] = AttentionLayer(name, module, first, (int(hw_shape[0]), int(hw_shape[1])))
