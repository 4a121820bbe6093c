"""InLine attention."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.local_term import LocalTerm
from mmflatten.models.attention.maps import Maps, mean_of_real, values_at_queries
from mmflatten.models.layers import on_map
from mmflatten.ops import inline_attention, merge_heads, no_autocast, split_heads, widen
from mmflatten.registry import MODELS


class ImageConv(LocalTerm):
    """Depthwise 3 x 3 convolution with weights predicted for each image, `(B, N, C) -> (B, N, C)`.

    Args:
        embed_dims: channels `C`.
        num_groups: groups of the two layers that predict the weights from the mean token of the
            image.
    """

    def __init__(self, embed_dims: int, num_groups: int) -> None:
        super().__init__()
        self.weights = nn.Sequential(
            nn.Conv1d(embed_dims, embed_dims, 1, groups=num_groups),
            nn.GELU(),
            nn.Conv1d(embed_dims, 9 * embed_dims, 1, groups=num_groups),
        )

    def forward(self, x_BNC: Tensor, mean_BC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        weight = self.weights(mean_BC.unsqueeze(-1)).view(-1, 1, 3, 3)

        def convolve(x_BCHW: Tensor) -> Tensor:
            if not x_BCHW.numel():
                return x_BCHW
            x = widen(x_BCHW).reshape(1, -1, *hw_shape)
            with no_autocast(x):
                y = F.conv2d(x, weight.to(x.dtype), padding=1, groups=x.shape[1])
            return y.view(x_BCHW.shape)

        return on_map(convolve, x_BNC, hw_shape)


@MODELS.register_module()
class InLineAttention(TokenMixer):
    """Linear attention whose weights sum to 1 by subtraction, plus a convolution with weights
    predicted per image.

    Source: Bridging the Divide (Han et al., NeurIPS 2024), eqs. 6 and 9. The weights of the
    convolution are predicted from the mean of the mixer's input; in CSwin, as in the released code,
    of the block's input, before its norm.

    Args:
        image_conv: add the convolution.
    """

    splits_heads = False
    extra_inputs = ('x',)
    # Quirk of the released code: in CSwin the convolution reads the tokens before the norm.
    reads_residual_in_stripes = True

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        image_conv: bool = True,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.dwc = ImageConv(embed_dims, num_heads) if image_conv else None

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        q_BhNd, k_BhMd, v_BhMd = (
            split_heads(widen(x), self.num_heads) for x in (q_BNC, k_BMC, v_BMC)
        )
        mean_v = mean_of_real(v_BhMd, maps.mask).mean(dim=-2, keepdim=True)
        y_BhNd = inline_attention(
            q_BhNd, mean_of_real(k_BhMd, maps.mask), v_BhMd, mean_v_Bh1e=mean_v
        )
        if self.dwc is None:
            return merge_heads(y_BhNd)
        mean_BC = mean_of_real(maps.extra[0], maps.mask).mean(dim=1)
        v_BNC = values_at_queries(v_BMC, maps, bilinear=True)
        return merge_heads(y_BhNd) + self.dwc(v_BNC, mean_BC, maps.hw)
