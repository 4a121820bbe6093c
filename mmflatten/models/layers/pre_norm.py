"""Pre-norm transformer block, shared by all families."""

from __future__ import annotations

from torch import nn

from mmflatten.models.layers.residual import Block, Residual
from mmflatten.models.layers.token_conv import TokenConv
from mmflatten.models.layers.windows import WindowedResidual


def pre_norm_block(
    mixer: nn.Module,
    ffn: nn.Module,
    embed_dims: int,
    drop_path: float = 0.0,
    eps: float = 1e-5,
    cpe_kernel: int = 0,
    layer_scale: float = 0.0,
    *,
    window_size: tuple[int, int] | None = None,
    mask_padding: bool = False,
) -> Block:
    """Pre-norm transformer block: attention `attn`, then a feed-forward network `ffn`, each after a
    `LayerNorm`.

    Args:
        mixer: token mixer.
        ffn: feed-forward network.
        embed_dims: channels of the tokens.
        drop_path: probability of dropping each of the two branches for a sample.
        eps: of the norms.
        cpe_kernel: kernel size of the conditional positional encoding `cpe`, a depthwise
            convolution before both; 0 for none.
        layer_scale: initial value of the learned scales of both branches; 0 for none.
        window_size: windows `(h, w)` of the attention; None for none.
        mask_padding: exclude the padding of windows from attention.
    """
    branches: dict[str, Residual] = {}
    if cpe_kernel:
        branches['cpe'] = Residual(TokenConv(embed_dims, cpe_kernel))
    scale = (embed_dims, layer_scale) if layer_scale else None
    attn_norm = nn.LayerNorm(embed_dims, eps)
    ffn_norm = nn.LayerNorm(embed_dims, eps)
    if window_size is None:
        branches['attn'] = Residual(mixer, attn_norm, drop_path, scale)
    else:
        branches['attn'] = WindowedResidual(
            mixer,
            window_size,
            mask_padding=mask_padding,
            norm=attn_norm,
            drop_path=drop_path,
            layer_scale=scale,
        )
    branches['ffn'] = Residual(ffn, ffn_norm, drop_path, scale)
    return Block(**branches)
