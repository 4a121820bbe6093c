"""Rank and cost of the attentions, as the papers state them."""

import pytest
import torch

from mmflatten.measure.flops.counter import PRODUCT, OperationCounter
from mmflatten.models.attention import Maps, build_mixer

LINEAR = {
    'focused': dict(type='FocusedLinearAttention'),
    'gated': dict(type='RankAugmentedLinearAttention'),
    'relu': dict(type='LinearAttention'),
    'elu': dict(type='LinearAttention', feature_map='elu'),
    'leaky-relu': dict(type='LinearAttention', feature_map='leaky_relu'),
    'efficient': dict(type='EfficientAttention'),
    'hydra': dict(type='HydraAttention'),
    'angular': dict(type='LinearAngularAttention'),
    'enhanced': dict(type='EnhancedLinearAttention'),
    'clamped': dict(type='ClampedLinearAttention'),
    'clamped-lcm': dict(type='ClampedLinearAttention', lcm_kernel=7),
    'xca': dict(type='CrossCovarianceAttention'),
    'cosformer': dict(type='CosFormerAttention'),
    'sima': dict(type='SimAAttention'),
    # The window and the region around it have a constant size.
    'focal': dict(type='FocalAttention', window_size=4, focal_window=3, expand_size=1),
    'cross-shaped': dict(
        type='CrossShapedAttention', split=None, mixer=dict(type='FocusedLinearAttention')
    ),
}


def count(cfg, H, W):
    """Multiply-accumulates of a mixer on a map, by the kind of operation."""
    with torch.device('meta'):
        mixer = build_mixer(cfg, embed_dims=24, num_heads=3, grid_size=(H, W)).eval()
    with torch.no_grad(), OperationCounter(mixer) as counter:
        mixer(torch.empty(2, H * W, 24, device='meta'), (H, W))
    assert not counter.counts.uncounted
    return counter.counts


@pytest.mark.parametrize('name', LINEAR)
def test_linear_attention_cost_is_linear(name):
    small, large = (count(LINEAR[name], *hw_shape) for hw_shape in ((16, 24), (32, 48)))
    assert small.macs > 0 and large.macs == 4 * small.macs


def test_softmax_attention_cost_is_quadratic():
    small, large = (
        count(dict(type='SoftmaxAttention'), *hw_shape).by_kind for hw_shape in ((16, 24), (32, 48))
    )
    assert small[PRODUCT] > 0 and large[PRODUCT] == 16 * small[PRODUCT]


def implicit_map(mixer, H, W, channel):
    """The attention matrix of a channel, `(N, N)`, from values that are one-hot over the tokens."""
    N, C = H * W, mixer.num_heads * 8
    generator = torch.Generator().manual_seed(0)
    q, k = (
        torch.randn(1, N, C, dtype=torch.float64, generator=generator).expand(N, N, C)
        for _ in range(2)
    )
    values = torch.zeros(N, N, C, dtype=torch.float64)
    values[:, :, channel] = torch.eye(N, dtype=torch.float64)
    return mixer.attend(q, k, values, Maps((H, W), (H, W)))[:, :, channel].t()


@pytest.mark.parametrize(('H', 'W'), [(7, 7), (5, 9)])
@pytest.mark.parametrize('channel', [0, 11, 23])
def test_focused_attention_rank_is_full_with_convolution(H, W, channel):
    """FLatten, sec. 4.2.2 and Figure 5: the rank is at most the width of a head, and full with the
    convolution.
    """
    torch.manual_seed(0)
    ranks = []
    for kernel_size in (None, 5):
        mixer = build_mixer(
            dict(type='FocusedLinearAttention', kernel_size=kernel_size),
            embed_dims=24,
            num_heads=3,
            grid_size=(H, W),
        ).double()
        if kernel_size:
            torch.nn.init.zeros_(mixer.dwc.conv.bias)  # a bias does not depend on the values
        ranks.append(torch.linalg.matrix_rank(implicit_map(mixer, H, W, channel)).item())
    assert ranks == [8, H * W]
