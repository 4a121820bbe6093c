"""Hooks that record the inputs of all attention layers in a forward pass."""
from __future__ import annotations

from types import TracebackType

import torch
from torch import Tensor, nn

from mmflatten.explain.attention.layer import AttentionLayer
from mmflatten.explain.layer_maps import match_name
from mmflatten.models.attention import CrossShapedAttention, MapAttention, TokenMixer, Windowed

ATTENTIONS = (TokenMixer, Windowed, CrossShapedAttention, MapAttention)


class AttentionProbe:
    """Attention weights of all layers of a model, recorded with hooks that are removed on exit.

        with AttentionProbe(model) as probe:
            model(image)
        probe.layer('stages.2.blocks.0.attn.fn').row(query=0)      # (heads, keys)

    Only the first image of the first call of each module is recorded. The probe keeps the inputs of the layers.

    Args:
        model: a backbone, or a whole classifier, detector, segmentor or stereo model.

    Attributes:
        names: names of the attention modules, in model order.

    Raises:
        ValueError: the model has no attention.
    """

    def __init__(self, model: nn.Module) -> None:
        self._modules = dict(_outermost(model))
        if not self._modules:
            raise ValueError(f'model: expected a model with an attention of mmflatten, got {type(model).__name__}.')
        self.names = list(self._modules)
        self._layers: dict[str, AttentionLayer] = {}
        self._hooks: list = []

    def __enter__(self) -> AttentionProbe:
        self._layers.clear()
        for name, module in self._modules.items():

            def record(module: nn.Module, args: tuple, name: str = name) -> None:
                self._record(name, module, *args)

            self._hooks.append(module.register_forward_pre_hook(record))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        while self._hooks:
            self._hooks.pop().remove()

    @property
    def layers(self) -> list[AttentionLayer]:
        """The layers called in the forward pass, in model order."""
        return [self._layers[name] for name in self.names if name in self._layers]

    def layer(self, name: str) -> AttentionLayer:
        """Return the layer with a name, with a name that ends so, or with an index in `layers`.

        Raises:
            ValueError: no layer or several layers match.
        """
        layers = self.layers
        if name.isdecimal() and int(name) < len(layers):
            return layers[int(name)]
        names = [layer.name for layer in layers]
        matches = match_name(name, names)
        if len(matches) != 1:
            problem = 'several layers match' if matches else 'no layer matches'
            raise ValueError(f'layer: {problem}, got {name}. Use one of {", ".join(matches or names)}.')
        return self._layers[matches[0]]

    def _record(self, name: str, module: nn.Module, x: Tensor, hw_shape: tuple[int, int] | None = None,
                *_: object) -> None:
        if name not in self._layers:
            size = hw_shape or (x.shape[-2], x.shape[-1])
            with torch.inference_mode(False):  # the copy must support gradients
                first = x[:1].detach().clone()
            self._layers[name] = AttentionLayer(name, module, first, (int(size[0]), int(size[1])))


def _outermost(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return attention modules that are not inside another one. Attention on volumes has no map and is skipped."""
    outermost: list[tuple[str, nn.Module]] = []
    for name, module in model.named_modules():
        inside = any(not outer or name.startswith(f'{outer}.') for outer, _ in outermost)
        if isinstance(module, ATTENTIONS) and not inside and getattr(module, 'ndim', 2) == 2:
            outermost.append((name, module))
    return outermost
