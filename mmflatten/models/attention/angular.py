"""Linear angular attention of Castling-ViT."""
from __future__ import annotations

from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer, fill_masked
from mmflatten.ops import angular_attention, merge_heads, split_heads
from mmflatten.registry import MODELS


@MODELS.register_module()
class LinearAngularAttention(TokenMixer):
    """The linear part of the angular kernel, plus a convolution of the values along the tokens.

    This is the form for inference. In training, Castling-ViT adds an auxiliary branch, the product of the values with
    softmax attention thresholded to its large entries, which its mask makes sparser until it vanishes; FLatten's
    comparison counts and runs the linear part, so that branch does not exist here. Source: You et al., Castling-ViT,
    CVPR 2023; FLatten, Table 3.

    Args:
        kernel_size: of the convolution along the flattened map, whose weights the channels of a head share.
    """

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *, kernel_size: int = 9,
                 **kwargs) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise ValueError(f'kernel_size ({kernel_size}) must be odd and positive')
        self.dwc = nn.Conv2d(num_heads, num_heads, (kernel_size, 1), padding=(kernel_size // 2, 0), groups=num_heads,
                             bias=False)

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, hw_shape: tuple[int, int],
               kv_shape: tuple[int, int], mask: Tensor | None) -> Tensor:
        own_BNC = self.values_at_queries(v_BMC, hw_shape, kv_shape, mask)
        q_BhNd, k_BhMd, v_BhMd, own_BhNd = (split_heads(x, self.num_heads) for x in (
            q_BNC, fill_masked(k_BMC, mask, 0.), v_BMC, own_BNC))
        return merge_heads(angular_attention(q_BhNd, k_BhMd, v_BhMd, own_BhNe=own_BhNd) + self.dwc(own_BhNd))
