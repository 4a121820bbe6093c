"""FLatten-DeiT: class token, feature maps, windows with a class token."""

import pytest
import torch
import torch.nn.functional as F

from mmflatten.models.attention import FocusedLinearAttention, SoftmaxAttention, Windowed
from mmflatten.models.backbones import FLattenDeiT
from mmflatten.registry import MODELS

SMALL = dict(embed_dims=12, depth=4, num_heads=3)


def classifier_parameters(**kwargs):
    with torch.device('meta'):
        model = FLattenDeiT(**kwargs)
    return sum(p.numel() for p in model.parameters()) + 1000 * (model.out_channels[-1] + 1)


def build(**kwargs):
    model = FLattenDeiT(**{'arch': SMALL, 'img_size': 64, **kwargs})
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter.data = 0.3 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


@pytest.mark.parametrize(
    ('kwargs', 'expected'),
    [
        (dict(arch='tiny'), 6_191_272),
        (dict(arch='tiny', attn_types='S'), 5_717_416),
        (
            dict(arch='tiny', linear_attention=dict(type='LinearAttention'), conv_ffn=True),
            5_809_576,
        ),
        (dict(arch='small', attn_types='S'), 22_050_664),
        (dict(arch='base', attn_types='S'), 86_567_656),
    ],
)
def test_deit_parameter_counts_are_official(kwargs, expected):
    assert classifier_parameters(**kwargs) == expected


def test_deit_parameter_counts_of_ablation():
    """FLatten, Table 4: 5.7 M without the depthwise convolution, which adds the positional
    encoding.
    """
    for options in (dict(focusing_factor=None, kernel_size=None), dict(kernel_size=None)):
        count = classifier_parameters(
            linear_attention=dict(type='FocusedLinearAttention', **options)
        )
        assert round(count / 1e6, 1) == 5.7


def test_deit_class_token_feeds_head_without_neck():
    from mmpretrain.registry import MODELS as PRETRAIN_MODELS

    classifier = PRETRAIN_MODELS.build(
        dict(
            type='mmpretrain.ImageClassifier',
            backbone=dict(type='mmflatten.FLattenDeiT', arch=SMALL, img_size=64),
            head=dict(
                type='LinearClsHead',
                num_classes=5,
                in_channels=12,
                loss=dict(type='CrossEntropyLoss'),
            ),
        )
    )
    images = torch.randn(2, 3, 64, 64)
    assert [out.shape for out in classifier.backbone(images)] == [(2, 12)]
    assert classifier(images, mode='tensor').shape == (2, 5)


def test_deit_class_token_gives_every_parameter_a_gradient():
    """The convolution of the last block gets a zero gradient, because None would break distributed
    training.
    """
    model = FLattenDeiT(SMALL, img_size=64)
    model(torch.randn(2, 3, 64, 64))[0].square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_deit_feature_maps_are_normalised_map_tokens():
    model = build(out_type='featmap', out_indices=(1, 3))
    image = torch.randn(2, 3, 65, 97)
    tokens, hw_shape = model.embed(image)
    assert hw_shape == (5, 7) and tokens.shape == (2, 36, 12)
    expected = []
    for index, block in enumerate(model.blocks):
        tokens = block(tokens, hw_shape)
        if index in (1, 3):
            expected.append(
                model.norms[str(index)](tokens)[:, 1:].transpose(1, 2).reshape(2, 12, 5, 7)
            )
    for out, e in zip(model(image), expected):
        torch.testing.assert_close(out, e)
    assert model.out_channels == (12, 12) and model.out_strides == (16, 16)


def test_deit_class_token_output_is_normalised_first_token():
    model = build()
    image = torch.randn(2, 3, 64, 64)
    tokens, hw_shape = model.embed(image)
    for block in model.blocks:
        tokens = block(tokens, hw_shape)
    torch.testing.assert_close(model(image)[0], model.norms['3'](tokens)[:, 0])


def test_deit_dense_model_loads_classifier_without_earlier_norms(tmp_path):
    path = str(tmp_path / 'classifier.pth')
    classifier = build()
    torch.save({f'backbone.{k}': v for k, v in classifier.state_dict().items()}, path)
    model = FLattenDeiT(
        SMALL,
        img_size=64,
        out_type='featmap',
        out_indices=(0, 1, 2, 3),
        init_cfg=dict(type='Pretrained', checkpoint=path, prefix='backbone.'),
    )
    model.init_weights()
    state = model.state_dict()
    assert all(torch.equal(state[k], v) for k, v in classifier.state_dict().items())
    assert (state['norms.0.weight'] == 1).all()


def test_deit_builds_no_blocks_after_last_output():
    model = build(out_indices=(1,), attn_types='LSLS')
    assert len(model.blocks) == 2
    assert [type(b.attn.fn) for b in model.blocks] == [FocusedLinearAttention, SoftmaxAttention]


def test_deit_last_convolution_does_not_affect_class_token():
    model = build()
    image = torch.randn(1, 3, 64, 64)
    before = model(image)[0]
    model.blocks[-1].attn.fn.dwc.conv.weight.data.add_(1.0)
    torch.testing.assert_close(model(image)[0], before)
    model.blocks[-2].attn.fn.dwc.conv.weight.data.add_(1.0)
    assert not torch.allclose(model(image)[0], before)


@pytest.mark.parametrize('attn_types', ['L', 'S'])
def test_deit_class_token_attends_and_is_attended_to(attn_types):
    model = build(attn_types=attn_types, out_type='featmap', out_indices=(0,))
    image = torch.randn(1, 3, 48, 80)
    (before,) = model(image)
    model.embed.cls_token.data.add_(torch.randn(1, 1, 12))
    assert not torch.allclose(model(image)[0], before)
    classify = build(attn_types=attn_types)
    assert not torch.allclose(classify(image)[0], classify(image.flip(3))[0])


def test_deit_resizes_positions_except_class_token():
    model = build()
    model.embed.projection.weight.data.zero_()
    model.embed.projection.bias.data.zero_()
    tokens, hw_shape = model.embed(torch.zeros(1, 3, 96, 32))
    table = model.embed.position.table
    torch.testing.assert_close(tokens[:, 0], model.embed.cls_token[:, 0] + table[:, 0])
    grid = table[:, 1:].view(1, 4, 4, 12).permute(0, 3, 1, 2)
    expected = F.interpolate(grid, size=(6, 2), mode='bilinear').flatten(2).transpose(1, 2)
    torch.testing.assert_close(tokens[:, 1:], expected)


def test_deit_freezing_embedding_freezes_class_token_and_positions():
    model = FLattenDeiT(SMALL, img_size=64, frozen_stages=0).train()
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    assert frozen == {name for name, _ in model.named_parameters() if name.startswith('embed.')}
    assert {'embed.cls_token', 'embed.position.table'} < frozen
    model = FLattenDeiT(SMALL, img_size=64, frozen_stages=4)
    assert not any(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize('mask_padding', [False, True])
def test_windowed_averages_class_token_over_windows(mask_padding):
    mixer = SoftmaxAttention(12, 3, (3, 3))
    windowed = Windowed(mixer, (3, 3), mask_padding=mask_padding)
    x = torch.randn(2, 1 + 5 * 6, 12)
    out = windowed(x, (5, 6))
    padded = F.pad(x[:, 1:].view(2, 5, 6, 12), (0, 0, 0, 0, 0, 1))
    prefixes = []
    for row in (0, 3):
        for col in (0, 3):
            height = min(3, 5 - row) if mask_padding else 3
            window = torch.cat(
                (x[:, :1], padded[:, row : row + height, col : col + 3].flatten(1, 2)), dim=1
            )
            expected = mixer(window, (height, 3))
            prefixes.append(expected[:, 0])
            got = out[:, 1:].view(2, 5, 6, 12)[:, row : row + 3, col : col + 3].flatten(1, 2)
            torch.testing.assert_close(got, expected[:, 1 : 1 + got.shape[1]], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(out[:, 0], torch.stack(prefixes).mean(0), rtol=1e-4, atol=1e-5)


def test_windowed_accepts_class_token_with_shift():
    windowed = Windowed(SoftmaxAttention(12, 3, (4, 4)), (4, 4), shift=True)
    x = torch.randn(2, 1 + 63, 12)
    out = windowed(x, (9, 7))
    assert out.shape == x.shape and out.isfinite().all()
    x[:, 0] += 1.0
    assert not torch.isclose(windowed(x, (9, 7)), out).all(-1).any()


def test_cross_shaped_attention_accepts_class_token():
    model = build(linear_attention=dict(type='CrossShapedAttention', split=2), out_indices=(0, 3))
    outs = model(torch.randn(2, 3, 65, 97))
    assert [out.shape for out in outs] == [(2, 12), (2, 12)]


def test_deit_class_token_and_positions_start_small():
    torch.manual_seed(0)
    model = MODELS.build(dict(type='FLattenDeiT'))
    model.init_weights()
    for parameter in (model.embed.cls_token, model.embed.position.table):
        assert parameter.std().item() == pytest.approx(0.02, rel=0.2)


def test_deit_initialises_mixers():
    model = FLattenDeiT(
        SMALL, linear_attention=dict(type='SoftmaxAttention', relative_position_bias=True)
    )
    model.init_weights()
    assert all(block.attn.fn.relative_position_bias.table.any() for block in model.blocks)


@pytest.mark.parametrize(
    ('kwargs', 'message'),
    [
        (dict(attn_types='LS'), r"attn_types.*'LS'.*12 blocks"),
        (dict(attn_types='M'), r"attn_types.*'M'"),
        (dict(attn_types=''), r"attn_types.*''"),
        (dict(out_type='raw'), r"out_type.*'raw'"),
        (dict(patch_size=0), r'patch_size.*0'),
        (dict(out_indices=(12,)), r'out_indices.*\(12,\)'),
        (dict(frozen_stages=13), r'frozen_stages.*13'),
        (dict(arch=dict(embed_dims=100, depth=2, num_heads=3)), 'num_heads.*100.*3'),
        (dict(arch=dict(SMALL, swiglu=True), conv_ffn=True), 'conv_ffn.*SwiGLU'),
    ],
)
def test_deit_rejects_invalid_arguments(kwargs, message):
    with pytest.raises(ValueError, match=message):
        FLattenDeiT(**kwargs)
