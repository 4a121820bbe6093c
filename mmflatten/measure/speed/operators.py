"""Attentions to time for different numbers of tokens."""
from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from mmflatten.measure.flops.model_cost import count_parameters
from mmflatten.measure.speed.models import RunSettings, make_call, parse_spec
from mmflatten.measure.speed.timing import Subject
from mmflatten.models import attention
from mmflatten.models.attention import Windowed, build_mixer

SOFTMAX = 'softmax'
EXPLICIT = 'softmax-explicit'  # with the N x M matrix in memory, without fused kernels
# Name -> config of the mixer; `window` applies it within windows.
OPERATORS: dict[str, dict[str, Any]] = {
    SOFTMAX: dict(type='SoftmaxAttention'),
    EXPLICIT: dict(type='SoftmaxAttention'),
    'window': dict(type='SoftmaxAttention', relative_position_bias=True, window=7),
    'cross-shaped': dict(type='CrossShapedAttention', split=7),
    'focal': dict(type='FocalAttention'),
    'spatial-reduction': dict(type='SoftmaxAttention', sr_ratio=8),
    'focused': dict(type='FocusedLinearAttention'),
    'linear': dict(type='LinearAttention'),
    'elu': dict(type='LinearAttention', feature_map='elu'),
    'leaky-relu': dict(type='LinearAttention', feature_map='leaky_relu'),
    'efficient': dict(type='EfficientAttention'),
    'hydra': dict(type='HydraAttention'),
    'angular': dict(type='LinearAngularAttention'),
    'enhanced': dict(type='EnhancedLinearAttention'),
    'clamped': dict(type='ClampedLinearAttention', lcm_kernel=7),
    'xca': dict(type='CrossCovarianceAttention'),
    'cosformer': dict(type='CosFormerAttention'),
    'sima': dict(type='SimAAttention'),
    'linformer': dict(type='LinformerAttention'),
    'performer': dict(type='PerformerAttention'),
    'nystrom': dict(type='NystromAttention'),
    'neighborhood': dict(type='NeighborhoodAttention'),
    'routing': dict(type='BiLevelRoutingAttention'),
    'multi-scale': dict(type='MultiScaleLinearAttention'),
    'agent': dict(type='AgentAttention'),
    'manhattan': dict(type='ManhattanAttention'),
    'slab': dict(type='FocusedLinearAttention', focusing_factor=None, feature_floor=0),
    'mila': dict(type='MambaInspiredLinearAttention'),
    'inline': dict(type='InLineAttention'),
    'rala': dict(type='RankAugmentedLinearAttention'),
    'gated-softmax': dict(type='GatedSoftmaxAttention'),
    'polaformer': dict(type='PolarityAwareLinearAttention'),
    'polaformer++': dict(type='ExponentialPolarityAttention'),
    'nala': dict(type='NormAwareLinearAttention'),
    'mala': dict(type='MagnitudeAwareLinearAttention'),
    'visual-contrast': dict(type='VisualContrastAttention'),
    'circulant': dict(type='CirculantAttention'),
    'mhla': dict(type='TokenLevelMultiHeadAttention'),
    'ttt': dict(type='TTTAttention'),
}


def map_of(tokens: int) -> tuple[int, int]:
    """Return `(H, W)` of the most square map with this number of tokens."""
    H = next(side for side in range(math.isqrt(tokens), 0, -1) if tokens % side == 0)
    return H, tokens // H


def mixer_config(name: str) -> dict[str, Any]:
    """Config of an attention by its name in `OPERATORS`, or by class as in 'LinearAttention:feature_map=elu'."""
    if name in OPERATORS:
        return dict(OPERATORS[name])
    kind, arguments = parse_spec(name)
    if kind not in attention.__all__:
        raise ValueError(f'--operators: expected {", ".join(OPERATORS)}, or a class of mmflatten.models.attention '
                         f'with arguments, such as FocusedLinearAttention:focusing_factor=4, got {name}.')
    return dict(type=kind, **arguments)


def operator_subject(name: str, tokens: int, embed_dims: int, num_heads: int, settings: RunSettings) -> Subject:
    """Build an attention with its projections, to be timed on random tokens `(batch, tokens, embed_dims)`."""
    torch.manual_seed(0)
    cfg, hw_shape = mixer_config(name), map_of(tokens)
    window = cfg.pop('window', None)
    grid_size = hw_shape if window is None else (min(window, hw_shape[0]), min(window, hw_shape[1]))
    try:
        mixer = build_mixer(cfg, embed_dims=embed_dims, num_heads=num_heads, grid_size=grid_size)
    except TypeError as error:
        raise ValueError(f'--operators {name}: invalid arguments: {error}') from error
    mixer = mixer if window is None else Windowed(mixer, grid_size)

    def forward(x_BNC: Tensor) -> Tensor:
        return mixer(x_BNC, hw_shape)

    if name == EXPLICIT:
        forward = sdpa_kernel(SDPBackend.MATH)(forward)
    call = make_call(mixer, forward, torch.randn(settings.batch, tokens, embed_dims), settings)
    return Subject(name, call, settings.batch, count_parameters(mixer), tokens)
