"""Options of `TokenMixer` for subclasses: extra projections, gates, local terms, means without padding."""
import pytest
import torch
import torch.nn.functional as F

from mmflatten.models.attention import (
    CrossShapedAttention,
    FocusedLinearAttention,
    SoftmaxAttention,
    TokenMixer,
    mean_of_real,
)
from mmflatten.ops import softmax_attention
from mmflatten.registry import MODELS


def randomise(module, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.data = 0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
    return module.eval()


class GatedAttention(TokenMixer):
    """Attention with a gate as wide as the tokens and another projection as wide as a head."""

    extra_projections = ('C', 'd')

    def attend(self, q, k, v, maps):
        assert maps.x is not None and maps.extra[1].shape[-1] == q.shape[-1]
        return softmax_attention(q, k, v) + maps.extra[1][:, None]

    def finish(self, y_BNC, maps):
        return y_BNC * maps.extra[0]


@pytest.mark.parametrize('sr_ratio', [1, 2])
def test_extra_projections_use_unreduced_tokens(sr_ratio):
    mixer = randomise(GatedAttention(12, 3, (4, 4), sr_ratio=sr_ratio))
    x = torch.randn(2, 1 + 35, 12)
    weight, bias = mixer.qkv.weight, mixer.qkv.bias
    assert weight.shape == (12 * 4 + 4, 12)
    plain = SoftmaxAttention(12, 3, (4, 4), sr_ratio=sr_ratio)
    state = {**mixer.state_dict(), 'qkv.weight': weight[:36], 'qkv.bias': bias[:36], 'proj.weight': torch.eye(12),
             'proj.bias': torch.zeros(12)}
    plain.load_state_dict(state)
    gate, addend = F.linear(x, weight[36:], bias[36:]).split((12, 4), dim=-1)
    expected = mixer.proj((plain(x, (5, 7)) + addend.repeat(1, 1, 3)) * gate)
    torch.testing.assert_close(mixer(x, (5, 7)), expected, rtol=1e-5, atol=1e-5)


class Gate(TokenMixer):
    extra_projections = ('C',)

    def attend(self, q, k, v, maps):
        return softmax_attention(q, k, v)

    def finish(self, y_BNC, maps):
        return y_BNC * maps.extra[0]


def test_cross_shaped_attention_splits_gates_with_channels():
    MODELS.register_module(name='TestGate', module=Gate, force=True)
    try:
        gated = randomise(CrossShapedAttention(8, 2, (4, 4), split=2, mixer=dict(type='TestGate')))
    finally:
        MODELS.module_dict.pop('TestGate')
    plain = CrossShapedAttention(8, 2, (4, 4), split=2).eval()
    state = {**gated.state_dict(), 'qkv.weight': gated.qkv.weight[:24], 'qkv.bias': gated.qkv.bias[:24],
             'proj.weight': torch.eye(8), 'proj.bias': torch.zeros(8)}
    plain.load_state_dict(state)
    x = torch.randn(2, 16, 8)
    gate = F.linear(x, gated.qkv.weight[24:], gated.qkv.bias[24:])
    torch.testing.assert_close(gated(x, (4, 4)), gated.proj(plain(x, (4, 4)) * gate), rtol=1e-5, atol=1e-5)


def test_mean_of_real_excludes_padding():
    x, mask = torch.randn(4, 6, 5), torch.tensor([[True] * 6, [True] * 4 + [False] * 2])[:, None]
    means = mean_of_real(x, mask).mean(1)
    for image, keep in zip(range(4), (6, 4, 6, 4)):
        torch.testing.assert_close(means[image], x[image, :keep].mean(0))


def test_local_convolutions_lists_those_that_exist():
    assert SoftmaxAttention(8, 2, (4, 4)).local_convolutions() == {}
    mixer = FocusedLinearAttention(8, 2, (4, 4), lepe_kernel=3)
    assert mixer.local_convolutions() == dict(dwc=mixer.dwc, lepe=mixer.lepe)
