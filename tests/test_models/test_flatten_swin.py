"""FLatten-Swin: parameter counts, letters, windows."""

import pytest
import torch

from mmflatten.models.attention import FocusedLinearAttention, SoftmaxAttention
from mmflatten.models.backbones import FLattenSwin


def classifier_parameters(**kwargs):
    with torch.device('meta'):
        model = FLattenSwin(out_indices=(3,), **kwargs)
    features = model.out_channels[-1]
    return sum(p.numel() for p in model.parameters()) + 1000 * (features + 1)


@pytest.mark.parametrize(
    ('kwargs', 'expected'),
    [
        (dict(arch='tiny'), 29_192_384),
        (dict(arch='small'), 50_510_288),
        (dict(arch='base'), 88_972_488),
        (dict(arch='base', img_size=384, softmax_window=12), 91_433_928),
        (dict(arch='tiny', attn_types='SSSS'), 28_288_354),
    ],
)
def test_swin_parameter_counts_are_official(kwargs, expected):
    assert classifier_parameters(**kwargs) == expected


@pytest.mark.parametrize(
    ('kwargs', 'millions'),
    [
        (dict(attn_types='LSSS'), 28.89),
        (dict(attn_types='LLLS'), 29.64),
        (dict(attn_types='LLLL'), 29.71),
        (dict(linear_window=7), 28.32),
        (dict(linear_window=14), 28.40),
        (dict(linear_window=28), 28.74),
        (dict(linear_window=56), 29.19),
    ],
)
def test_swin_parameter_counts_of_ablations(kwargs, millions):
    assert round(classifier_parameters(**kwargs) / 1e6, 2) == millions


def test_swin_mixed_stage_starts_with_linear_blocks():
    model = FLattenSwin(attn_types='LLMS4')
    kinds = [type(block.attn.fn.mixer) for block in model.stages[2].blocks]
    assert kinds == [FocusedLinearAttention] * 4 + [SoftmaxAttention] * 2
    assert [block.attn.fn.shift for block in model.stages[3].blocks] == [False, True]


def test_swin_linear_window_of_map_size_equals_no_window():
    torch.manual_seed(0)
    arch = dict(embed_dims=24, depths=(2, 1), num_heads=(1, 2))
    whole = FLattenSwin(arch, img_size=64, attn_types='LL', out_indices=(0, 1)).eval()
    windowed = FLattenSwin(
        arch, img_size=64, attn_types='LL', linear_window=16, out_indices=(0, 1)
    ).eval()
    windowed.load_state_dict(whole.state_dict())
    image = torch.randn(1, 3, 64, 64)
    for a, b in zip(whole(image), windowed(image)):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize('attn_types', ['SS', 'LL'])
def test_swin_windows_are_not_shifted_on_maps_of_window_height(attn_types):
    """The official code compares the window only with the shorter side of the map."""
    arch = dict(embed_dims=8, depths=(2, 2), num_heads=(1, 2))
    model = FLattenSwin(
        arch, img_size=(32, 64), attn_types=attn_types, linear_window=7, out_indices=(0, 1)
    ).eval()
    mixers = [stage.blocks[1].attn.fn for stage in model.stages]
    assert [mixer.window_size for mixer in mixers] == [(7, 7), (4, 4)]
    x = torch.randn(1, 4 * 8, 16)
    out = mixers[1](x, (4, 8))
    x.view(1, 4, 8, 16)[:, :, 4:] += 1.0
    changed = (mixers[1](x, (4, 8)) - out).abs().amax(-1).view(4, 8) > 1e-6
    assert not changed[:, :4].any() and changed[:, 4:].all()


def test_swin_output_changes_little_beyond_pretraining_size():
    torch.manual_seed(0)
    model = FLattenSwin(
        dict(embed_dims=24, depths=(2, 2, 2, 2), num_heads=(1, 2, 3, 6)), img_size=224
    ).eval()
    image = torch.nn.functional.interpolate(
        torch.randn(1, 3, 8, 8), size=(225, 225), mode='bilinear'
    )
    pooled = [model(image[..., :size, :size])[-1].mean((2, 3)) for size in (224, 225)]
    assert torch.nn.functional.cosine_similarity(*pooled) > 0.9


def test_swin_forward_is_stateless():
    torch.manual_seed(0)
    model = FLattenSwin(
        dict(embed_dims=24, depths=(1, 1, 2, 1), num_heads=(1, 2, 3, 6)), img_size=64
    ).eval()
    image = torch.randn(1, 3, 65, 97)
    first = model(image)
    model(torch.randn(1, 3, 32, 160))
    assert all(torch.equal(a, b) for a, b in zip(first, model(image)))


@pytest.mark.parametrize(
    ('attn_types', 'message'),
    [
        ('LLS', r"attn_types.*'LLS'"),
        ('LLSX', r"attn_types.*'LLSX'"),
        ('LLMS', r"attn_types.*'LLMS'"),
        ('LLSS4', r"attn_types.*'LLSS4'"),
    ],
)
def test_swin_rejects_invalid_letters(attn_types, message):
    with pytest.raises(ValueError, match=message):
        FLattenSwin(attn_types=attn_types)


@pytest.mark.parametrize(
    ('kwargs', 'message'),
    [
        (
            dict(
                arch=dict(embed_dims=100, depths=(2, 2), num_heads=(3, 6)),
                attn_types='LS',
                out_indices=(1,),
            ),
            'num_heads.*100.*3',
        ),
        (dict(arch=dict(embed_dims=96, depths=(2, 2), num_heads=(3,))), r"'num_heads': 1"),
        (
            dict(arch=dict(embed_dims=96, depths=(2, 2), num_heads=(3, 6), heads=3)),
            r"arch.*'heads'",
        ),
        (dict(img_size=(224,)), r'img_size.*\(224,\)'),
        (dict(softmax_window=0), r'softmax_window.*0'),
        (dict(linear_window=-7), r'linear_window.*-7'),
    ],
)
def test_swin_rejects_invalid_arguments(kwargs, message):
    with pytest.raises(ValueError, match=message):
        FLattenSwin(**kwargs)
