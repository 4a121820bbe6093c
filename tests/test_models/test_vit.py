"""Plain ViT: rotary positions, prefix tokens, positions of other sizes, windows, norms, freezing
and bad input.
"""

import copy

import pytest
import torch
import torch.nn.functional as F

from mmflatten.models import ViT
from mmflatten.models.attention import LinearAttention, SoftmaxAttention
from mmflatten.models.layers import NormalizedRotary, SwiGLU
from mmflatten.ops import reference, resize_grid, rotary_normalized

ARCH = dict(embed_dims=24, depth=4, num_heads=3, patch_size=8, img_size=32)
ROTARY = dict(ARCH, rotary=100.0, key_bias=False, registers=2)


def build(arch=ARCH, **kwargs):
    torch.manual_seed(0)
    model = ViT(**{**dict(arch=arch, out_type='featmap'), **kwargs})
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


@pytest.mark.parametrize('prefix', [0, 3])
def test_rotary_equals_matrices_with_gradients(prefix):
    torch.manual_seed(0)
    rotary = NormalizedRotary(16, 100.0)
    x = torch.randn(2, prefix + 15, 32, dtype=torch.float64, requires_grad=True)
    other, weight = x.detach().clone().requires_grad_(), torch.randn(2, prefix + 15, 32)
    y, expected = (
        rotary_normalized(x, (3, 5), rotary.periods),
        reference.rotary_normalized(other, (3, 5), rotary.periods.double()),
    )
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(y[:, :prefix], x[:, :prefix])
    for result in (y, expected):
        (result * weight).sum().backward()
    torch.testing.assert_close(x.grad, other.grad)
    assert rotary_normalized(x.half(), (3, 5), rotary.periods).dtype == torch.float16
    with pytest.raises(ValueError, match='30'):
        rotary_normalized(torch.zeros(1, 15, 30), (3, 5), rotary.periods)


@pytest.mark.parametrize(
    'mixer, attend',
    [
        (SoftmaxAttention, reference.softmax_attention),
        (
            LinearAttention,
            lambda q, k, v: reference.linear_attention(F.relu(q) + 1e-6, F.relu(k) + 1e-6, v),
        ),
    ],
)
def test_attention_with_rotary_and_prefix_equals_explicit_reference(mixer, attend):
    """Features are those of rotated queries and keys; class token and registers are keys and
    queries, not rotated.
    """
    torch.manual_seed(0)
    rotary = NormalizedRotary(8, 100.0)
    mixer = mixer(16, 2, (3, 4), rotate=rotary.__call__, key_bias=False)
    torch.nn.init.normal_(mixer.qkv.bias)
    x, x_2 = (
        torch.randn(2, 5 + 12, 16, generator=torch.Generator().manual_seed(1), requires_grad=True)
        for _ in range(2)
    )
    y = mixer(x, (3, 4))
    bias = torch.cat((mixer.qkv.bias[:16], torch.zeros(16), mixer.qkv.bias[16:]))
    q, k, v = F.linear(x_2, mixer.qkv.weight, bias).chunk(3, -1)
    q, k = (reference.rotary_normalized(part, (3, 4), rotary.periods) for part in (q, k))
    q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in (q, k, v))
    expected = F.linear(
        attend(q, k, v).transpose(1, 2).flatten(2), mixer.proj.weight, mixer.proj.bias
    )
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5)
    y.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(x.grad, x_2.grad, rtol=1e-3, atol=1e-4)
    assert list(mixer.state_dict()) == ['qkv.weight', 'qkv.bias', 'proj.weight', 'proj.bias']


def cubic(x):
    """Keys' cubic kernel with `a = -0.75`."""
    x = abs(x)
    if x <= 1:
        return 1.25 * x**3 - 2.25 * x**2 + 1
    if x < 2:
        return -0.75 * (x**3 - 5 * x**2 + 8 * x - 4)
    return 0.0


def test_positions_are_resized_by_dinov2s_rule():
    table = torch.randn(1, 5 * 5, 3, generator=torch.Generator().manual_seed(0))
    weights = []
    for side in (7, 4):
        rows = torch.zeros(side, 5)
        for i in range(side):
            place = (i + 0.5) * 5 / (side + 0.1) - 0.5
            for j in range(int(place // 1) - 1, int(place // 1) + 3):
                rows[i, min(max(j, 0), 4)] += cubic(place - j)
        weights.append(rows)
    expected = torch.einsum('ih,jw,hwc->ijc', *weights, table.view(5, 5, 3)).flatten(0, 1)
    torch.testing.assert_close(
        resize_grid(table, (5, 5), (7, 4), 'bicubic-offset')[0], expected, rtol=1e-4, atol=1e-5
    )
    assert resize_grid(table, (5, 5), (5, 5), 'bicubic-offset') is table
    with pytest.raises(ValueError, match='nearest'):
        build(dict(ARCH, resize='nearest'))


def test_swiglu_equals_its_formula():
    torch.manual_seed(0)
    layer, x = SwiGLU(6, 10), torch.randn(2, 5, 6)
    gate, value = x @ layer.gated.weight[:10].T, x @ layer.gated.weight[10:].T
    gate, value = gate + layer.gated.bias[:10], value + layer.gated.bias[10:]
    expected = (gate * gate.sigmoid() * value) @ layer.fc2.weight.T + layer.fc2.bias
    torch.testing.assert_close(layer(x, (1, 5)), expected)


def test_tokens_are_class_registers_map_and_only_the_map_has_positions():
    model, image = build(dict(ARCH, registers=2, class_position=False)), torch.zeros(1, 3, 32, 32)
    tokens, hw_shape = model.embed(image)
    assert hw_shape == (4, 4)
    assert tokens.shape == (1, 19, 24)
    assert model.embed.position.table.shape == (1, 16, 24)
    torch.testing.assert_close(tokens[:, :1], model.embed.cls_token)
    torch.testing.assert_close(tokens[:, 1:3], model.embed.registers)
    torch.testing.assert_close(
        tokens[:, 3:], model.embed.projection.bias + model.embed.position.table
    )


def test_windows_have_the_same_weights_and_one_window_is_global():
    image = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    whole = build(attn_types='SSSS')
    windowed = {side: build(attn_types='WWSW', window_size=side) for side in (4, 2)}
    for model in windowed.values():
        model.load_state_dict(whole.state_dict(), strict=True)
    torch.testing.assert_close(windowed[4](image)[0], whole(image)[0])
    assert not torch.allclose(windowed[2](image)[0], whole(image)[0], atol=1e-2)
    # A window sees its own tokens alone: without prefix tokens and global blocks, pixels outside do
    # not matter.
    local = build(attn_types='W', window_size=2, with_cls_token=False)
    other = image.clone()
    other[..., 16:] += 1
    torch.testing.assert_close(local(other)[0][..., :2], local(image)[0][..., :2])
    copied = copy.deepcopy(local)
    torch.nn.init.zeros_(local.blocks[0].attn.fn.qkv.weight)
    assert not torch.allclose(copied(image)[0], local(image)[0])  # a copy runs its own weights


def test_output_norms():
    image = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    shared, none = (build(output_norm=name, out_indices=(0, 2)) for name in ('shared', 'none'))
    assert [*shared.norms] == ['3'] and [*none.norms] == []
    none.load_state_dict(
        {key: value for key, value in shared.state_dict().items() if 'norms' not in key}
    )
    norm = shared.norms['3']
    for normed, raw in zip(shared(image), none(image)):
        torch.testing.assert_close(normed, norm(raw.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
    both = build(out_type='cls_and_avg', output_norm='shared', out_indices=(0, 2))
    both.load_state_dict(shared.state_dict())
    x, hw_shape = both.embed(image)
    x = norm(both.blocks[0](x, hw_shape))
    assert both.out_channels == (48, 48)
    torch.testing.assert_close(both(image)[0], torch.cat((x[:, 0], x[:, 1:].mean(1)), dim=-1))


@pytest.mark.parametrize('output_norm', ['separate', 'shared'])
def test_frozen_backbone_trains_nothing(output_norm):
    model = build(ROTARY, frozen_stages=4, output_norm=output_norm)
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert {name for name, p in build(frozen_stages=3).named_parameters() if p.requires_grad} >= {
        'norms.3.weight'
    }


def test_layer_depths_cover_embedding_blocks_and_head():
    model = build(dict(ARCH, registers=2))
    depths = {name: model.get_layer_depth(name)[0] for name, _ in model.named_parameters()}
    assert depths['embed.registers'] == 0 and depths['blocks.2.attn.norm.bias'] == 3
    assert depths['norms.3.weight'] == 5


@pytest.mark.parametrize(
    'kwargs, words',
    [
        (dict(arch='dino'), ('arch', 'dinov3-base')),
        (dict(arch=dict(ARCH, registers=-1)), ('registers', '-1')),
        (dict(arch=dict(ARCH, swiglu=1)), ('swiglu', '1')),
        (dict(img_size=6), ('img_size', '6', '8')),
        (dict(arch=dict(ARCH, rotary=100.0, num_heads=4)), ('multiple of 4', '6')),
        (dict(output_norm='last'), ('last',)),
        (dict(out_type='cls_and_avg', with_cls_token=False), ('out_type', 'cls_and_avg')),
        (
            dict(arch=ROTARY, mixers=dict(S=dict(type='FocalAttention'))),
            ('rotate', 'FocalAttention'),
        ),
        (dict(window_size=0), ('window_size', '0')),
    ],
)
def test_bad_arguments_are_named(kwargs, words):
    with pytest.raises(ValueError) as error:
        build(**kwargs)
    assert all(word in str(error.value) for word in words) and '\n' not in str(error.value)


@pytest.mark.parametrize(
    'arch, word',
    [
        (dict(ARCH, registers=3), 'registers'),
        (ARCH, 'registers'),
        (dict(ARCH, registers=2, patch_size=16), 'projection'),
        (ROTARY, 'qkv.bias'),
    ],
)
def test_weights_of_another_architecture_are_named(tmp_path, arch, word):
    torch.save(build(dict(ARCH, registers=2)).state_dict(), tmp_path / 'weights.pth')
    model = build(arch, init_cfg=dict(type='Pretrained', checkpoint=str(tmp_path / 'weights.pth')))
    with pytest.raises(ValueError, match=word) as error:
        model.init_weights()
    assert '\n' not in str(error.value)


def test_missing_file_of_dinov3_says_where_to_get_it():
    model = build(ROTARY, init_cfg=dict(type='Pretrained', checkpoint='checkpoints/none.pth'))
    with pytest.raises(
        ValueError, match='checkpoints/none.pth does not exist.*license.*ai.meta.com'
    ) as error:
        model.init_weights()
    assert '\n' not in str(error.value)


def test_detector_leaves_out_prefix_tokens_of_a_checkpoint(tmp_path):
    weights = build(dict(ARCH, registers=2)).state_dict()
    torch.save({**weights, 'embed.mask_token': torch.zeros(1, 24)}, tmp_path / 'weights.pth')
    model = build(
        dict(ARCH, registers=2),
        with_cls_token=False,
        init_cfg=dict(type='Pretrained', checkpoint=str(tmp_path / 'weights.pth')),
    )
    model.init_weights()
    torch.testing.assert_close(model.embed.position.table, weights['embed.position.table'][:, 1:])
    assert model.embed.cls_token is None and model.embed.registers is None
