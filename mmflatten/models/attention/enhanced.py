"""Enhanced linear attention of EfficientViT."""
from __future__ import annotations

from torch import Tensor

from mmflatten.models.attention.linear import LinearAttention
from mmflatten.models.attention.maps import Maps, values_at_queries
from mmflatten.models.layers import TokenConv
from mmflatten.ops import merge_heads, split_heads
from mmflatten.registry import MODELS


@MODELS.register_module()
class EnhancedLinearAttention(LinearAttention):
    """ReLU linear attention plus a depthwise convolution of the values.

    Source: EfficientViT (Cai et al., ICCV 2023), the "enhanced linear attention" of FLatten's Table 3, whose 5.8 M
    parameters for DeiT-T imply a 5 x 5 kernel.
    """

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *, kernel_size: int = 5,
                 **kwargs) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.dwc = TokenConv(embed_dims, kernel_size)

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        local_BNC = self.dwc(values_at_queries(merge_heads(v_BhMd), maps), maps.hw)
        return super().attend(q_BhNd, k_BhMd, v_BhMd, maps) + split_heads(local_BNC, self.num_heads)
