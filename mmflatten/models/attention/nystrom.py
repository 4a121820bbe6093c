"""Nyström attention."""
from __future__ import annotations

from torch import Tensor

from mmflatten.models.attention.base import TokenMixer, square_side
from mmflatten.models.attention.maps import Maps, masked_logits, pool_real
from mmflatten.ops import merge_heads, nystrom_attention, split_heads, widen
from mmflatten.registry import MODELS


@MODELS.register_module()
class NystromAttention(TokenMixer):
    """Softmax attention approximated through landmarks, which are pooled queries and keys.

    Source: Nyströmformer (Xiong et al., AAAI 2021), whose landmarks are means of segments of a sequence. Here they are
    means of the cells of a square grid on the map. Prefix tokens are not pooled.

    Args:
        num_landmarks: number of landmarks, a square number.
        iterations: number of iterations of the pseudo-inverse.

    Raises:
        ValueError: `num_landmarks` is not a square number.
    """

    splits_heads = False

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *, num_landmarks: int = 49,
                 iterations: int = 6, **kwargs) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.side, self.iterations = square_side('num_landmarks', num_landmarks), iterations

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        landmarks = [pool_real(x, hw, maps.mask, self.side) for x, hw in ((q_BNC, maps.hw), (k_BMC, maps.kv_hw))]
        q, k, v, q_landmarks, k_landmarks = (split_heads(widen(x), self.num_heads)
                                             for x in (q_BNC, k_BMC, v_BMC, *landmarks))
        y_BhNd = nystrom_attention(q, k, v, q_landmarks_Bhad=q_landmarks, k_landmarks_Bhad=k_landmarks,
                                   bias=masked_logits(k, maps.mask), iterations=self.iterations)
        return merge_heads(y_BhNd).to(v_BMC.dtype)
