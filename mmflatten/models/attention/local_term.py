"""Local terms: depthwise convolutions that are added to an attention."""

from __future__ import annotations

from torch import Tensor, nn

from mmflatten.models.attention.maps import Maps, values_at_queries
from mmflatten.models.layers import TokenConv


class LocalTerm(nn.Module):
    """Base class of convolutions of the values that are added to an attention.

    By this class, `mmflatten attention` finds them and shows them apart from the attention.
    """


class ValueConv(LocalTerm, TokenConv):
    """Depthwise convolution of the values at the positions of the queries, with zeros for prefix
    tokens.

    Args:
        embed_dims, kernel_size, num_groups: as in `TokenConv`.
        bilinear: interpolate values of a reduced map on the map, not along its rows (see
            `values_at_queries`).
    """

    def __init__(
        self, embed_dims: int, kernel_size: int, num_groups: int = 1, *, bilinear: bool = False
    ) -> None:
        super().__init__(embed_dims, kernel_size, num_groups)
        self.bilinear = bilinear

    def forward(self, v_BMC: Tensor, maps: Maps) -> Tensor:  # type: ignore[override]
        """`(B, M, C) -> (B, N, C)`."""
        return super().forward(values_at_queries(v_BMC, maps, self.bilinear), maps.hw)
