"""Gated attentions of RALA, MALA and NaLaFormer, with their base classes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.local_term import ValueConv
from mmflatten.models.attention.maps import Maps, fill_masked, mean_of_real, real_tokens
from mmflatten.models.attention.softmax import SoftmaxAttention
from mmflatten.ops import (
    global_key_weights,
    linear_attention,
    magnitude_aware_attention,
    no_autocast,
    positive_power,
    rotary_2d,
    signed_parts,
    upcast,
    widen,
)
from mmflatten.registry import MODELS


class GatedMixer(TokenMixer):
    """Mixer whose output, plus a depthwise convolution of the values, is multiplied by a projection
    of the input.

    Args:
        normed: normalise the output first, and multiply by SiLU of the projection (NaLaFormer).
        gated: False leaves out the gate and the convolution `lepe`, for comparisons of the operator
            alone.
    """

    extra_inputs: tuple[str, ...] = ('C',)
    lepe_kernel = 5

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        normed: bool = False,
        gated: bool = True,
        **kwargs,
    ) -> None:
        if not gated:
            self.extra_inputs = ()
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.gated = gated
        self.norm = nn.LayerNorm(embed_dims) if normed else None
        self.lepe = ValueConv(embed_dims, self.lepe_kernel) if gated and self.lepe_kernel else None

    def finish(self, y_BNC: Tensor, maps: Maps) -> Tensor:
        if self.norm is not None:
            y_BNC = self.norm(y_BNC.to(next(self.norm.parameters()).dtype))
        if not self.gated:
            return y_BNC
        gate_BNC = maps.extra[0]
        if self.norm is not None:
            gate_BNC = F.silu(gate_BNC)
        return widen(y_BNC) * gate_BNC


class RotaryMixer(GatedMixer):
    """Gated mixer with rotary positions.

    Args:
        rotary: False leaves them out. With them, a model can lose accuracy where an image shows
            more than in training (lab/docs/third_study.md).
        interpolate: spread the positions of any map over those of `grid_size` (Chen et al., 2023),
            which helps where an image is enlarged, and harms where it shows more.
    """

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        rotary: bool = True,
        interpolate: bool = False,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        if interpolate and kwargs.get('sr_ratio', 1) > 1:
            raise ValueError(f'interpolate: expected sr_ratio 1, got {kwargs["sr_ratio"]}.')
        self.rotary = rotary
        self.span = grid_size if interpolate else None

    def rotated(self, x_BhNf: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        if not self.rotary:
            return x_BhNf
        return rotary_2d(x_BhNf, hw_shape, span=self.span)


@MODELS.register_module()
class GatedSoftmaxAttention(RotaryMixer, SoftmaxAttention):
    """Softmax attention with rotary positions, a depthwise convolution of the values and a gate.

    Source: RALA (Fan et al., CVPR 2025), used in the last two stages of RAVLT, and with
    `normed=True` in those of NaLaFormer's released code.
    """

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        q_BhNd = self.rotated(q_BhNd, maps.hw).to(v_BhMd.dtype)
        k_BhMd = self.rotated(k_BhMd, maps.kv_hw).to(v_BhMd.dtype)
        return super().attend(q_BhNd, k_BhMd, v_BhMd, maps)


@MODELS.register_module()
class RankAugmentedLinearAttention(RotaryMixer):
    """Linear attention with keys weighted by similarity to the mean query, with rotary positions
    and a gate.

    Source: RALA (Fan et al., CVPR 2025). The feature map is ELU + 1; the denominator does not use
    positions.
    """

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        q_BhNd, k_BhMd = (F.elu(x) + 1 for x in upcast(q_BhNd, k_BhMd))
        weights_BhM1 = global_key_weights(
            mean_of_real(q_BhNd, maps.mask), k_BhMd, real_tokens(k_BhMd, maps.mask)
        )
        # Padding has no weight either.
        k_BhMd = fill_masked(k_BhMd * weights_BhM1, maps.mask, 0.0)
        return linear_attention(
            q_BhNd,
            k_BhMd,
            widen(v_BhMd),
            rotated_q_BhNd=self.rotated(q_BhNd, maps.hw),
            rotated_k_BhMd=self.rotated(k_BhMd, maps.kv_hw),
        )


@MODELS.register_module()
class MagnitudeAwareLinearAttention(RotaryMixer):
    """Linear attention whose weights sum to 1 and become sharper with larger queries, with rotary
    positions and a gate.

    Source: MALA (Fan et al., ICCV 2025). The feature map is ELU + 1.
    """

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        q_BhNd, k_BhMd = (F.elu(x) + 1 for x in upcast(q_BhNd, k_BhMd))
        k_BhMd = mean_of_real(k_BhMd, maps.mask)
        v_BhMd = widen(v_BhMd)
        mean_v_Bh1d = mean_of_real(v_BhMd, maps.mask).mean(dim=-2, keepdim=True)
        return magnitude_aware_attention(
            q_BhNd,
            k_BhMd,
            v_BhMd,
            rotated_q_BhNd=self.rotated(q_BhNd, maps.hw),
            rotated_k_BhMd=self.rotated(k_BhMd, maps.kv_hw),
            mean_v_Bh1e=mean_v_Bh1d,
        )


@MODELS.register_module()
class NormAwareLinearAttention(RotaryMixer):
    """Linear attention with queries raised to a power that grows with their norm, followed by a
    norm and a gate.

    With `x+- = relu(+-x)`, the features of queries are `[q+, q-] / |q|` to the power
    `3 (1/2 + tanh |q|)`, those of keys `[k+, k-]` of the cubed keys. In the numerator each half is
    rotated by its position. Source: the released code of NaLaFormer (Meng et al., 2025), which does
    not contain the cosine map of the paper.
    """

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        normed: bool = True,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, normed=normed, **kwargs)

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        q_BhNd, k_BhMd = upcast(q_BhNd, k_BhMd)
        with no_autocast(q_BhNd):
            length_BhN1 = torch.linalg.vector_norm(q_BhNd, dim=-1, keepdim=True).clamp(min=1e-6)
            power_BhN1 = 3 * (0.5 + length_BhN1.tanh())
            q_BhNf = positive_power(signed_parts(q_BhNd / length_BhN1), power_BhN1)
            k_BhMf = mean_of_real(signed_parts(k_BhMd**3), maps.mask)
        return linear_attention(
            q_BhNf,
            k_BhMf,
            widen(v_BhMd),
            rotated_q_BhNd=self._rotated_halves(q_BhNf, maps.hw),
            rotated_k_BhMd=self._rotated_halves(k_BhMf, maps.kv_hw),
        )

    def _rotated_halves(self, x_BhNf: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        """Rotate the positive and the negative parts separately."""
        positive, negative = x_BhNf.chunk(2, dim=-1)
        return torch.cat(
            (self.rotated(positive, hw_shape), self.rotated(negative, hw_shape)), dim=-1
        )
