"""Base class of mixers whose queries, keys and values are not three projections of the input."""

from __future__ import annotations

from torch import Tensor

from mmflatten.models.attention.base import TokenMixer


class OwnProjections(TokenMixer):
    """`TokenMixer` whose subclasses set `self.qkv` and define `projections`.

    Args:
        sr_ratio: must be 1, because keys are not projected from the input.

    Raises:
        ValueError: another `sr_ratio`.
    """

    splits_heads = False

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        sr_ratio: int = 1,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        if sr_ratio != 1:
            raise ValueError(f'sr_ratio: expected 1 in {type(self).__name__}, got {sr_ratio}.')


def require_no_prefix(x_BNC: Tensor, hw_shape: tuple[int, int]) -> None:
    """Check that the tokens are those of a map, for mixers that convolve their input.

    Raises:
        ValueError: there are prefix tokens, such as a class token.
    """
    prefix = x_BNC.shape[1] - hw_shape[0] * hw_shape[1]
    if prefix:
        raise ValueError(
            'with_cls_token: expected False, because the convolution of the input drops prefix '
            f'tokens, got {prefix} of them.'
        )
