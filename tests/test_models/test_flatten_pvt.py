"""FLatten-PVT and FLatten-PVTv2: sizes, spatial reduction, positional tables, norms."""

import pytest
import torch
import torch.nn.functional as F

from mmflatten.models.attention import FocusedLinearAttention, SoftmaxAttention
from mmflatten.models.backbones import FLattenPVT, FLattenPVTv2

SMALL = dict(embed_dims=(8, 12, 20, 32), depths=(1, 1, 2, 1), num_heads=(1, 2, 5, 8))


def classifier_parameters(cls, **kwargs):
    with torch.device('meta'):
        model = cls(out_indices=(3,), **kwargs)
    return sum(p.numel() for p in model.parameters()) + 1000 * (model.out_channels[-1] + 1)


def randomised(module):
    generator = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        parameter.data = 0.3 * torch.randn(
            parameter.shape, generator=generator, dtype=parameter.dtype
        )
    return module.eval()


@pytest.mark.parametrize(
    ('kwargs', 'counted'),
    [
        (dict(arch='tiny'), 12_150_504),
        (dict(arch='small'), 21_670_248),
        (dict(arch='medium'), 37_242_216),
        (dict(arch='large'), 50_649_192),
        (dict(arch='tiny', attn_types='SSSS'), 13_228_264),
        (dict(arch='small', attn_types='SSSS'), 24_484_840),
        (dict(arch='medium', attn_types='SSSS'), 44_207_080),
        (dict(arch='large', attn_types='SSSS'), 61_368_296),
    ],
)
def test_pvt_parameter_counts_are_official_without_unused_norm(kwargs, counted):
    assert classifier_parameters(FLattenPVT, **kwargs) == counted - 2 * 512


@pytest.mark.parametrize(
    ('arch', 'counted'),
    [('tiny', 13_229_288), ('small', 24_485_864), ('medium', 44_208_104), ('large', 61_369_320)],
)
def test_pvt_parameter_counts_with_class_token_are_official(arch, counted):
    assert (
        classifier_parameters(FLattenPVT, arch=arch, attn_types='SSSS', with_cls_token=True)
        == counted
    )


def test_pvt_returns_class_token_as_last_map():
    model = randomised(FLattenPVT(SMALL, img_size=64, attn_types='SSSS', with_cls_token=True))
    for size in ((64, 64), (65, 97)):
        shapes = [out.shape for out in model(torch.randn(2, 3, *size))]
        assert [shape[1] for shape in shapes] == [8, 12, 20, 32]
        assert shapes[0][2:] == (-(-size[0] // 4), -(-size[1] // 4)) and shapes[3][2:] == (1, 1)


def test_pvt_dense_model_ignores_class_token_of_classifier(tmp_path):
    classifier = randomised(FLattenPVT(SMALL, img_size=64, attn_types='SSSS', with_cls_token=True))
    torch.save(classifier.state_dict(), tmp_path / 'classifier.pth')
    start = dict(type='Pretrained', checkpoint=str(tmp_path / 'classifier.pth'))
    given, sizes = classifier.state_dict(), {64: (2, 2), 128: (4, 4)}
    for size, grid in sizes.items():
        model = FLattenPVT(SMALL, img_size=size, attn_types='SSSS', init_cfg=start)
        model.init_weights()
        taken = model.state_dict()
        assert given.keys() - taken.keys() == {
            'stages.3.embed.cls_token',
            'stages.3.norm.weight',
            'stages.3.norm.bias',
        }
        table = given['stages.3.position.table'][:, 1:].view(1, 2, 2, 32).permute(0, 3, 1, 2)
        expected = F.interpolate(table, grid, mode='bicubic').flatten(2).transpose(1, 2)
        torch.testing.assert_close(taken['stages.3.position.table'], expected)
        assert torch.equal(
            taken['stages.3.blocks.0.ffn.fn.fc1.weight'],
            given['stages.3.blocks.0.ffn.fn.fc1.weight'],
        )


def test_pvt_layer_decay_of_class_token_is_that_of_its_stage():
    model = FLattenPVT(SMALL, img_size=64, attn_types='SSSS', with_cls_token=True)
    names = 'embed.cls_token', 'blocks.0.attn.norm.bias'
    token, block = (model.get_layer_depth(f'stages.3.{name}') for name in names)
    assert token == block


@pytest.mark.parametrize(
    ('kwargs', 'counted'),
    [
        (dict(arch='b0'), 3_594_824),
        (dict(arch='b1'), 12_931_240),
        (dict(arch='b2'), 22_548_264),
        (dict(arch='b3'), 38_273_832),
        (dict(arch='b4'), 51_836_968),
        (dict(arch='b5'), 67_061_544),
        (dict(arch='b0', attn_types='SSSS'), 3_666_760),
        (dict(arch='b2', attn_types='SSSS'), 25_362_856),
    ],
)
def test_pvt_v2_parameter_counts_are_official(kwargs, counted):
    assert classifier_parameters(FLattenPVTv2, **kwargs) == counted


@pytest.mark.parametrize('cls', [FLattenPVT, FLattenPVTv2])
def test_pvt_spatial_reduction_depends_on_block_kind(cls):
    model = cls(SMALL, img_size=64, attn_types='SLMS1', linear_sr_ratios=(8, 2, 1, 1))
    mixers = []
    for stage in model.stages:
        mixers += [block.attn.fn for block in stage.blocks]
    assert [type(mixer) for mixer in mixers] == [
        SoftmaxAttention,
        FocusedLinearAttention,
        FocusedLinearAttention,
        SoftmaxAttention,
        SoftmaxAttention,
    ]
    assert [mixer.reduction and mixer.reduction.sr_ratio for mixer in mixers] == [
        8,
        2,
        None,
        2,
        None,
    ]
    assert [mixers[i].positional_encoding.grid_size for i in (1, 2)] == [(4, 4), (4, 4)]


def reduced_projections(mixer, x, H, W, sr):
    """Explicit query, key and value of PVT's spatial reduction."""
    B, N, C = x.shape
    reduced = (
        F.conv2d(
            x.transpose(1, 2).reshape(B, C, H, W),
            mixer.reduction.conv.weight,
            mixer.reduction.conv.bias,
            stride=sr,
        )
        .flatten(2)
        .transpose(1, 2)
    )
    reduced = F.layer_norm(
        reduced, (C,), mixer.reduction.norm.weight, mixer.reduction.norm.bias, 1e-5
    )
    q = F.linear(x, mixer.qkv.weight[:C], mixer.qkv.bias[:C])
    return q, *F.linear(reduced, mixer.qkv.weight[C:], mixer.qkv.bias[C:]).split(C, dim=-1)


@pytest.mark.parametrize('sr', [8, 4, 2])
def test_pvt_reduced_focused_attention_matches_explicit_formula(sr):
    """Keys are from the reduced map. The depthwise convolution uses its values, enlarged along the
    flattened map.
    """
    model = FLattenPVT(
        dict(embed_dims=(8,), depths=(1,), num_heads=(2,), mlp_ratios=(4.0,)),
        img_size=(32, 64),
        attn_types='L',
        linear_sr_ratios=(sr,),
        sr_ratios=(1,),
        out_indices=(0,),
    )
    mixer = randomised(model.stages[0].blocks[0].attn.fn.double())
    H, W, C, h, d = 8, 16, 8, 2, 4
    x = torch.randn(2, H * W, C, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    q, k, v = reduced_projections(mixer, x, H, W, sr)
    k = k + mixer.positional_encoding.table
    q, k = [(F.relu(t) + 1e-6) / F.softplus(mixer.scale) for t in (q, k)]
    q, k = [t**3 / (t**3).norm(dim=-1, keepdim=True) * t.norm(dim=-1, keepdim=True) for t in (q, k)]
    local = F.interpolate(v.transpose(1, 2), size=H * W, mode='linear').view(2 * h, d, H, W)
    local = F.conv2d(local, mixer.dwc.conv.weight, mixer.dwc.conv.bias, padding=2, groups=d).view(
        2, C, H * W
    )
    q, k, v = [t.unflatten(-1, (h, d)).transpose(1, 2) for t in (q, k, v)]
    scores = q @ k.transpose(-2, -1)
    out = (scores / k.shape[2]) @ v / (scores.mean(-1, keepdim=True) + 1e-6)
    expected = mixer.proj(out.transpose(1, 2).flatten(2) + local.transpose(1, 2))
    torch.testing.assert_close(mixer(x, (H, W)), expected, rtol=1e-9, atol=1e-9)


def test_pvt_softmax_block_matches_explicit_formula():
    model = FLattenPVTv2(SMALL, img_size=64, attn_types='SSSS')
    mixer = randomised(model.stages[1].blocks[0].attn.fn.double())
    x = torch.randn(2, 32, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    q, k, v = (
        t.unflatten(-1, (2, 6)).transpose(1, 2) for t in reduced_projections(mixer, x, 4, 8, 4)
    )
    expected = ((q @ k.transpose(-2, -1) * 6**-0.5).softmax(-1) @ v).transpose(1, 2).flatten(2)
    torch.testing.assert_close(mixer(x, (4, 8)), mixer.proj(expected))


def test_pvt_resizes_positions_bilinearly():
    stage = randomised(FLattenPVT(SMALL, img_size=64)).stages[0]
    zeros = torch.zeros(1, 16 * 16, 8)
    assert torch.equal(stage.position(zeros, (16, 16)), stage.position.table)
    grid = stage.position.table.view(1, 16, 16, 8).permute(0, 3, 1, 2)
    expected = (
        F.interpolate(grid, size=(8, 20), mode='bilinear', align_corners=False)
        .flatten(2)
        .transpose(1, 2)
    )
    torch.testing.assert_close(stage.position(zeros[:, :160], (8, 20)), expected)


def test_pvt_maps_have_no_norm():
    model = randomised(FLattenPVT(SMALL, img_size=64))
    assert not any(key.startswith('norms') for key in model.state_dict())
    tokens, hw_shape = model.stages[0].embed(torch.randn(1, 3, 64, 64))
    first = model.stages[0].blocks[0](model.stages[0].position(tokens, hw_shape), hw_shape)
    assert model.stages[0].norm(first) is first


def test_pvt_v2_stages_end_with_norm():
    torch.manual_seed(0)
    model = FLattenPVTv2(SMALL, img_size=64).eval()
    model.init_weights()
    maps = model(torch.randn(1, 3, 64, 96))
    for out in maps:
        torch.testing.assert_close(out.mean(1), torch.zeros_like(out[:, 0]), rtol=0, atol=1e-5)
    tokens, hw_shape = model.stages[1](maps[0])
    torch.testing.assert_close(tokens, maps[1].flatten(2).transpose(1, 2))


def test_pvt_norms_have_official_eps():
    for model in (FLattenPVT(SMALL, attn_types='SSSS'), FLattenPVTv2(SMALL, attn_types='SSSS')):
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.LayerNorm):
                assert module.eps == (1e-5 if 'embed' in name or 'reduction' in name else 1e-6), (
                    name
                )


def test_pvt_v2_convolutions_start_from_fan_out():
    torch.manual_seed(0)
    model = FLattenPVTv2('b0', linear_sr_ratios=(8, 4, 2, 1))
    model.init_weights()
    mixer = model.stages[2].blocks[0].attn.fn
    for conv, fan_out in (
        (model.stages[0].embed.projection, 49 * 32),
        (mixer.dwc.conv, 25),
        (mixer.reduction.conv, 4 * 160),
        (model.stages[2].blocks[0].ffn.fn.inner.conv, 9),
    ):
        assert conv.weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.1)
        assert not conv.bias.any()


def test_pvt_v2_keeps_custom_init_cfg():
    model = FLattenPVTv2(SMALL, init_cfg=dict(type='Constant', layer='Conv2d', val=3.0))
    model.init_weights()
    assert (model.stages[0].embed.projection.weight == 3.0).all()


def test_pvt_positions_start_with_std_of_0_02():
    torch.manual_seed(0)
    model = FLattenPVT('tiny')
    model.init_weights()
    for stage in model.stages:
        assert stage.position.table.std().item() == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize('cls', [FLattenPVT, FLattenPVTv2])
@pytest.mark.parametrize(
    ('kwargs', 'message'),
    [
        (dict(sr_ratios=(8, 4, 2)), r'sr_ratios.*\(8, 4, 2\)'),
        (dict(linear_sr_ratios=(1, 0, 1, 1)), r'linear_sr_ratios.*\(1, 0, 1, 1\)'),
        (dict(attn_types='LLL'), r"attn_types.*'LLL'"),
        (dict(arch=dict(SMALL, num_heads=(3, 2, 5, 8))), 'num_heads.*8.*3'),
        (dict(arch=dict(SMALL, mlp_ratios=(4.0, 4.0))), r"'mlp_ratios': 2"),
        (dict(img_size=0), r'img_size.*0'),
    ],
)
def test_pvt_rejects_invalid_arguments(cls, kwargs, message):
    with pytest.raises(ValueError, match=message):
        cls(**kwargs)
