"""Linear angular attention of Castling-ViT."""
from __future__ import annotations

from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps, fill_masked, values_at_queries
from mmflatten.ops import angular_attention, merge_heads, split_heads
from mmflatten.registry import MODELS


@MODELS.register_module()
class LinearAngularAttention(TokenMixer):
    """The linear part of the angular kernel, plus a convolution of the values along the flattened map.

    This is the inference form. In training, Castling-ViT adds an auxiliary branch, softmax attention thresholded to its
    large entries, which becomes sparser and finally vanishes. It is not implemented here, because FLatten's comparison
    uses only the linear part. Source: You et al., Castling-ViT, CVPR 2023; FLatten, Table 3.

    Args:
        kernel_size: of the convolution; all channels of a head share its weights.
    """

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *, kernel_size: int = 9,
                 **kwargs) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise ValueError(f'kernel_size ({kernel_size}) must be odd and positive')
        self.dwc = nn.Conv2d(num_heads, num_heads, (kernel_size, 1), padding=(kernel_size // 2, 0), groups=num_heads,
                             bias=False)

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        k_BhMd = fill_masked(k_BhMd, maps.mask, 0.)
        v_BhNd = split_heads(values_at_queries(merge_heads(v_BhMd), maps), self.num_heads)
        return angular_attention(q_BhNd, k_BhMd, v_BhMd, own_BhNe=v_BhNd) + self.dwc(v_BhNd)
