"""Records what reaches every attention of a model in a forward pass."""
from __future__ import annotations

from types import TracebackType

import torch
from torch import Tensor, nn

from mmflatten.explain.attention.layer import AttentionLayer
from mmflatten.models.attention import CrossShapedAttention, MapAttention, TokenMixer, Windowed

ATTENTIONS = (TokenMixer, Windowed, CrossShapedAttention, MapAttention)


class AttentionProbe:
    """The attention weights of every layer of a model, by hooks on its modules: neither it nor a library is changed.

        with AttentionProbe(model) as probe:
            model(image)
        probe.layer('stages.2.blocks.0.attn.fn').row(query=0)      # (heads, keys)

    The first image of the first call of each module counts. The layer's input stays in memory as long as the probe.

    Args:
        model: a backbone, or a whole classifier, detector, segmentor or stereo model.

    Attributes:
        names: of the modules that attend, in the model's order.

    Raises:
        ValueError: the model has no attention.
    """

    def __init__(self, model: nn.Module) -> None:
        self._modules = dict(_outermost(model))
        if not self._modules:
            raise ValueError(f'the model ({type(model).__name__}) has no attention of mmflatten')
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
        """Those that the forward pass has reached, in the model's order."""
        return [self._layers[name] for name in self.names if name in self._layers]

    def layer(self, name: str) -> AttentionLayer:
        """The layer of a name, of the end of a name, or of a number in `layers`.

        Raises:
            ValueError: none or several are meant.
        """
        layers = self.layers
        if name.isdecimal() and int(name) < len(layers):
            return layers[int(name)]
        found = [layer for layer in layers if layer.name == name] or [
            layer for layer in layers if f'.{layer.name}.'.endswith(f'.{name}.')]
        if len(found) != 1:
            there = ', '.join(layer.name for layer in found or layers)
            raise ValueError(f'layer ({name}) names {"several" if found else "none"}; there are {there}')
        return found[0]

    def _record(self, name: str, module: nn.Module, x: Tensor, hw_shape: tuple[int, int] | None = None,
                *_: object) -> None:
        if name not in self._layers:
            size = hw_shape or (x.shape[-2], x.shape[-1])
            with torch.inference_mode(False):  # so that gradients can be taken later
                first = x[:1].detach().clone()
            self._layers[name] = AttentionLayer(name, module, first, (int(size[0]), int(size[1])))


def _outermost(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Modules that attend and lie in no other one; an attention on volumes has no map and is left out."""
    found: list[tuple[str, nn.Module]] = []
    for name, module in model.named_modules():
        inside = any(not outer or name.startswith(f'{outer}.') for outer, _ in found)
        if isinstance(module, ATTENTIONS) and not inside and getattr(module, 'ndim', 2) == 2:
            found.append((name, module))
    return found
