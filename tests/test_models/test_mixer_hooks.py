"""Options of `TokenMixer` for subclasses: further inputs, gates, local terms, means without
padding.
"""

import pytest
import torch
import torch.nn.functional as F

from mmflatten.models.attention import (
    CrossShapedAttention,
    SoftmaxAttention,
    TokenMixer,
    ValueConv,
    mean_of_real,
)
from mmflatten.ops import softmax_attention
from mmflatten.registry import MODELS


def randomise(module, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.data = 0.3 * torch.randn(
            parameter.shape, generator=generator, dtype=parameter.dtype
        )
    return module.eval()


class GatedAttention(TokenMixer):
    """Attention with a gate as wide as the tokens, another projection as wide as a head, and the
    input.
    """

    extra_inputs = ('C', 'd', 'x')

    def attend(self, q, k, v, maps):
        assert [x.shape[-1] for x in maps.extra] == [12, 4, 12]
        return softmax_attention(q, k, v) + maps.extra[1][:, None]

    def finish(self, y_BNC, maps):
        return y_BNC * maps.extra[0] + maps.extra[2]


@pytest.mark.parametrize('sr_ratio', [1, 2])
def test_extra_inputs_use_unreduced_tokens(sr_ratio):
    mixer = randomise(GatedAttention(12, 3, (4, 4), sr_ratio=sr_ratio))
    x = torch.randn(2, 1 + 35, 12)
    weight, bias = mixer.qkv.weight, mixer.qkv.bias
    assert weight.shape == (12 * 4 + 4, 12)
    plain = SoftmaxAttention(12, 3, (4, 4), sr_ratio=sr_ratio)
    state = {
        **mixer.state_dict(),
        'qkv.weight': weight[:36],
        'qkv.bias': bias[:36],
        'proj.weight': torch.eye(12),
        'proj.bias': torch.zeros(12),
    }
    plain.load_state_dict(state)
    gate, addend = F.linear(x, weight[36:], bias[36:]).split((12, 4), dim=-1)
    expected = mixer.proj((plain(x, (5, 7)) + addend.repeat(1, 1, 3)) * gate + x)
    torch.testing.assert_close(mixer(x, (5, 7)), expected, rtol=1e-5, atol=1e-5)


class Gate(TokenMixer):
    extra_inputs = ('C', 'x')

    def attend(self, q, k, v, maps):
        return softmax_attention(q, k, v)

    def finish(self, y_BNC, maps):
        return y_BNC * maps.extra[0] + maps.extra[1]


def test_cross_shaped_attention_splits_gates_with_channels():
    MODELS.register_module(name='TestGate', module=Gate, force=True)
    try:
        gated = randomise(CrossShapedAttention(8, 2, (4, 4), split=2, mixer=dict(type='TestGate')))
    finally:
        MODELS.module_dict.pop('TestGate')
    plain = CrossShapedAttention(8, 2, (4, 4), split=2).eval()
    state = {
        **gated.state_dict(),
        'qkv.weight': gated.qkv.weight[:24],
        'qkv.bias': gated.qkv.bias[:24],
        'proj.weight': torch.eye(8),
        'proj.bias': torch.zeros(8),
    }
    plain.load_state_dict(state)
    x = torch.randn(2, 16, 8)
    gate = F.linear(x, gated.qkv.weight[24:], gated.qkv.bias[24:])
    torch.testing.assert_close(
        gated(x, (4, 4)), gated.proj(plain(x, (4, 4)) * gate + x), rtol=1e-5, atol=1e-5
    )


def test_mean_of_real_excludes_padding():
    x, mask = torch.randn(4, 6, 5), torch.tensor([[True] * 6, [True] * 4 + [False] * 2])[:, None]
    means = mean_of_real(x, mask).mean(1)
    for image, keep in zip(range(4), (6, 4, 6, 4)):
        torch.testing.assert_close(means[image], x[image, :keep].mean(0))


class LocalAttention(SoftmaxAttention):
    """Attention with a local term under a name of its own."""

    def __init__(self, embed_dims, num_heads, grid_size, **kwargs):
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.neighbours = ValueConv(embed_dims, 3)


def test_local_terms_are_found_by_their_class():
    assert SoftmaxAttention(8, 2, (4, 4)).local_terms() == {}
    mixer = LocalAttention(8, 2, (4, 4))
    assert mixer.local_terms() == dict(neighbours=mixer.neighbours)
    mixer.lepe = ValueConv(8, 3)
    assert mixer.local_terms() == dict(lepe=mixer.lepe, neighbours=mixer.neighbours)


def test_lepe_adds_a_convolution_of_the_values():
    mixer, plain = randomise(SoftmaxAttention(8, 2, (4, 4))), SoftmaxAttention(8, 2, (4, 4)).eval()
    plain.load_state_dict(mixer.state_dict())
    mixer.lepe = randomise(ValueConv(8, 3))
    x = torch.randn(2, 1 + 15, 8)
    values = (
        F.linear(x, mixer.qkv.weight[16:], mixer.qkv.bias[16:])[:, 1:]
        .transpose(1, 2)
        .unflatten(2, (3, 5))
    )
    local = F.conv2d(
        values, mixer.lepe.conv.weight, mixer.lepe.conv.bias, padding=1, groups=8
    ).flatten(2)
    local = torch.cat((torch.zeros(2, 1, 8), local.transpose(1, 2)), dim=1)
    expected = plain(x, (3, 5)) + local @ mixer.proj.weight.T
    torch.testing.assert_close(mixer(x, (3, 5)), expected, rtol=1e-5, atol=1e-5)
