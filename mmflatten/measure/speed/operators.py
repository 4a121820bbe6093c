"""Attentions to time for different numbers of tokens."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from mmflatten.measure.flops.model_cost import count_parameters
from mmflatten.measure.speed.models import RunSettings, make_call, parse_spec
from mmflatten.measure.speed.timing import Subject
from mmflatten.models import attention
from mmflatten.models.attention import Windowed, build_mixer
from mmflatten.registry import MODELS

SOFTMAX = 'softmax'
EXPLICIT = 'softmax-explicit'  # with the N x M matrix in memory, without fused kernels
# Name -> class and arguments of the mixer; `window` applies it within windows.
OPERATORS = {
    SOFTMAX: 'SoftmaxAttention',
    EXPLICIT: 'SoftmaxAttention',
    'window': 'SoftmaxAttention:relative_position_bias=True,window=7',
    'cross-shaped': 'CrossShapedAttention:split=7',
    'focal': 'FocalAttention',
    'spatial-reduction': 'SoftmaxAttention:sr_ratio=8',
    'focused': 'FocusedLinearAttention',
    'linear': 'LinearAttention',
    'elu': 'LinearAttention:feature_map=elu',
    'leaky-relu': 'LinearAttention:feature_map=leaky_relu',
    'efficient': 'EfficientAttention',
    'hydra': 'HydraAttention',
    'angular': 'LinearAngularAttention',
    'enhanced': 'EnhancedLinearAttention',
    'clamped': 'ClampedLinearAttention:lcm_kernel=7',
    'xca': 'CrossCovarianceAttention',
    'cosformer': 'CosFormerAttention',
    'sima': 'SimAAttention',
    'linformer': 'LinformerAttention',
    'performer': 'PerformerAttention',
    'nystrom': 'NystromAttention',
    'neighborhood': 'NeighborhoodAttention',
    'routing': 'BiLevelRoutingAttention',
    'multi-scale': 'MultiScaleLinearAttention',
    'agent': 'AgentAttention',
    'manhattan': 'ManhattanAttention',
    'slab': 'FocusedLinearAttention:focusing_factor=None,feature_floor=0',
    'mila': 'MambaInspiredLinearAttention',
    'inline': 'InLineAttention',
    'rala': 'RankAugmentedLinearAttention',
    'gated-softmax': 'GatedSoftmaxAttention',
    'polaformer': 'PolarityAwareLinearAttention',
    'polaformer++': 'ExponentialPolarityAttention',
    'nala': 'NormAwareLinearAttention',
    'mala': 'MagnitudeAwareLinearAttention',
    'visual-contrast': 'VisualContrastAttention',
    'circulant': 'CirculantAttention',
    'mhla': 'TokenLevelMultiHeadAttention',
    'ttt': 'TTTAttention',
    'transformer-to-ttt': 'TransformerToTTTAttention',
    'gdla': 'GatedDifferentialLinearAttention',
    'tssa': 'TokenStatisticsAttention',
    'cbsa': 'ContractBroadcastAttention',
    'nc-ssd': 'StateSpaceAttention',
    'hsm-ssd': 'HiddenStateMixer',
}


def map_of(tokens: int) -> tuple[int, int]:
    """Return `(H, W)` of the most square map with this number of tokens."""
    H = math.isqrt(tokens)
    while tokens % H:
        H -= 1
    return H, tokens // H


def mixer_config(name: str) -> dict[str, Any]:
    """Config of an attention by its name in `OPERATORS`, by registered class as in
    'LinearAttention:feature_map=elu', or by the path of a class that Python can import.
    """
    kind, arguments = parse_spec(OPERATORS.get(name, name))
    if kind not in attention.__all__ and not _is_mixer(kind):
        raise ValueError(
            f'{name}: expected one of {", ".join(OPERATORS)}, a class of mmflatten.models.attention'
            ' or of an installed package with arguments, such as'
            ' FocusedLinearAttention:focusing_factor=4, or the path of a TokenMixer that Python'
            ' can import, such as my_attention.MyAttention.'
        )
    return dict(type=kind, **arguments)


def _is_mixer(path: str) -> bool:
    """Return True for the path, or the name in the registry, of a class of token mixers."""
    module, _, name = path.rpartition('.')
    if not all(part.isidentifier() for part in path.split('.')):
        return False
    try:
        if module:
            found = getattr(import_module(module), name, None)
        else:
            MODELS.import_from_location()
            found = MODELS.module_dict.get(name)
    except ModuleNotFoundError as error:
        if error.name and f'{module}.'.startswith(f'{error.name}.'):
            return False
        raise
    return isinstance(found, type) and issubclass(found, attention.TokenMixer)


def operator_subject(
    name: str, tokens: int, embed_dims: int, num_heads: int, settings: RunSettings
) -> Subject:
    """Build an attention with its projections, to be timed on random tokens
    `(batch, tokens, embed_dims)`.
    """
    torch.manual_seed(0)
    cfg = mixer_config(name)
    window = cfg.pop('window', None)
    hw_shape = H, W = map_of(tokens)
    grid_size = hw_shape if window is None else (min(window, H), min(window, W))
    try:
        mixer = build_mixer(cfg, embed_dims=embed_dims, num_heads=num_heads, grid_size=grid_size)
    except TypeError as error:
        raise ValueError(f'--operators {name}: invalid arguments: {error}') from error
    if window is not None:
        mixer = Windowed(mixer, grid_size)

    def forward(x_BNC: Tensor) -> Tensor:
        return mixer(x_BNC, hw_shape)

    if name == EXPLICIT:
        forward = sdpa_kernel(SDPBackend.MATH)(forward)
    x_BNC = torch.randn(settings.batch, tokens, embed_dims)
    call = make_call(model=mixer, forward=forward, inputs=x_BNC, settings=settings)
    return Subject(
        name=name,
        call=call,
        batch=settings.batch,
        params=count_parameters(mixer),
        tokens=tokens,
    )
