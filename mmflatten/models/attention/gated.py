"""Base class of gated attentions (RALA, MALA, PolaFormer), and gated softmax attention."""
from __future__ import annotations

from torch import Tensor

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps
from mmflatten.models.attention.softmax import SoftmaxAttention
from mmflatten.ops import rotary_2d, widen
from mmflatten.registry import MODELS


class GatedMixer(TokenMixer):
    """Mixer whose output, including a depthwise convolution of the values, is multiplied by a projection of the input.

    Args:
        lepe_kernel: kernel size of that convolution, 5 in the papers.
    """

    extra_projections = ('C',)
    multiplies = True

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *, lepe_kernel: int = 5,
                 **kwargs) -> None:
        super().__init__(embed_dims, num_heads, grid_size, lepe_kernel=lepe_kernel, **kwargs)

    def finish(self, y_BNC: Tensor, maps: Maps) -> Tensor:
        return widen(y_BNC) * maps.extra[0]


@MODELS.register_module()
class GatedSoftmaxAttention(GatedMixer, SoftmaxAttention):
    """Softmax attention with rotary positions, a depthwise convolution of the values and a gate.

    Source: RALA (Fan et al., CVPR 2025), used in the last two stages of RAVLT.
    """

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        rotated_q, rotated_k = (rotary_2d(x, hw).to(x.dtype) for x, hw in ((q_BhNd, maps.hw), (k_BhMd, maps.kv_hw)))
        return super().attend(rotated_q, rotated_k, v_BhMd, maps)
