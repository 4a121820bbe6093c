"""Attention layers of a model on one image."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from itertools import chain
from typing import Self

import torch
from torch import Tensor, nn

from mmflatten.explain.attention.values import mix
from mmflatten.models.attention import (
    CrossShapedAttention,
    HydraAttention,
    MapAttention,
    TokenMixer,
    Windowed,
)
from mmflatten.models.layers import Windows

ATTENTIONS = (TokenMixer, Windows, CrossShapedAttention, MapAttention)
PARTS = ('attention', 'local', 'both')
MAX_BYTES = 2**30
CHUNK = 16  # queries at a time, because the time of a backward pass grows with their number


class AttentionLayer:
    """Attention weights of one layer on one image: the output before the last projection is
    `weights @ values`.

    The weights are derivatives of the output with respect to the values, with fixed queries and
    keys. This works for any operator: linear, softmax, in windows or with pooled keys. Weights that
    differ between the channels of a head, such as those of depthwise convolutions, are averaged
    over the channels. Cross-covariance attention mixes the channels of a head, so its matrix is the
    identity.

    Attributes:
        name: name of the module in the model.
        kind: class of the mixer, and whether it runs in windows or stripes.
        num_heads: `h`; the number of channels in Hydra attention.
        hw, kv_hw: `(H, W)` of the query map and the key map.
        prefix: number of tokens before both maps, such as a class token.
        num_queries, num_keys: `N` and `M`, including prefix tokens.
        local: names of the convolutions of the values that are added to the attention.
    """

    def __init__(self, name: str, module: nn.Module, x: Tensor, hw_shape: tuple[int, int]) -> None:
        if isinstance(module, Windowed) and module.window_size is None:
            module = module.mixer  # one window of the whole map
        self.name = name
        self.module = module
        self.x = x
        self.hw = hw_shape
        self.mixers = _mixers(module)
        self.kind = type(self.mixers[0]).__name__ + _place_of(module)
        self.num_heads = sum(map(_num_heads, self.mixers))
        tokens = hw_shape[0] * hw_shape[1]
        # `MapAttention` has maps (B, C, H, W) as input, without prefix tokens.
        self.prefix = 0 if isinstance(module, MapAttention) else x.shape[1] - tokens
        self.num_queries = self.prefix + tokens
        local: set[str] = set()
        for mixer in self.mixers:
            if isinstance(mixer, TokenMixer):
                local.update(mixer.local_terms())
        self.local = sorted(local)

    @cached_property
    def kv_hw(self) -> tuple[int, int]:
        if getattr(self.module, 'reduction', None) is None:
            return self.hw
        with torch.no_grad():
            return self.module.projections(self.x, self.hw)[3].kv_hw

    @cached_property
    def num_keys(self) -> int:
        return self.prefix + self.kv_hw[0] * self.kv_hw[1]

    def rows(self, queries: Sequence[int], part: str = 'attention') -> Tensor:
        """Compute the weights of some queries, `(Q, h, M)`, without the `(N, M)` matrix.

        Args:
            queries: token indices. Prefix tokens come first, then the map in row-major order.
            part: 'attention', 'local' (the convolutions of the values) or 'both'.
        """
        if part not in PARTS:
            raise ValueError(f'part: expected one of {", ".join(PARTS)}, got {part!r}.')
        for query in queries:
            if not 0 <= query < self.num_queries:
                raise ValueError(
                    f'query: expected a token from 0 to {self.num_queries - 1} of layer {self.name}'
                    f' with map {self.hw}, got {query}.'
                )
        if part == 'local':
            both = self._derivatives(queries, local=True)
            return both - self._derivatives(queries, local=False)
        return self._derivatives(queries, local=part == 'both')

    def row(self, query: int, head: int | None = None, part: str = 'attention') -> Tensor:
        """Compute the weights of one query, `(h, M)`, or `(M,)` for one head."""
        self.check_head(head)
        weights_hM = self.rows([query], part)[0]
        return weights_hM if head is None else weights_hM[head]

    def on_map(self, weights: Tensor) -> Tensor:
        """Reshape weights of keys `(..., M)` to the map of the keys, `(..., H, W)`.

        Prefix tokens are left out.
        """
        return weights[..., self.prefix :].unflatten(-1, self.kv_hw)

    def matrix(
        self, head: int | None = None, part: str = 'attention', max_bytes: int = MAX_BYTES
    ) -> Tensor:
        """Compute all weights, `(h, N, M)`, or `(N, M)` for one head.

        Raises:
            ValueError: the weights of all heads need more than `max_bytes`.
        """
        self.check_head(head)
        size = self.num_heads * self.num_queries * self.num_keys * self.x.element_size()
        if size > max_bytes:
            raise ValueError(
                f'max_bytes: the {self.num_heads} x {self.num_queries} x {self.num_keys} matrix of'
                f' layer {self.name} takes {size}, got {max_bytes}. Use `rows` for some queries.'
            )
        chunks = torch.arange(self.num_queries).split(CHUNK)
        rows_NhM = torch.cat([self.rows(chunk.tolist(), part) for chunk in chunks])
        matrix_hNM = rows_NhM.transpose(0, 1)
        return matrix_hNM if head is None else matrix_hNM[head]

    def token_at(self, x: float, y: float, size: tuple[int, int]) -> int:
        """Return the query at a pixel of the network input of `(height, width)`."""
        height, width = size
        if not (0 <= x < width and 0 <= y < height):
            raise ValueError(
                f'query: expected a pixel from 0,0 to {width - 1},{height - 1} of the network'
                f' input, which is {width} wide and {height} high, got {x},{y}.'
            )
        row = int(y * self.hw[0] / height)
        col = int(x * self.hw[1] / width)
        return self.prefix + row * self.hw[1] + col

    def check_head(self, head: int | None) -> None:
        """Raise ValueError if the head does not exist."""
        if head is not None and not 0 <= head < self.num_heads:
            raise ValueError(
                f'head: expected 0 to {self.num_heads - 1} in layer {self.name}, got {head}.'
            )

    def _derivatives(self, queries: Sequence[int], local: bool) -> Tensor:
        """Compute `(Q, h, M)` by one backward pass per query, with or without convolutions."""
        if isinstance(self.module, MapAttention):
            channels = self.module.values.out_channels
        else:
            channels = sum(mixer.widths[0] for mixer in self.mixers)
        # The output is linear in the values, so its derivatives are the same for all of them.
        values_1MC = self.x.new_zeros(1, self.num_keys, channels, requires_grad=True)
        index = torch.as_tensor(list(queries), device=self.x.device)
        rows = []
        with torch.enable_grad():
            y_1QC = mix(self.module, self.x, self.hw, values_1MC, queries=index, local=local)
            for y_C in y_1QC[0]:
                (grad_1MC,) = torch.autograd.grad(y_C.sum(), values_1MC, retain_graph=True)
                # The mean over the channels of each head.
                rows.append(grad_1MC[0].unflatten(1, (self.num_heads, -1)).mean(-1).T)
        return torch.stack(rows)


def _mixers(module: nn.Module) -> list[nn.Module]:
    """Return the mixers inside a module: those of both branches of cross-shaped windows, or one."""
    if isinstance(module, CrossShapedAttention):
        return list(chain.from_iterable(map(_mixers, module.branches)))
    return _mixers(module.mixer) if isinstance(module, Windowed) else [module]


def _num_heads(mixer: nn.Module) -> int:
    return mixer.widths[0] if isinstance(mixer, HydraAttention) else mixer.num_heads


def _place_of(module: nn.Module) -> str:
    """Return the ending of the kind of a layer: windows or stripes."""
    if isinstance(module, Windowed):
        return ' in shifted windows' if module.shift else ' in windows'
    return ' in stripes' if isinstance(module, CrossShapedAttention) else ''


class AttentionProbe:
    """Attention weights of all layers of a model, recorded with hooks that are removed on exit.

        with AttentionProbe(model) as probe:
            model(image)
        probe.layer('stages.2.blocks.0.attn.fn').row(query=0)      # (heads, keys)

    Only the first image of the first call of each module is recorded. Attention on volumes has no
    map and is skipped. The model is a backbone or a whole model; one without attention raises
    ValueError. `names` has the attention modules that are not inside another one, in model order.
    """

    def __init__(self, model: nn.Module) -> None:
        self.names: list[str] = []
        for name, module in model.named_modules():
            inside = any(not outer or name.startswith(f'{outer}.') for outer in self.names)
            if isinstance(module, ATTENTIONS) and not inside and getattr(module, 'ndim', 2) == 2:
                self.names.append(name)
        # A block with `around` calls it with `fn` inside.
        self.names = [
            name for name in self.names if f'{name.removesuffix("fn")}windows' not in self.names
        ]
        if not self.names:
            raise ValueError(
                'model: expected a model with an attention of mmflatten, got'
                f' {type(model).__name__}.'
            )
        self._model = model
        self._hooks = ExitStack()
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
        if type(module) is Windows:  # of a `WindowedResidual`
            mixer, *args = args
            module = Windowed(mixer, module.window_size, mask_padding=module.mask_padding)
        if name not in self._layers:
            x = args[0]
            height, width = args[1] if len(args) > 1 else x.shape[-2:]
            with torch.inference_mode(False):  # the copy must support gradients
                first = x[:1].detach().clone()
            hw_shape = (int(height), int(width))
            self._layers[name] = AttentionLayer(name, module, x=first, hw_shape=hw_shape)


def match_name(name: str, names: Sequence[str], examples: Sequence[str]) -> str:
    """Return the module name that equals `name`, or else the only one that ends with it.

    If none or several match, a ValueError suggests matches or else `examples`.
    """
    matches = [each for each in names if each == name]
    if not matches:
        matches = [each for each in names if each.endswith(f'.{name}')]
    if len(matches) != 1:
        problem = 'several modules match' if matches else 'no module matches'
        raise ValueError(
            f'layer: {problem}, got {name}. Use one of {", ".join(matches[:3] or examples)}.'
        )
    return matches[0]
