"""Attention as a layer on feature maps `(B, C, H, W)` and volumes `(B, C, T, H, W)`.

Source: Shen et al., Factorized Attention, sec. 3.2 and Table 8.
"""

from __future__ import annotations

from collections.abc import Callable

from einops import rearrange
from mmengine.model import BaseModule, constant_init
from torch import Tensor, nn

from mmflatten.ops import (
    conventional_dot_attention,
    conventional_gaussian_attention,
    efficient_attention,
    factorized_dot_attention,
    no_autocast,
)
from mmflatten.registry import MODELS

_FORMS = {2: '(B, C, H, W)', 3: '(B, C, T, H, W)'}  # of the input, by ndim


class MapAttention(BaseModule):
    """Attention of every location of a map to all locations. Subclasses set `operators`, one per
    normalisation.

    Args:
        in_channels: channels `C` of the map.
        basis_channels: channels of coefficients and basis (queries and keys), all heads together.
        value_channels: channels of the values, all heads together; `in_channels` by default.
        num_heads: heads; must divide `basis_channels` and `value_channels`.
        normalization: 'gaussian' (softmax) or 'dot' (division by the channels of a head).
        residual: add the input to the result.
        reprojection: project the attended values back to `in_channels`. Without it the output has
            `value_channels`.
        zero_init: initialise the last projection with zeros, so that the layer is the identity and
            can be added to a trained network without changing its output. Requires `residual`.
        ndim: 2 for maps, 3 for volumes.
        feed_forward_channels: hidden channels of a pointwise feed-forward network with ReLU and a
            residual connection after the attention (FA-Tfm, CA-Tfm); none by default. It has no
            norm, because the paper mentions none.

    Raises:
        ValueError: inconsistent widths, or an input with the wrong number of dimensions or
            channels.
    """

    operators: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]]

    def __init__(
        self,
        in_channels: int,
        basis_channels: int = 64,
        value_channels: int | None = None,
        num_heads: int = 1,
        normalization: str = 'gaussian',
        residual: bool = True,
        reprojection: bool = True,
        zero_init: bool = False,
        ndim: int = 2,
        feed_forward_channels: int | None = None,
        init_cfg: dict | list | None = None,
    ) -> None:
        super().__init__(init_cfg)
        value_channels = in_channels if value_channels is None else value_channels
        _check_widths(
            in_channels=in_channels,
            basis_channels=basis_channels,
            value_channels=value_channels,
            num_heads=num_heads,
            feed_forward_channels=feed_forward_channels,
        )
        if normalization not in self.operators:
            raise ValueError(
                f'normalization: expected one of {sorted(self.operators)}, got {normalization!r}.'
            )
        if ndim not in _FORMS:
            raise ValueError(f'ndim: expected one of {_FORMS}, got {ndim!r}.')
        if residual and not reprojection and value_channels != in_channels:
            raise ValueError(
                f'value_channels: expected in_channels ({in_channels}) for a residual connection'
                f' without reprojection, got {value_channels}. Set reprojection=True or'
                ' residual=False.'
            )
        if zero_init and not residual:
            raise ValueError(
                'zero_init: expected False with residual=False, because the output would be zero,'
                ' got True.'
            )
        self.in_channels = in_channels
        self.num_heads = num_heads
        self.ndim = ndim
        self.normalization = normalization
        self.residual = residual
        self.zero_init = zero_init
        conv = nn.Conv2d if ndim == 2 else nn.Conv3d
        self.out_channels = in_channels if reprojection else value_channels
        self.coefficients = conv(in_channels, basis_channels, 1)
        self.basis = conv(in_channels, basis_channels, 1)
        self.values = conv(in_channels, value_channels, 1)
        self.reprojection = conv(value_channels, in_channels, 1) if reprojection else None
        self.feed_forward: nn.Sequential | None = None
        if feed_forward_channels:
            self.feed_forward = nn.Sequential(
                conv(self.out_channels, feed_forward_channels, 1),
                nn.ReLU(inplace=True),
                conv(feed_forward_channels, self.out_channels, 1),
            )
        self._zero_last_projections()

    def init_weights(self) -> None:
        """Initialise by `init_cfg`, then apply `zero_init`, whatever the surrounding network
        initialised.
        """
        super().init_weights()
        self._zero_last_projections()

    def forward(self, x: Tensor) -> Tensor:
        """`(B, C, H, W)`, or `(B, C, T, H, W)` with `ndim=3`, to the same shape."""
        self._check_input(x)
        coefficients = self.coefficients(x)
        basis = self.basis(x)
        values = self.values(x)
        if self.normalization == 'gaussian':
            return self._attend(x, coefficients, basis=basis, values=values)
        # Sums over a large map overflow float16, so autocast is off.
        dtype = self.values.weight.dtype
        with no_autocast(x):
            return self._attend(
                x, coefficients.to(dtype), basis=basis.to(dtype), values=values.to(dtype)
            )

    def _attend(self, x: Tensor, coefficients: Tensor, *, basis: Tensor, values: Tensor) -> Tensor:
        operator = self.operators[self.normalization]
        y_BhNe = operator(self._heads(coefficients), self._heads(basis), self._heads(values))
        y = rearrange(y_BhNe, 'B h N e -> B (h e) N').unflatten(-1, x.shape[2:])
        if self.reprojection is not None:
            y = self.reprojection(y)
        if self.residual:
            y = x + y
        if self.feed_forward is not None:
            y = y + self.feed_forward(y)
        return y

    def _heads(self, x: Tensor) -> Tensor:
        """`(B, h d, *grid) -> (B, h, N, d)`, a view."""
        return rearrange(x.flatten(2), 'B (h d) N -> B h N d', h=self.num_heads)

    def _check_input(self, x: Tensor) -> None:
        if x.dim() != self.ndim + 2 or x.shape[1] != self.in_channels:
            raise ValueError(
                f'x: expected {_FORMS[self.ndim]} with C = in_channels ({self.in_channels}), got '
                f'{tuple(x.shape)}.'
            )

    def _zero_last_projections(self) -> None:
        if not self.zero_init:
            return
        constant_init(self.values if self.reprojection is None else self.reprojection, 0)
        if self.feed_forward is not None:
            constant_init(self.feed_forward[-1], 0)


@MODELS.register_module()
class FactorizedAttention(MapAttention):
    """Attention with cost linear in the pixels: its matrix, coefficients times basis masks, is
    never formed.

    The arguments are those of `MapAttention`. They give FA-dot, FA-bot, FA-multi and FA-Tfm, see
    `docs/factorized.md`.
    """

    operators = {'gaussian': efficient_attention, 'dot': factorized_dot_attention}

    def factors(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Coefficients and basis masks of a map, normalised as in `forward`.

        Returns:
            Two tensors `(B, h, d, *grid)`. With 'gaussian', coefficients sum to 1 over the `d`
            masks of a head and every mask sums to 1 over the locations; with 'dot' they are the
            projections without normalisation.
        """
        self._check_input(x)
        c_BhNd = self._heads(self.coefficients(x))
        b_BhNd = self._heads(self.basis(x))
        if self.normalization == 'gaussian':
            c_BhNd = c_BhNd.softmax(-1)
            b_BhNd = b_BhNd.softmax(-2)
        grid = x.shape[2:]
        return c_BhNd.mT.unflatten(-1, grid), b_BhNd.mT.unflatten(-1, grid)


@MODELS.register_module()
class ConventionalAttention(MapAttention):
    """Non-local module, which forms the matrix of all pairs of locations: CA-dot, CA-bot, CA-multi
    and CA-Tfm.

    Arguments and parameters are those of `FactorizedAttention`, so one can replace the other. With
    'dot' both compute the same function.
    """

    operators = {'gaussian': conventional_gaussian_attention, 'dot': conventional_dot_attention}


def _check_widths(*, num_heads: int, feed_forward_channels: int | None, **channels: int) -> None:
    widths = dict(channels, num_heads=num_heads)
    if feed_forward_channels is not None:
        widths['feed_forward_channels'] = feed_forward_channels
    for name, width in widths.items():
        if not isinstance(width, int) or width < 1:
            raise ValueError(f'{name}: expected a positive integer, got {width!r}.')
    for name in ('basis_channels', 'value_channels'):
        if widths[name] % num_heads:
            raise ValueError(
                f'{name}: expected a multiple of num_heads ({num_heads}), got {widths[name]}.'
            )
