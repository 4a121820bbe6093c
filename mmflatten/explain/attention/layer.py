"""One attention layer on one image."""
from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from mmflatten.explain.attention.values import mix, mix_rows
from mmflatten.models.attention import (
    CrossShapedAttention,
    HydraAttention,
    MapAttention,
    TokenMixer,
    Windowed,
)

PARTS = ('attention', 'local', 'both')
MAX_BYTES = 2 ** 30
CHUNK = 16  # queries at a time, because the time of a backward pass grows with their number


class AttentionLayer:
    """Attention weights of one layer on one image: the output before the last projection is `weights @ values`.

    The weights are derivatives of the output with respect to the values, with fixed queries and keys. This works for
    any operator: linear, softmax, in windows or with pooled keys. Weights that differ between the channels of a head,
    such as those of depthwise convolutions, are averaged over the channels. Cross-covariance attention mixes the
    channels of a head, so its matrix is the identity.

    Attributes:
        name: name of the module in the model.
        kind: class of the mixer, and whether it runs in windows or stripes.
        num_heads: `h`; the number of channels in Hydra attention.
        hw, kv_hw: `(H, W)` of the query map and the key map.
        prefix: number of tokens before both maps, such as a class token.
        local: names of the depthwise convolutions of the values.
    """

    def __init__(self, name: str, module: nn.Module, x: Tensor, hw_shape: tuple[int, int]) -> None:
        module = module.mixer if isinstance(module, Windowed) and module.window_size is None else module
        self.name, self.module, self.x, self.hw = name, module, x, hw_shape
        self.mixers = _inner(module)
        self.kind = _kind(module, self.mixers)
        self.num_heads = sum(mixer.widths[0] if isinstance(mixer, HydraAttention) else mixer.num_heads
                             for mixer in self.mixers)
        self.prefix = 0 if isinstance(module, MapAttention) else x.shape[1] - hw_shape[0] * hw_shape[1]
        self.local = sorted({part for mixer in self.mixers if isinstance(mixer, TokenMixer)
                             for part in mixer.local_convolutions()})

    @cached_property
    def kv_hw(self) -> tuple[int, int]:
        if getattr(self.module, 'reduction', None) is None:
            return self.hw
        with torch.no_grad():
            return self.module.projections(self.x, self.hw)[3].kv_hw

    @property
    def num_queries(self) -> int:
        """Number of queries `N`, including prefix tokens."""
        return self.prefix + self.hw[0] * self.hw[1]

    @property
    def num_keys(self) -> int:
        """Number of keys `M`, including prefix tokens."""
        return self.prefix + self.kv_hw[0] * self.kv_hw[1]

    def rows(self, queries: Sequence[int], part: str = 'attention') -> Tensor:
        """Compute the weights of some queries, `(Q, h, M)`, without forming the `(N, M)` matrix.

        Args:
            queries: token indices. Prefix tokens come first, then the map in row-major order.
            part: 'attention', 'local' (the depthwise convolutions) or 'both'.

        Raises:
            ValueError: the token or part is unknown.
        """
        if part not in PARTS:
            raise ValueError(f'part: expected one of {", ".join(PARTS)}, got {part!r}.')
        for query in queries:
            if not 0 <= query < self.num_queries:
                raise ValueError(f'query: expected a token from 0 to {self.num_queries - 1} of layer {self.name} with '
                                 f'map {self.hw}, got {query}.')
        if part == 'local':
            return self._derivatives(queries, True) - self._derivatives(queries, False)
        return self._derivatives(queries, part == 'both')

    def row(self, query: int, head: int | None = None, part: str = 'attention') -> Tensor:
        """Compute the weights of one query, `(h, M)`, or `(M,)` for one head. Errors as in `rows` and `check_head`."""
        self.check_head(head)
        row = self.rows([query], part)[0]
        return row if head is None else row[head]

    def on_map(self, weights: Tensor) -> Tensor:
        """Reshape weights of keys `(..., M)` to the map of the keys `(..., H, W)`, without prefix tokens."""
        return weights[..., self.prefix:].unflatten(-1, self.kv_hw)

    def matrix(self, head: int | None = None, part: str = 'attention', max_bytes: int = MAX_BYTES) -> Tensor:
        """Compute all weights, `(h, N, M)`, or `(N, M)` for one head.

        Raises:
            ValueError: they take more than `max_bytes`, or as in `row`.
        """
        self.check_head(head)
        size = self.num_heads * self.num_queries * self.num_keys * self.x.element_size()
        if size > max_bytes:
            raise ValueError(f'max_bytes: the {self.num_heads} x {self.num_queries} x {self.num_keys} matrix of layer '
                             f'{self.name} takes {size}, got {max_bytes}. Use `rows` for some queries.')
        queries = torch.arange(self.num_queries).split(CHUNK)
        matrix = torch.cat([self.rows(chunk.tolist(), part) for chunk in queries]).transpose(0, 1)
        return matrix if head is None else matrix[head]

    def token_at(self, x: float, y: float, size: tuple[int, int]) -> int:
        """Return the query at a pixel of the network input of `(height, width)`.

        Raises:
            ValueError: the pixel is outside of the input.
        """
        height, width = size
        if not (0 <= x < width and 0 <= y < height):
            raise ValueError(f'query: expected a pixel from 0,0 to {width - 1},{height - 1} of the network input, '
                             f'which is {width} wide and {height} high, got {x},{y}.')
        row, col = int(y * self.hw[0] / height), int(x * self.hw[1] / width)
        return self.prefix + row * self.hw[1] + col

    def totals(self) -> Tensor:
        """Compute the row sums over all keys, `(h, N)`, including those that are not tokens, such as zero padding."""
        with torch.no_grad():
            ones = self._values().fill_(1)
            if isinstance(self.module, MapAttention):
                y_1NC = mix_rows(self.module, self.x, self.hw, ones, torch.arange(self.num_queries), False)
            else:
                y_1NC = mix(self.module, self.x, self.hw, ones, padding=1.)
        return y_1NC[0].unflatten(1, (self.num_heads, -1)).mean(-1).T

    def check_head(self, head: int | None) -> None:
        """Raise ValueError if the head does not exist."""
        if head is not None and not 0 <= head < self.num_heads:
            raise ValueError(f'head: expected 0 to {self.num_heads - 1} in layer {self.name}, got {head}.')

    def _values(self) -> Tensor:
        if isinstance(self.module, MapAttention):
            channels = self.module.values.out_channels
        else:
            channels = sum(mixer.widths[0] for mixer in self.mixers)
        return self.x.new_zeros(1, self.num_keys, channels)

    def _derivatives(self, queries: Sequence[int], local: bool) -> Tensor:
        leaf = self._values().requires_grad_()
        index = torch.as_tensor(list(queries), device=leaf.device)
        with torch.enable_grad():
            y_1QC = mix_rows(self.module, self.x, self.hw, leaf, index, local)
            rows = [torch.autograd.grad(y_C.sum(), leaf, retain_graph=True)[0][0] for y_C in y_1QC[0]]
        return torch.stack([row.unflatten(1, (self.num_heads, -1)).mean(-1).T for row in rows])


def _inner(module: nn.Module) -> list[nn.Module]:
    """Return the mixers inside a module: two for cross-shaped windows, otherwise one."""
    if isinstance(module, CrossShapedAttention):
        return [mixer for branch in module.branches for mixer in _inner(branch)]
    return _inner(module.mixer) if isinstance(module, Windowed) else [module]


def _kind(module: nn.Module, mixers: list[nn.Module]) -> str:
    inner = type(mixers[0]).__name__
    if isinstance(module, Windowed):
        return f'{inner} in shifted windows' if module.shift else f'{inner} in windows'
    return f'{inner} in stripes' if isinstance(module, CrossShapedAttention) else inner
