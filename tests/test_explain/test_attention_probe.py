"""Attention weights of every mixer against explicit references."""

import itertools

import pytest
import torch

from mmflatten.explain.attention import AttentionProbe
from mmflatten.models.attention import (
    ConventionalAttention,
    CrossShapedAttention,
    FactorizedAttention,
    TokenMixer,
    ValueConv,
    Windowed,
    build_mixer,
    values_at_queries,
)
from mmflatten.models.attention.linear import FEATURE_MAPS
from mmflatten.models.layers import join_prefix
from mmflatten.ops import merge_heads, reference, split_heads
from mmflatten.ops.linear.kernels.options import ACTIVATIONS
from mmflatten.registry import MODELS

C, HEADS, HW = 12, 3, (5, 7)


def mixer_of(kind, **more):
    torch.manual_seed(0)
    cfg = dict(type=kind, embed_dims=C, num_heads=HEADS, grid_size=(4, 4), **more)
    return randomised(build_mixer(cfg))


def randomised(module):
    """Weights of order 1 in float64, biases and tables too."""
    for parameter in module.parameters():
        parameter.data = 0.5 * torch.randn(parameter.shape)
    return module.double().eval()


def layer_of(mixer, hw=HW, prefix=0):
    torch.manual_seed(1)
    x = torch.randn(1, prefix + hw[0] * hw[1], C, dtype=torch.float64)
    with AttentionProbe(mixer) as probe, torch.no_grad():
        mixer(x, hw)
    return probe.layers[0]


def softmax(mixer, q, k, maps):
    return reference.conventional_gaussian_matrix(q * q.shape[-1] ** -0.5, k)


def linear(mixer, q, k, maps):
    return reference.linear_attention_matrix(
        *(ACTIVATIONS[mixer.feature_map](x, 1e-6) for x in (q, k))
    )


def efficient(mixer, q, k, maps):
    return reference.efficient_attention_matrix(q, k)


def enhanced(mixer, q, k, maps):
    return linear(mixer, q, k, maps)


def clamped(mixer, q, k, maps):
    return mixer.temperature * reference.linear_attention_matrix(
        q.relu(), k.relu(), min_denominator=5.0
    )


def cosformer(mixer, q, k, maps):
    q, k = q.relu() + 1e-6, k.relu() + 1e-6
    scores = reference.cosformer_scores(q, k, maps.hw, maps.kv_hw)
    return scores / (scores.sum(-1, keepdim=True) + 1e-6 * k.shape[-2])


def sima(mixer, q, k, maps):
    return torch.einsum('bhnd,bhmd->bhnm', *(x / x.abs().sum(-2, keepdim=True) for x in (q, k)))


def xca(mixer, q, k, maps):
    return torch.eye(q.shape[-2], dtype=q.dtype).expand(1, HEADS, -1, -1)


def focused(mixer, q, k, maps):
    q, k = merge_heads(q), mixer.positional_encoding(merge_heads(k), maps.kv_hw)
    scale = torch.nn.functional.softplus(mixer.scale)
    q, k = (split_heads(reference.focused_map((x.relu() + 1e-6) / scale, 3), HEADS) for x in (q, k))
    return reference.linear_attention_matrix(q, k)


def hydra(mixer, q, k, maps):
    q, k = (merge_heads(x) / merge_heads(x).norm(dim=-1, keepdim=True) for x in (q, k))
    return torch.einsum('bnc,bmc->bcnm', q, k)


REFERENCES = {
    'SoftmaxAttention': (softmax, {}),
    'EfficientAttention': (efficient, {}),
    'EnhancedLinearAttention': (enhanced, {}),
    **{f'LinearAttention-{name}': (linear, dict(feature_map=name)) for name in FEATURE_MAPS},
    'ClampedLinearAttention': (clamped, dict(min_denominator=5.0)),
    'CosFormerAttention': (cosformer, {}),
    'SimAAttention': (sima, {}),
    'CrossCovarianceAttention': (xca, {}),
    'FocusedLinearAttention': (focused, {}),
    'HydraAttention': (hydra, {}),
}
ELSEWHERE = {'FocalAttention', 'LinearAngularAttention'}  # tested below with values
FRONTIER = {  # in test_frontier_probe.py
    'AgentAttention',
    'CirculantAttention',
    'ContractBroadcastAttention',
    'ExponentialPolarityAttention',
    'GatedDifferentialLinearAttention',
    'GatedSoftmaxAttention',
    'TransformerToTTTAttention',
    'HiddenStateMixer',
    'InLineAttention',
    'MagnitudeAwareLinearAttention',
    'MambaInspiredLinearAttention',
    'NormAwareLinearAttention',
    'PolarityAwareLinearAttention',
    'RankAugmentedLinearAttention',
    'StateSpaceAttention',
    'TTTAttention',
    'TokenStatisticsAttention',
    'TokenLevelMultiHeadAttention',
    'BiLevelRoutingAttention',
    'LinformerAttention',
    'ManhattanAttention',
    'MultiScaleLinearAttention',
    'NeighborhoodAttention',
    'NystromAttention',
    'PerformerAttention',
    'VisualContrastAttention',
}


@pytest.mark.parametrize(
    ('name', 'sr_ratio'),
    [
        *((name, 1) for name in REFERENCES),
        *((name, 2) for name in REFERENCES if name != 'CrossCovarianceAttention'),
    ],
)
def test_weights_equal_the_explicit_reference(name, sr_ratio):
    matrix, more = REFERENCES[name]
    mixer = mixer_of(name.partition('-')[0], sr_ratio=sr_ratio, **more)
    layer = layer_of(mixer)
    q, k, _, maps = mixer.projections(layer.x, HW)
    expected = matrix(mixer, split_heads(q, HEADS), split_heads(k, HEADS), maps)[0]
    assert layer.kv_hw == ((3, 4) if sr_ratio == 2 else HW)
    torch.testing.assert_close(
        layer.matrix(), expected, rtol=0, atol=1e-6 * expected.abs().max().item()
    )


def test_every_mixer_has_a_reference():
    mixers = {
        name
        for name, cls in MODELS.module_dict.items()
        if isinstance(cls, type)
        and issubclass(cls, TokenMixer)
        and cls.__module__.startswith('mmflatten.')
    }
    assert mixers == {name.partition('-')[0] for name in REFERENCES} | ELSEWHERE | FRONTIER


@pytest.mark.parametrize('sr_ratio', [1, 2])
def test_angular_attention_divides_by_the_length_of_its_result(sr_ratio):
    """Weights times input values equal the output of the reference, and weights are proportional to
    the kernel.
    """
    mixer = mixer_of('LinearAngularAttention', sr_ratio=sr_ratio)
    layer = layer_of(mixer)
    q, k, v, maps = mixer.projections(layer.x, HW)
    own = split_heads(values_at_queries(v, maps), HEADS)
    q, k, v = (split_heads(x, HEADS) for x in (q, k, v))
    expected = reference.angular_attention(q, k, v, own_BhNe=own)[0]
    torch.testing.assert_close(layer.matrix() @ v[0], expected, rtol=0, atol=1e-6)
    if sr_ratio == 1:
        scores = (
            torch.einsum('hnd,hmd->hnm', *(x[0] / x[0].norm(dim=-1, keepdim=True) for x in (q, k)))
            / torch.pi
        )
        scores += torch.eye(scores.shape[-1]) / 2
        matrix = layer.matrix()
        torch.testing.assert_close(
            matrix / matrix.norm(dim=-1, keepdim=True),
            scores / scores.norm(dim=-1, keepdim=True),
            rtol=0,
            atol=1e-6,
        )


@pytest.mark.parametrize(
    ('shift', 'levels', 'boundary', 'hw'),
    [
        (False, 2, 'wrap', (6, 9)),
        (False, 3, 'wrap', (5, 7)),
        (True, 2, 'mask', (5, 7)),
        (False, 2, 'mask', (4, 8)),
    ],
)
def test_focal_weights_equal_the_explicit_reference(shift, levels, boundary, hw):
    mixer = randomised(
        build_mixer(
            dict(
                type='FocalAttention',
                embed_dims=C,
                num_heads=HEADS,
                grid_size=(6, 9),
                window_size=3,
                focal_window=3,
                focal_levels=levels,
                expand_size=1,
                shift=shift,
                neighbor_boundary=boundary,
            )
        )
    )
    layer = layer_of(mixer, hw)
    q, k, _ = mixer.qkv(mixer.listed(layer.x, hw)).chunk(3, dim=-1)
    grid = mixer._grid(hw)
    keys, visible = mixer._keys(grid, 0)
    # values with one channel per token
    one_hot = torch.eye(layer.num_keys, dtype=torch.float64)[None]
    # pooling adds a bias
    listed = mixer.listed(one_hot, hw) - mixer.listed(torch.zeros_like(one_hot), hw)
    weights = reference.focal_attention(
        split_heads(q[:, : grid.num_tokens], HEADS),
        split_heads(k, HEADS),
        listed[:, None].expand(-1, HEADS, -1, -1),
        keys,
        bias_hnM=mixer._bias(0),
        mask=visible,
    )[0]
    expected = torch.stack([grid.reverse(head[None])[0] for head in weights])
    torch.testing.assert_close(layer.matrix(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize('normalization', ['gaussian', 'dot'])
def test_maps_of_factorized_and_conventional_attention(normalization):
    matrices = dict(
        gaussian=(reference.efficient_attention_matrix, reference.conventional_gaussian_matrix),
        dot=(reference.dot_attention_matrix,) * 2,
    )[normalization]
    for kind, matrix in zip((FactorizedAttention, ConventionalAttention), matrices):
        module = randomised(kind(6, 8, 4, num_heads=2, normalization=normalization))
        x = torch.randn(2, 6, 3, 5, dtype=torch.float64)
        with AttentionProbe(module) as probe, torch.inference_mode():
            module(x)
        c, b = (
            module._heads(projection(x[:1])) for projection in (module.coefficients, module.basis)
        )
        torch.testing.assert_close(probe.layers[0].matrix(), matrix(c, b)[0], rtol=0, atol=1e-6)
        assert probe.layers[0].hw == (3, 5)


@pytest.mark.parametrize('kind', ['SoftmaxAttention', 'EfficientAttention'])
@pytest.mark.parametrize('mask_padding', [False, True])
def test_shifted_windows_of_an_odd_map(kind, mask_padding):
    """Queries only attend to tokens of their window. With unmasked padding, a row sums to less than
    1.
    """
    hw, window = (7, 10), (4, 4)
    layer = layer_of(Windowed(mixer_of(kind), window, shift=True, mask_padding=mask_padding), hw)
    matrix = layer.matrix()
    y, x = torch.meshgrid(*map(torch.arange, hw), indexing='ij')
    window_of_token = ((y - 2) // 4 * 10 + (x - 2) // 4).flatten()
    same = window_of_token[:, None] == window_of_token
    if kind == 'SoftmaxAttention':
        assert torch.equal(matrix[0] != 0, same)
        q, k, _, maps = layer.module.mixer.projections(layer.x, hw)
        scores = (split_heads(q, HEADS) @ split_heads(k, HEADS).mT)[0] * (C // HEADS) ** -0.5
        expected = scores.masked_fill(~same, -torch.inf).softmax(-1)
        torch.testing.assert_close(
            matrix / matrix.sum(-1, keepdim=True), expected, rtol=0, atol=1e-6
        )
    inside = matrix.sum(-1)
    if kind == 'SoftmaxAttention' and not mask_padding:
        assert inside.min() < 0.999
    else:
        torch.testing.assert_close(inside, torch.ones_like(inside))


def test_cross_shaped_windows_have_the_heads_of_both_branches():
    layer = layer_of(randomised(CrossShapedAttention(C, HEADS, (7, 7), split=2)), HW)
    matrix = layer.matrix()
    rows, cols = (
        index.flatten() // 2 for index in torch.meshgrid(*map(torch.arange, HW), indexing='ij')
    )
    for head, stripe in zip(matrix, (cols, cols, rows)):
        assert not head[stripe[:, None] != stripe].any()
        assert (head[stripe[:, None] == stripe] > 0).all()
    q, k, _ = layer.module.qkv(layer.x).chunk(3, -1)
    scores = (split_heads(q, HEADS) @ split_heads(k, HEADS).mT)[0] * (C // HEADS) ** -0.5
    padded = matrix / matrix.sum(-1, keepdim=True)  # unmasked padding has the key 0
    same = torch.stack([stripe[:, None] == stripe for stripe in (cols, cols, rows)])
    torch.testing.assert_close(
        padded, scores.masked_fill(~same, -torch.inf).softmax(-1), rtol=0, atol=1e-6
    )
    assert layer.num_heads == HEADS and layer.local == ['lepe']


ARRANGEMENTS = ['plain', 'class token', 'reduced', 'windows', 'windows, class token']
NOT_OFFERED = {('FocalAttention', arrangement) for arrangement in ARRANGEMENTS[2:]}


@pytest.mark.parametrize(
    ('kind', 'arrangement'),
    [
        pair
        for pair in itertools.product([*REFERENCES, *sorted(ELSEWHERE)], ARRANGEMENTS)
        # whose output is not a sum over tokens
        if pair not in NOT_OFFERED and pair[0] != 'CrossCovarianceAttention'
    ],
)
def test_weights_times_values_equal_the_output_of_the_mixer(kind, arrangement):
    """With local terms, without biases, and with one kernel for all channels."""
    more = dict(window_size=3, focal_window=3, expand_size=1) if kind == 'FocalAttention' else {}
    mixer = mixer_of(
        kind.partition('-')[0],
        sr_ratio=2 if arrangement == 'reduced' else 1,
        **REFERENCES.get(kind, (None, more))[1],
    )
    if kind != 'FocalAttention':  # which has no local term
        mixer.lepe = randomised(ValueConv(C, 3))
    mixer.qkv.bias.data.zero_()
    for name, part in mixer.named_modules():
        if isinstance(part, torch.nn.Conv2d) and name.startswith(('dwc', 'lepe')):
            part.weight.data[:] = part.weight.data[:1].clone()
            if part.bias is not None:
                part.bias.data.zero_()
    for pool in getattr(mixer, 'pools', ()):
        pool.bias.data.zero_()
    mixer.proj = torch.nn.Identity()
    module = Windowed(mixer, (3, 4)) if 'windows' in arrangement else mixer
    layer = layer_of(module, HW, prefix=1 if 'class token' in arrangement else 0)
    _, _, values, maps = mixer.projections(layer.x, HW)
    if kind == 'FocalAttention':  # without padding and pooled keys
        grid = mixer._grid(HW)
        values = join_prefix(
            values[:, values.shape[1] - maps.prefix :], grid.reverse(values[:, : grid.num_tokens])
        )
    values = split_heads(values, layer.num_heads)[0]
    both, parts = (
        layer.matrix(part='both'),
        [layer.matrix(part=part) for part in ('attention', 'local')],
    )
    torch.testing.assert_close(both, sum(parts))
    assert (parts[1].abs().max() > 0) == (kind != 'FocalAttention')
    torch.testing.assert_close(
        merge_heads((both @ values)[None]), module(layer.x, HW), rtol=0, atol=1e-6
    )
