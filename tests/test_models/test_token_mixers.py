"""Token mixers: values, gradients, masks, odd sizes."""

import pytest
import torch
import torch.nn.functional as F

from mmflatten.models.attention import (
    CrossShapedAttention,
    FocusedLinearAttention,
    LinearAttention,
    Maps,
    MultiScaleLinearAttention,
    SoftmaxAttention,
    TokenMixer,
    Windowed,
    build_mixer,
    values_at_queries,
)
from mmflatten.models.layers import GridTable, RelativePositionBias


def randomise(module, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.data = 0.3 * torch.randn(
            parameter.shape, generator=generator, dtype=parameter.dtype
        )
    return module.eval()


def explicit_focused_attention(mixer, x, H, W):
    """FLatten's module step by step, with the N x N matrix."""
    B, N, C = x.shape
    h, d = mixer.num_heads, C // mixer.num_heads
    q, k, v = F.linear(x, mixer.qkv.weight, mixer.qkv.bias).split(C, dim=-1)
    k = k + mixer.positional_encoding.table
    q, k = [(F.relu(t) + 1e-6) / F.softplus(mixer.scale) for t in (q, k)]
    q, k = [t.view(B, N, -1, d if mixer.per_head else C) for t in (q, k)]
    q, k = [t**3 / (t**3).norm(dim=-1, keepdim=True) * t.norm(dim=-1, keepdim=True) for t in (q, k)]
    q, k, v = [t.view(B, N, h, d).transpose(1, 2) for t in (q, k, v)]
    scores = q @ k.transpose(-2, -1)
    out = (scores / N) @ v / (scores.mean(-1, keepdim=True) + 1e-6)
    local = F.conv2d(
        v.transpose(-2, -1).reshape(B * h, d, H, W),
        mixer.dwc.conv.weight,
        mixer.dwc.conv.bias,
        padding=2,
        groups=d,
    )
    out = out + local.flatten(2).transpose(1, 2).view(B, h, N, d)
    return F.linear(out.transpose(1, 2).reshape(B, N, C), mixer.proj.weight, mixer.proj.bias)


@pytest.mark.parametrize('per_head', [False, True])
@pytest.mark.parametrize(('H', 'W'), [(4, 4), (3, 7), (1, 1)])
def test_focused_attention_equals_explicit_formula(H, W, per_head):
    mixer = randomise(FocusedLinearAttention(12, 3, (H, W), per_head=per_head).double())
    x = torch.randn(2, H * W, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = explicit_focused_attention(mixer, x, H, W)
    torch.testing.assert_close(mixer(x, (H, W)), expected, rtol=1e-9, atol=1e-9)
    parameters = list(mixer.parameters())
    ours = torch.autograd.grad(mixer(x, (H, W)).square().sum(), parameters)
    references = torch.autograd.grad(expected.square().sum(), parameters)
    for gradient, reference in zip(ours, references):
        torch.testing.assert_close(gradient, reference, rtol=1e-8, atol=1e-8)


def test_focused_attention_damps_dead_queries():
    """The output of a head whose query is negative in every channel is close to zero."""
    mixer = randomise(FocusedLinearAttention(12, 3, (4, 4)).double())
    mixer.qkv.bias.data[:4] = -100.0
    x = torch.randn(1, 16, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        mixer(x, (4, 4)), explicit_focused_attention(mixer, x, 4, 4), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize(
    'options',
    [
        {},
        dict(focusing_factor=None),
        dict(kernel_size=None),
        dict(focusing_factor=32),
        dict(focusing_factor=None, kernel_size=None),
        dict(sr_ratio=2),
        dict(qkv_bias=False),
        dict(per_head=True, kernel_size=None),
    ],
)
def test_focused_attention_trains_all_parameters_at_another_size(options):
    mixer = randomise(FocusedLinearAttention(12, 3, (4, 4), **options))
    x = torch.randn(2, 35, 12)
    out = mixer(x, (5, 7))
    assert out.shape == x.shape
    out.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in mixer.parameters())


def test_prefix_tokens_are_attended():
    mixer = randomise(FocusedLinearAttention(12, 3, (4, 4)))
    x = torch.randn(2, 17, 12)
    out = mixer(x, (4, 4))
    assert out.shape == x.shape
    x[:, 0] += 1.0
    assert not torch.allclose(mixer(x, (4, 4))[:, 1:], out[:, 1:])


@pytest.mark.parametrize(
    'mixer',
    [
        FocusedLinearAttention(12, 3, (3, 3)),
        SoftmaxAttention(12, 3, (3, 3), relative_position_bias=True),
    ],
)
def test_masked_padding_has_no_effect(mixer):
    """A map smaller than its window, compared with the same map without padding."""
    randomise(mixer)
    windowed = Windowed(mixer, (3, 3), mask_padding=True)
    x = torch.randn(2, 6, 12)
    out = windowed(x, (2, 3))
    if isinstance(mixer, FocusedLinearAttention):
        # Uses only the rows of the positional encoding for the real tokens.
        alone = randomise(FocusedLinearAttention(12, 3, (2, 3)))
        alone.load_state_dict(
            {
                **mixer.state_dict(),
                'positional_encoding.table': mixer.positional_encoding.table[:, :6].detach(),
            }
        )
        torch.testing.assert_close(out, alone(x, (2, 3)), rtol=1e-5, atol=1e-5)
    else:
        unmasked = Windowed(mixer, (3, 3))(x, (2, 3))
        assert not torch.allclose(out, unmasked)
    perturbed = torch.cat((x, x), dim=1)[:, :6]
    torch.testing.assert_close(windowed(perturbed, (2, 3)), out)


def test_windowed_softmax_attends_to_padding_by_default():
    mixer = randomise(SoftmaxAttention(8, 2, (2, 2)))
    x = torch.randn(1, 3, 8)
    padded = torch.cat((x, torch.zeros(1, 1, 8)), dim=1)
    expected = mixer(padded[:, [0, 1, 2, 3]], (2, 2))
    out = Windowed(mixer, (2, 2))(x[:, [0, 1, 2]], (1, 3))
    # (1, 3) is padded to (2, 4): the first window contains two real tokens and two of padding.
    first = mixer(torch.cat((x[:, :2], torch.zeros(1, 2, 8)), dim=1), (2, 2))
    torch.testing.assert_close(out[:, :2], first[:, :2])
    assert not torch.allclose(out[:, :2], expected[:, :2])


@pytest.mark.parametrize('mask_padding', [False, True])
@pytest.mark.parametrize('hw_shape', [(7, 7), (5, 9), (8, 3), (2, 9), (1, 1)])
def test_shifted_windows_equal_masked_attention(hw_shape, mask_padding):
    mixer = randomise(SoftmaxAttention(8, 2, (4, 4)))
    H, W = hw_shape
    x = torch.randn(2, H * W, 8)
    out = Windowed(mixer, (4, 4), shift=True, mask_padding=mask_padding)(x, hw_shape)
    Hp, Wp = -(-H // 4) * 4, -(-W // 4) * 4
    rows, cols = torch.meshgrid(torch.arange(Hp), torch.arange(Wp), indexing='ij')
    sh = sw = 2 if Hp > 4 and Wp > 4 else 0  # no shift if one window covers an axis
    # Shifting the map up by s puts window borders at s, s + 4, ...; the remainders at the edges are
    # separate windows.
    window = ((rows - sh) // 4) * 100 + (cols - sw) // 4
    allowed = window.flatten()[:, None] == window.flatten()
    real = ((rows < H) & (cols < W)).flatten()
    if mask_padding:
        allowed = allowed & real
    padded = F.pad(x.view(2, H, W, 8), (0, 0, 0, Wp - W, 0, Hp - H)).flatten(1, 2)
    q, k, v = mixer.qkv(padded).view(2, Hp * Wp, 3, 2, 4).permute(2, 0, 3, 1, 4)
    weights = (q @ k.transpose(-2, -1) / 2).masked_fill(~allowed, -torch.inf).softmax(-1)
    expected = mixer.proj((weights @ v).transpose(1, 2).flatten(2))[:, real]
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


def test_windowed_without_size_equals_the_mixer():
    mixer = randomise(FocusedLinearAttention(12, 3, (4, 4)))
    x = torch.randn(2, 15, 12)
    assert torch.equal(Windowed(mixer, None)(x, (3, 5)), mixer(x, (3, 5)))


def test_spatial_reduction_pads_maps():
    mixer = randomise(SoftmaxAttention(8, 2, (1, 2), sr_ratio=4))
    assert mixer(torch.randn(1, 35, 8), (5, 7)).shape == (1, 35, 8)


def test_spatial_reduction_keeps_prefix_tokens():
    mixer = randomise(SoftmaxAttention(8, 2, (1, 2), sr_ratio=2))
    x = torch.randn(2, 2 + 24, 8)
    reduced, shape = mixer.reduction(x, (4, 6))
    assert shape == (2, 3) and reduced.shape == (2, 2 + 6, 8)
    torch.testing.assert_close(reduced[:, 2:], mixer.reduction(x[:, 2:], (4, 6))[0])
    torch.testing.assert_close(reduced[:, :2], mixer.reduction.norm(x[:, :2]))
    maps = Maps((4, 6), shape)
    values = values_at_queries(reduced, maps)
    torch.testing.assert_close(values[:, 2:], values_at_queries(reduced[:, 2:], maps))
    assert torch.equal(values[:, :2], reduced[:, :2])


def test_mixer_without_projections_equals_projected_mixer():
    mixer, inner = (
        randomise(FocusedLinearAttention(12, 3, (3, 5))),
        FocusedLinearAttention(12, 3, (3, 5)).eval(),
    )
    inner.remove_projections()
    inner.load_state_dict(
        {k: v for k, v in mixer.state_dict().items() if not k.startswith(('qkv', 'proj.'))}
    )
    x = torch.randn(2, 15, 12)
    stacked = mixer.qkv(x).unflatten(-1, (3, 12))
    torch.testing.assert_close(mixer.proj(inner(stacked, (3, 5))), mixer(x, (3, 5)))
    windowed = Windowed(inner, (2, 2), mask_padding=True)
    assert windowed(stacked, (3, 5)).shape == (2, 15, 12)


@pytest.mark.parametrize(
    ('make', 'message'),
    [
        (lambda: SoftmaxAttention(100, 3, (4, 4)), r'num_heads: .*\(100\), got 3'),
        (lambda: FocusedLinearAttention(12, 3, (4, 4), kernel_size=4), 'kernel_size: .* got 4'),
        (lambda: FocusedLinearAttention(12, 3, (4, 4), kernel_size=-3), 'kernel_size: .* got -3'),
        (lambda: MultiScaleLinearAttention(12, 3, (4, 4), kernel_size=4), 'kernel_size: .* got 4'),
        (
            lambda: LinearAttention(12, 3, (4, 4), feature_map='l1'),
            "feature_map: .* got 'l1'.*SimAAttention",
        ),
        (lambda: build_mixer(None, embed_dims=12), 'mixer: .* got None'),
        (lambda: build_mixer('SoftmaxAttention'), "mixer: .* got 'SoftmaxAttention'"),
        (lambda: build_mixer(dict(focusing_factor=3)), "mixer: .* got {'focusing_factor': 3}"),
        (
            lambda: FocusedLinearAttention(12, 3, (4, 4), focusing_factor=0),
            'focusing_factor: .* got 0',
        ),
        (lambda: SoftmaxAttention(12, 0, (4, 4)), 'num_heads: .* got 0'),
        (lambda: SoftmaxAttention(12, 3, (4, 4), sr_ratio=0), 'sr_ratio: .* got 0'),
        (
            lambda: CrossShapedAttention(
                12, 3, (4, 4), mixer=dict(type='SoftmaxAttention', sr_ratio=2)
            ),
            'mixer: .*sr_ratio=1, got SoftmaxAttention',
        ),
        (
            lambda: SoftmaxAttention(8, 2, (2, 2), sr_ratio=2)(
                torch.randn(1, 4, 8), (2, 2), torch.ones(1, 1, 4).bool()
            ),
            'sr_ratio: .* got 2',
        ),
        (
            lambda: SoftmaxAttention(8, 2, (2, 2), relative_position_bias=True)(
                torch.randn(1, 9, 8), (3, 3)
            ),
            r'relative_position_bias.* \(2, 2\) .* got \(3, 3\)',
        ),
        (
            lambda: SoftmaxAttention(8, 2, (2, 2), relative_position_bias=True)(
                torch.randn(1, 5, 8), (2, 2)
            ),
            r'relative_position_bias.* \(2, 2\) .* 1 prefix',
        ),
        (
            lambda: Windowed(SoftmaxAttention(8, 2, (2, 2)), (2, 2))(
                torch.randn(1, 4, 8), (2, 2), torch.ones(1)
            ),
            'mask: SoftmaxAttention',
        ),
        (
            lambda: FocusedLinearAttention(8, 2, (2, 2))(
                torch.randn(1, 4, 8), (2, 2), torch.ones(1, 4, 4).bool()
            ),
            r'mask.*\(1, 4, 4\)',
        ),
    ],
)
def test_mixers_reject_invalid_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_build_mixer_ignores_the_default_scope():
    from mmengine.registry import DefaultScope

    with DefaultScope.overwrite_default_scope('mmpretrain'):
        mixer = build_mixer(
            dict(type='FocusedLinearAttention', focusing_factor=4),
            embed_dims=12,
            num_heads=3,
            grid_size=(2, 2),
        )
    assert isinstance(mixer, TokenMixer) and mixer.focusing_factor == 4


@pytest.mark.parametrize('num_prefix', [0, 1])
def test_grid_table_is_resized_when_loaded(num_prefix):
    small, large = (GridTable(6, size, num_prefix) for size in ((4, 4), (6, 6)))
    randomise(small)
    large.load_state_dict(small.state_dict())
    grid = small.table[:, num_prefix:].view(1, 4, 4, 6).permute(0, 3, 1, 2)
    expected = F.interpolate(grid, size=(6, 6), mode='bicubic').flatten(2).transpose(1, 2)
    torch.testing.assert_close(large.table[:, num_prefix:], expected)
    assert torch.equal(large.table[:, :num_prefix], small.table[:, :num_prefix])


def test_grid_table_with_one_row_is_a_map():
    small, large = GridTable(6, (1, 1)), GridTable(6, (2, 2))
    randomise(small)
    large.load_state_dict(small.state_dict())
    torch.testing.assert_close(large.table, small.table.expand(1, 4, 6))


def test_relative_position_bias_is_resized_when_loaded():
    small, large = RelativePositionBias((3, 3), 2), RelativePositionBias((5, 5), 2)
    randomise(small)
    large.load_state_dict(small.state_dict())
    expected = F.interpolate(
        small.table.view(1, 5, 5, 2).permute(0, 3, 1, 2), size=(9, 9), mode='bicubic'
    )
    torch.testing.assert_close(large.table, expected[0].flatten(1).t())


def test_grid_table_rejects_non_square_checkpoints():
    with pytest.raises(ValueError, match='table.* 12 rows'):
        GridTable(6, (4, 4)).load_state_dict({'table': torch.zeros(1, 12, 6)})
