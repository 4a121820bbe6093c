"""One layer of attention on one image."""
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
CHUNK = 16  # queries at a time: the time of a backward pass grows with their number


class AttentionLayer:
    """The weights with which a layer sums the values of an image's tokens: its result is `weights @ values`.

    Weights are derivatives of the result by the values, queries and keys held fixed, so they hold for any operator:
    linear, softmax, in windows or with pooled keys. What takes part is the layer up to its last projection. A weight
    that differs between the channels of a head, as those of depthwise convolutions do, is given by its mean over them.
    Cross-covariance attention mixes the channels of a head, so that its matrix is the identity.

    Attributes:
        name: of the module in the model.
        kind: its class, with the class inside windows.
        num_heads: `h`; in Hydra attention the number of channels.
        hw, kv_hw: `(H, W)` of the queries' and the keys' map.
        prefix: tokens that stand before both maps, such as a class token.
        local: the depthwise convolutions of the values, by name.
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
        """`N`, prefix tokens included."""
        return self.prefix + self.hw[0] * self.hw[1]

    @property
    def num_keys(self) -> int:
        """`M`, prefix tokens included."""
        return self.prefix + self.kv_hw[0] * self.kv_hw[1]

    def rows(self, queries: Sequence[int], part: str = 'attention') -> Tensor:
        """Weights of some queries, `(Q, h, M)`, at the memory of the layer itself: no `(N, M)` matrix is formed.

        Args:
            queries: numbers of tokens, prefix tokens first, then the map row after row.
            part: 'attention', 'local' (the depthwise convolutions) or 'both'.

        Raises:
            ValueError: no such token or part.
        """
        if part not in PARTS:
            raise ValueError(f'part ({part!r}) must be one of {", ".join(PARTS)}')
        for query in queries:
            if not 0 <= query < self.num_queries:
                raise ValueError(f'query ({query}) must be a token from 0 to {self.num_queries - 1} of layer '
                                 f'{self.name}, whose map is {self.hw}')
        if part == 'local':
            return self._derivatives(queries, True) - self._derivatives(queries, False)
        return self._derivatives(queries, part == 'both')

    def row(self, query: int, head: int | None = None, part: str = 'attention') -> Tensor:
        """Weights of one query, `(h, M)`, or `(M,)` of one head; errors as in `rows` and `check_head`."""
        self.check_head(head)
        row = self.rows([query], part)[0]
        return row if head is None else row[head]

    def matrix(self, head: int | None = None, part: str = 'attention', max_bytes: int = MAX_BYTES) -> Tensor:
        """All weights, `(h, N, M)`, or `(N, M)` of one head.

        Raises:
            ValueError: they would take more than `max_bytes`; or as in `row`.
        """
        self.check_head(head)
        size = self.num_heads * self.num_queries * self.num_keys * self.x.element_size()
        if size > max_bytes:
            raise ValueError(f'max_bytes ({max_bytes}) is less than the {self.num_heads} x {self.num_queries} x '
                             f'{self.num_keys} matrix of layer {self.name} takes ({size}); take rows of some queries')
        queries = torch.arange(self.num_queries).split(CHUNK)
        matrix = torch.cat([self.rows(chunk.tolist(), part) for chunk in queries]).transpose(0, 1)
        return matrix if head is None else matrix[head]

    def token_at(self, x: float, y: float, size: tuple[int, int]) -> int:
        """The query at a pixel of the network's input of `(height, width)`.

        Raises:
            ValueError: the pixel is outside.
        """
        height, width = size
        if not (0 <= x < width and 0 <= y < height):
            raise ValueError(f'query ({x},{y}) must be a pixel of the picture as the network sees it, which is '
                             f'{width} wide and {height} high: 0,0 to {width - 1},{height - 1}')
        row, col = int(y * self.hw[0] / height), int(x * self.hw[1] / width)
        return self.prefix + row * self.hw[1] + col

    def totals(self) -> Tensor:
        """Sums of the rows with every key, `(h, N)`, zero padding of windows and the like included."""
        with torch.no_grad():
            ones = self._values().fill_(1)
            if isinstance(self.module, MapAttention):
                y_1NC = mix_rows(self.module, self.x, self.hw, ones, torch.arange(self.num_queries), False)
            else:
                y_1NC = mix(self.module, self.x, self.hw, ones, padding=1.)
        return y_1NC[0].unflatten(1, (self.num_heads, -1)).mean(-1).T

    def check_head(self, head: int | None) -> None:
        """Raises: ValueError: there is no such head."""
        if head is not None and not 0 <= head < self.num_heads:
            raise ValueError(f'head ({head}) must be a number from 0 to {self.num_heads - 1} in layer {self.name}')

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
    """The mixers that attend; two in cross-shaped windows."""
    if isinstance(module, CrossShapedAttention):
        return [mixer for branch in module.branches for mixer in _inner(branch)]
    return _inner(module.mixer) if isinstance(module, Windowed) else [module]


def _kind(module: nn.Module, mixers: list[nn.Module]) -> str:
    inner = type(mixers[0]).__name__
    if isinstance(module, Windowed):
        return f'{inner} in {"shifted " if module.shift else ""}windows'
    return f'{inner} in stripes' if isinstance(module, CrossShapedAttention) else inner
