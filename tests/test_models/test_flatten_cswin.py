"""FLatten-CSwin: parameter counts and stripes."""

import pytest
import torch
import torch.nn.functional as F

from mmflatten.models.attention import (
    CrossShapedAttention,
    FocusedLinearAttention,
    SoftmaxAttention,
)
from mmflatten.models.backbones import FLattenCSwin

SMALL = dict(embed_dims=8, depths=(1, 1, 2, 1), num_heads=(1, 2, 4, 8))


def classifier_parameters(**kwargs):
    with torch.device('meta'):
        model = FLattenCSwin(out_indices=(3,), **kwargs)
    return sum(p.numel() for p in model.parameters()) + 1000 * (model.out_channels[-1] + 1)


def randomised(module):
    generator = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        parameter.data = 0.3 * torch.randn(
            parameter.shape, generator=generator, dtype=parameter.dtype
        )
    return module.eval()


@pytest.mark.parametrize(
    ('kwargs', 'expected'),
    [
        (dict(arch='tiny'), 21_201_768),
        (dict(arch='small'), 35_451_752),
        (dict(arch='base'), 74_867_032),
        (dict(arch='base', img_size=384, softmax_split=(1, 2, 12, 12)), 78_369_112),
        (dict(arch='tiny', linear_split=(56, 28, 14, 7)), 21_201_768),
    ],
)
def test_cswin_parameter_counts_are_official(kwargs, expected):
    assert classifier_parameters(**kwargs) == expected


def explicit_stripes(mixer, x, H, W, width, count_padding):
    """Both branches of CSwin with explicit N x N attention matrices, for maps of any shape."""
    B, N, C = x.shape
    half, h = C // 2, mixer.branches[0].mixer.num_heads
    q, k, v = F.linear(x, mixer.qkv.weight, mixer.qkv.bias).split(C, dim=-1)
    rows, cols = torch.meshgrid(torch.arange(H), torch.arange(W), indexing='ij')
    outputs = []
    for index, (stripe, length, side) in enumerate([(cols // width, H, W), (rows // width, W, H)]):
        stripe = stripe.flatten()
        part = [t[..., index * half : (index + 1) * half] for t in (q, k, v)]
        heads = [t.unflatten(-1, (h, -1)).transpose(1, 2) for t in part]
        weights = (heads[0] @ heads[1].transpose(-2, -1) * heads[0].shape[-1] ** -0.5).exp()
        weights = weights.masked_fill(stripe[:, None] != stripe, 0)
        total = weights.sum(-1)
        if count_padding:  # a padding token of the last stripe has a logit of 0 and a value of 0
            total[..., stripe == stripe.max()] += length * (-side % width)
        attention = weights / total[..., None]
        conv = mixer.branches[index].mixer.lepe.conv
        lepe = torch.zeros_like(part[2])
        for number in range(int(stripe.max()) + 1):
            inside = (stripe == number)[:, None]
            image = (part[2] * inside).transpose(1, 2).reshape(B, half, H, W)
            local = F.conv2d(image, conv.weight, conv.bias, padding=1, groups=half)
            lepe = lepe + local.flatten(2).transpose(1, 2) * inside
        outputs.append((attention @ heads[2]).transpose(1, 2).flatten(2) + lepe)
    return F.linear(torch.cat(outputs, dim=-1), mixer.proj.weight, mixer.proj.bias)


@pytest.mark.parametrize('mask_padding', [False, True])
@pytest.mark.parametrize(
    ('H', 'W', 'width'), [(4, 4, 1), (6, 6, 3), (4, 6, 2), (5, 7, 3), (2, 9, 7)]
)
def test_cross_shaped_attention_matches_explicit_formula(H, W, width, mask_padding):
    mixer = randomised(
        CrossShapedAttention(12, 4, (14, 14), split=width, mask_padding=mask_padding).double()
    )
    x = torch.randn(2, H * W, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = explicit_stripes(mixer, x, H, W, width, not mask_padding)
    torch.testing.assert_close(mixer(x, (H, W)), expected, rtol=1e-9, atol=1e-9)


def test_cross_shaped_attention_stripes_follow_current_map():
    mixer = randomised(CrossShapedAttention(8, 2, (4, 4), split=2))
    x = torch.randn(1, 12 * 6, 8)
    out = mixer(x, (12, 6))
    # bottom right: only its two columns and its two rows attend to it
    x.view(1, 12, 6, 8)[:, 11, 4:] += 1.0
    changed = (mixer(x, (12, 6)) - out).abs().amax(-1).view(12, 6) > 1e-6
    expected = torch.zeros(12, 6, dtype=torch.bool)
    expected[:, 4:] = expected[10:] = True
    assert torch.equal(changed, expected)


def test_cross_shaped_attention_sums_linear_stripes_separately():
    mixer = randomised(
        CrossShapedAttention(
            8, 2, (4, 4), split=2, mixer=dict(type='FocusedLinearAttention'), mask_padding=True
        )
    )
    x = torch.randn(2, 4 * 6, 8)
    qkv = mixer.qkv(x).unflatten(-1, (3, 8)).view(2, 4, 6, 3, 8)
    vertical = [
        mixer.branches[0].mixer(qkv[:, :, i : i + 2, :, :4].flatten(1, 2), (4, 2)).view(2, 4, 2, 4)
        for i in (0, 2, 4)
    ]
    horizontal = [
        mixer.branches[1].mixer(qkv[:, i : i + 2, :, :, 4:].flatten(1, 2), (2, 6)).view(2, 2, 6, 4)
        for i in (0, 2)
    ]
    expected = mixer.proj(
        torch.cat((torch.cat(vertical, 2), torch.cat(horizontal, 1)), dim=-1).flatten(1, 2)
    )
    torch.testing.assert_close(mixer(x, (4, 6)), expected)
    assert mixer(x[:, :15], (3, 5)).isfinite().all()


def test_cswin_linear_blocks_add_both_local_terms():
    mixer = randomised(FLattenCSwin(SMALL, img_size=64).stages[0].blocks[0].attn.fn)
    x = torch.randn(1, 20, 8)
    out = mixer(x, (4, 5))
    inner = mixer.branches[0].mixer
    for conv in (inner.lepe.conv, inner.dwc.conv):
        conv.bias.data += 1.0
        changed = mixer(x, (4, 5))
        torch.testing.assert_close(
            changed - out, mixer.proj.weight.sum(1).expand(1, 20, 8), rtol=1e-4, atol=1e-4
        )
        out = changed


def test_cswin_branches_are_those_of_released_settings():
    with torch.device('meta'):
        model = FLattenCSwin('tiny')
    branches = [stage.blocks[0].attn.fn.branches for stage in model.stages]
    expected = [
        ([FocusedLinearAttention], [None]),
        ([FocusedLinearAttention], [None]),
        ([SoftmaxAttention] * 2, [(None, 7), (7, None)]),
        ([SoftmaxAttention], [None]),
    ]
    for of_stage, (kinds, windows) in zip(branches, expected, strict=True):
        assert [type(branch.mixer) for branch in of_stage] == kinds
        assert [branch.window_size for branch in of_stage] == windows
    assert [branch.mixer.num_heads for branch in branches[2]] == [4, 4]


def test_cswin_softmax_stages_have_official_stripes():
    with torch.device('meta'):
        model = FLattenCSwin('tiny', attn_types='SSSS')
    expected = [
        [(None, 1), (1, None)],
        [(None, 2), (2, None)],
        [(None, 7), (7, None)],
        [None],
    ]
    for stage, windows in zip(model.stages, expected, strict=True):
        assert [branch.window_size for branch in stage.blocks[0].attn.fn.branches] == windows


def test_cswin_linear_stripes_have_tables_of_their_shape():
    model = FLattenCSwin(SMALL, img_size=(64, 128), attn_types='LLLL', linear_split=(7, 8, 8, 8))
    # A single head has only vertical stripes. The second stage is 8 x 16, the third 4 x 8.
    expected = [[(16, 7)], [(8, 8), (8, 16)], [(4, 8)], [(2, 4)]]
    for stage, tables in zip(model.stages, expected, strict=True):
        mixers = [branch.mixer for branch in stage.blocks[0].attn.fn.branches]
        assert [mixer.positional_encoding.grid_size for mixer in mixers] == tables


def test_cross_shaped_attention_gives_odd_head_to_vertical_stripes():
    mixer = CrossShapedAttention(15, 5, (8, 8), split=2)
    assert [branch.mixer.num_heads for branch in mixer.branches] == [3, 2]
    assert mixer(torch.randn(1, 63, 15), (7, 9)).shape == (1, 63, 15)


def test_cswin_mask_padding_applies_only_to_softmax_stripes():
    model = FLattenCSwin(SMALL, img_size=64, attn_types='LMSS0', linear_split=(2, 2, 2, 2))
    assert [b.mask_padding for b in model.stages[0].blocks[0].attn.fn.branches] == [True]
    assert [b.mask_padding for b in model.stages[1].blocks[0].attn.fn.branches] == [False, False]
    model = FLattenCSwin(SMALL, img_size=64, mask_padding=True, softmax_split=(1, 1, 2, 2))
    assert [b.mask_padding for b in model.stages[2].blocks[0].attn.fn.branches] == [True, True]


def test_cross_shaped_attention_initialises_inner_mixers():
    mixer = CrossShapedAttention(
        8, 2, (4, 4), split=2, mixer=dict(type='SoftmaxAttention', relative_position_bias=True)
    )
    mixer.init_weights()
    assert all(branch.mixer.relative_position_bias.table.any() for branch in mixer.branches)


@pytest.mark.parametrize(
    ('make', 'message'),
    [
        (lambda: FLattenCSwin(softmax_split=(1, 2, 7)), r'softmax_split.*\(1, 2, 7\)'),
        (
            lambda: FLattenCSwin(SMALL, linear_attention=dict(type='CrossShapedAttention')),
            'mixer: .*CrossShapedAttention',
        ),
        (lambda: FLattenCSwin(linear_split=(0, 1, 1, 1)), r'linear_split.*\(0, 1, 1, 1\)'),
        (lambda: FLattenCSwin(attn_types='LLSX'), r"attn_types.*'LLSX'"),
        (
            lambda: FLattenCSwin(arch=dict(SMALL, embed_dims=9, num_heads=(2, 2, 4, 8))),
            'num_heads.*9.*2',
        ),
        (lambda: CrossShapedAttention(8, 2, (4, 4), split=0), r'split.*0'),
        (lambda: CrossShapedAttention(8, 2, (4, 4), sr_ratio=2), r'sr_ratio.*2'),
        (
            lambda: CrossShapedAttention(8, 2, (4, 4))(torch.randn(1, 4, 8), (2, 2), torch.ones(1)),
            'takes no mask',
        ),
    ],
)
def test_cswin_rejects_invalid_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
