"""Factors of a study of attentions: a local term, a gate and positions, around the operator of any
mixer.
"""

from __future__ import annotations

from math import log

import torch
import torch.nn.functional as F
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.attention import (
    AgentAttention,
    GatedMixer,
    PolarityAwareLinearAttention,
    SoftmaxAttention,
    TokenMixer,
    ValueConv,
    build_mixer,
)
from mmflatten.models.attention.gated import RotaryMixer
from mmflatten.models.attention.maps import Maps
from mmflatten.models.layers import Linear
from mmflatten.ops import widen
from mmflatten.registry import MODELS

GATES = {'none': None, 'plain': lambda x: x, 'silu': F.silu}


@MODELS.register_module()
class LengthScaledSoftmax(SoftmaxAttention):
    """Softmax attention with logits times `log M / log M0` for M keys, M0 in the map `grid_size`.

    Source: Chiang and Cholak, *Overcoming a Theoretical Limitation of Self-Attention* (2022),
    relative to the training.
    """

    def __init__(
        self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], **kwargs
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.trained_keys = grid_size[0] * grid_size[1]

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        return super().attend(
            q_BhNd * log(k_BhMd.shape[2], self.trained_keys), k_BhMd, v_BhMd, maps
        )


@MODELS.register_module()
class WithLocalTermAndGate(BaseModule):
    """A mixer whose result, plus a depthwise convolution of its values, is multiplied by a
    projection of the input.

    A mixer that has a local term or a gate itself should be configured without it: `gated=False` in
    `GatedMixer`, `kernel_size=None` or `image_conv=False` in others.

    Args:
        embed_dims, num_heads, grid_size, qkv_bias: as in `TokenMixer`.
        mixer: config of the mixer.
        local_kernel: kernel size of the convolution; 0 for none.
        gate: 'plain' multiplies by the projection, 'silu' by its SiLU, 'none' by nothing.
        positions: False removes the positions inside the mixer: rotations, PolaFormer's table, or
            Agent's tables.
        kwargs: further arguments of the mixer, such as `sr_ratio`.

    Raises:
        ValueError: the gate is unknown, or the mixer has no place for it, no local term or no
            positions.
    """

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        mixer: dict,
        local_kernel: int = 0,
        gate: str = 'none',
        positions: bool = True,
        qkv_bias: bool = True,
        init_cfg: dict | None = None,
        **kwargs,
    ) -> None:
        super().__init__(init_cfg)
        if gate not in GATES:
            raise ValueError(f'gate: expected one of {", ".join(GATES)}, got {gate!r}.')
        inner = build_mixer(
            mixer,
            embed_dims=embed_dims,
            num_heads=num_heads,
            grid_size=grid_size,
            qkv_bias=qkv_bias,
            **kwargs,
        )
        if gate != 'none' and (
            type(inner).finish not in (TokenMixer.finish, GatedMixer.finish)
            or getattr(inner.proj, 'in_features', None) != embed_dims
        ):
            raise ValueError(
                f'gate: expected none for {type(inner).__name__}, which ends in a way of its own, '
                f'got {gate!r}.'
            )
        if local_kernel:
            inner.lepe = ValueConv(embed_dims, local_kernel)
        if not positions:
            remove_positions(inner)
        self.has_logits = inner.has_logits
        self.gate_name = gate
        self.gate = None if gate == 'none' else Linear(embed_dims, embed_dims, bias=qkv_bias)
        self.proj, inner.proj = inner.proj, nn.Identity()
        self.mixer = inner

    def forward(self, x: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None) -> Tensor:
        """Mix the tokens `(B, N, C)` of a map; the arguments are those of `TokenMixer.forward`."""
        y_BNC = self.mixer(x, hw_shape, mask)
        activation = GATES[self.gate_name]
        if self.gate is not None and activation is not None:
            y_BNC = widen(y_BNC) * activation(self.gate(x))
        return self.proj(y_BNC)


def remove_positions(mixer: TokenMixer) -> None:
    """Remove the rotations or the tables of positions inside a mixer.

    Raises:
        ValueError: the mixer has none.
    """
    if isinstance(mixer, PolarityAwareLinearAttention):
        mixer.positional_encoding = _NoPositions()
    elif isinstance(mixer, RotaryMixer):
        mixer.rotary = False
    elif isinstance(mixer, AgentAttention):
        mixer.key_bias = _NoBias()
        mixer.query_bias = _NoBias()
    else:
        raise ValueError(
            f'positions: expected True for {type(mixer).__name__}, which has none to remove, got'
            ' False.'
        )


class _NoPositions(nn.Module):
    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        return x_BNC


class _NoBias(nn.Module):
    """Zeros in place of `AgentBias`."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer('zero', torch.zeros(1, 1, 1, 1), persistent=False)

    def forward(self, hw_shape: tuple[int, int], num_prefix: int = 0) -> Tensor:
        height, width = hw_shape
        return self.zero.expand(1, 1, 1, num_prefix + height * width)


def gates_of(model: nn.Module) -> set[str]:
    """Kinds of the gates of a model's attentions: 'plain', 'silu', or 'other' for one of the
    mixer's own.
    """
    found = set()
    for module in model.modules():
        if isinstance(module, WithLocalTermAndGate):
            found.add(module.gate_name)
        elif isinstance(module, GatedMixer):
            kind = 'plain' if module.norm is None else 'silu'
            found.add(kind if module.gated else 'none')
        elif isinstance(module, TokenMixer) and type(module).finish is not TokenMixer.finish:
            found.add('other')
    return found - {'none'}
