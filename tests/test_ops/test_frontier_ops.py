"""Newer attention operators against their explicit references: values and gradients in float64."""

from types import SimpleNamespace

import pytest
import torch

from mmflatten import ops
from mmflatten.ops import reference
from mmflatten.ops.whole_map import operator

MAPS = [(1, 1), (1, 7), (3, 5), (4, 4), (9, 7)]


def leaves(*shapes, positive=False):
    tensors = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    return [(x.abs() + 0.1 if positive else x).requires_grad_() for x in tensors]


def assert_same(function, expected, inputs):
    results = []
    for f in (function, expected):
        out = f(*inputs)
        weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
        results.append((out, *torch.autograd.grad((out * weights).sum(), inputs)))
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize('hw_shape', MAPS)
@pytest.mark.parametrize('prefix', [0, 2])
@pytest.mark.parametrize('last_frequency', [True, False])
@pytest.mark.parametrize('width', [4, 12])
def test_rotary_2d_equals_reference(hw_shape, prefix, last_frequency, width):
    inputs = leaves((2, 3, prefix + hw_shape[0] * hw_shape[1], width))
    assert_same(
        lambda x: ops.rotary_2d(x, hw_shape, last_frequency=last_frequency),
        lambda x: reference.rotary_2d(x, hw_shape, last_frequency=last_frequency),
        inputs,
    )


@pytest.mark.parametrize(
    'strides, offset', [((480, 8, 24), 8), ((500, 8, 25), 0), ((480, 8, 24), 5)]
)
def test_rotary_2d_reads_any_memory_layout(strides, offset):
    """Pairs of channels that lie in memory as complex numbers, and pairs that do not."""
    memory = torch.randn(2 * 500, dtype=torch.float64)
    x = memory.as_strided((2, 3, 20, 4), (*strides, 1), offset)
    assert_same(
        lambda x: ops.rotary_2d(x, (4, 5)),
        lambda x: reference.rotary_2d(x, (4, 5)),
        [x.requires_grad_()],
    )


def test_rotary_2d_spreads_positions_over_a_span():
    inputs = leaves((2, 3, 1 + 6 * 4, 12))
    assert_same(
        lambda x: ops.rotary_2d(x, (6, 4), span=(3, 2)),
        lambda x: reference.rotary_2d(x, (6, 4), span=(3, 2)),
        inputs,
    )
    x = inputs[0][:, :, 1:].unflatten(2, (6, 4))
    small = ops.rotary_2d(x[:, :, ::2, ::2].flatten(2, 3), (3, 2))
    large = ops.rotary_2d(x.flatten(2, 3), (6, 4), span=(3, 2))
    torch.testing.assert_close(large.unflatten(2, (6, 4))[:, :, ::2, ::2].flatten(2, 3), small)


def test_rotary_2d_products_depend_only_on_offset():
    q, k = (torch.randn(1, 8, dtype=torch.float64).expand(5 * 6, 8) for _ in range(2))
    products = ops.rotary_2d(q, (5, 6)) @ ops.rotary_2d(k, (5, 6)).T
    by_row_and_column = products.view(5, 6, 5, 6)
    torch.testing.assert_close(by_row_and_column[0, 1, 2, 4], by_row_and_column[2, 2, 4, 5])
    assert not torch.isclose(by_row_and_column[0, 1, 2, 4], by_row_and_column[0, 1, 4, 2])


def test_rotary_2d_rejects_width_not_divisible_by_4():
    with pytest.raises(ValueError, match='x: .* 6'):
        ops.rotary_2d(torch.randn(1, 4, 6), (2, 2))


@pytest.mark.parametrize('hw_shape', MAPS)
def test_circulant_attention_equals_reference(hw_shape):
    N = hw_shape[0] * hw_shape[1]
    assert_same(
        lambda *x: ops.circulant_attention(*x, hw_shape=hw_shape),
        lambda *x: reference.circulant_attention(*x, hw_shape=hw_shape),
        leaves(*[(2, N, 3)] * 3),
    )


@pytest.mark.parametrize('hw_shape', MAPS)
@pytest.mark.parametrize('kv_shape', [(4, 4), (5, 3)])
@pytest.mark.parametrize('prefix', [0, 1])
@pytest.mark.parametrize('blocks', [1, 9])
@pytest.mark.parametrize('own_sum', [True, False])
def test_block_linear_attention_equals_reference(hw_shape, kv_shape, prefix, blocks, own_sum):
    N, M = (prefix + H * W for H, W in (hw_shape, kv_shape))
    inputs = leaves((2, 3, N, 4), (2, 3, M, 4), (2, 3, M, 5), (blocks, blocks), positive=True)

    def call(operator):
        return lambda q, k, v, w: operator(
            q, k, v, mixing_bb=w, hw_shape=hw_shape, kv_shape=kv_shape, own_sum=own_sum
        )

    assert_same(call(ops.block_linear_attention), call(reference.block_linear_attention), inputs)


@pytest.mark.parametrize('tokens', [1, 2, 63])
def test_gated_test_time_training_equals_reference(tokens):
    inputs = leaves(*[(2, 3, tokens, 4)] * 3, *[(3, 4, 4)] * 2)

    def call(operator):
        return lambda q, k, v, w1, w2: operator(q, k, v, value_hdd=w1, gate_hdd=w2)

    assert_same(
        call(ops.gated_test_time_training), call(reference.gated_test_time_training), inputs
    )


@pytest.mark.parametrize('tokens', [1, 2, 63])
def test_swiglu_test_time_training_equals_reference(tokens):
    inputs = leaves(*[(2, 3, tokens, 4)] * 3, *[(3, 4, 4)] * 3)

    def call(operator):
        return lambda q, k, v, w1, w2, w3: operator(q, k, v, gate_hdd=w1, value_hdd=w2, out_hdd=w3)

    assert_same(
        call(ops.swiglu_test_time_training), call(reference.swiglu_test_time_training), inputs
    )


@pytest.mark.parametrize('hw_shape', MAPS)
def test_conv_test_time_training_equals_reference(hw_shape):
    inputs = leaves(*[(2, 3, *hw_shape)] * 3, (3, 1, 3, 3))

    def call(operator):
        return lambda q, k, v, w: operator(q, k, v, weight_C1yx=w)

    assert_same(call(ops.conv_test_time_training), call(reference.conv_test_time_training), inputs)


def test_global_key_weights_are_masked_softmax_with_mean_1():
    q, k = leaves((2, 3, 5, 4), (2, 3, 7, 4))
    mask = torch.tensor([True] * 5 + [False] * 2).view(1, 1, 7, 1)
    weights = ops.global_key_weights(q, k, mask)
    logits = (k[..., :5, :] * q.mean(-2, keepdim=True)).sum(-1, keepdim=True) / 2
    torch.testing.assert_close(
        weights[..., :5, :], 7 * logits.exp() / logits.exp().sum(-2, keepdim=True)
    )
    assert not weights[..., 5:, :].any()


def test_magnitude_aware_and_inline_attention_weights_sum_to_1():
    q, k = leaves((1, 2, 5, 4), (1, 2, 6, 4), positive=True)
    ones = torch.ones(1, 2, 6, 1, dtype=torch.float64)
    torch.testing.assert_close(
        ops.magnitude_aware_attention(q, k, ones, eps=0.0), torch.ones_like(ones[..., :5, :])
    )
    torch.testing.assert_close(ops.inline_attention(q, k, ones), torch.ones_like(ones[..., :5, :]))


@pytest.mark.parametrize('exponent', [1.5, 3.0, 4.5])
def test_positive_power_has_finite_gradients_at_zero(exponent):
    x, p = (
        torch.tensor([0.0, 0.5, 2.0]).requires_grad_(),
        torch.full((3,), exponent).requires_grad_(),
    )
    y = ops.positive_power(x, p)
    torch.testing.assert_close(y, x**exponent)
    y.sum().backward()
    assert x.grad.isfinite().all() and p.grad.isfinite().all() and p.grad[0] == 0


def test_signed_parts_concatenates_positive_and_negative_part():
    assert ops.signed_parts(torch.tensor([1.0, -2.0])).tolist() == [1, 0, 0, 2]


@pytest.mark.parametrize('tokens', [(1, 1), (7, 5), (63, 63)])
def test_nystrom_attention_equals_reference(tokens):
    N, M = tokens
    inputs = leaves(
        (2, 3, N, 4), (2, 3, M, 4), (2, 3, M, 5), (2, 3, 4, 4), (2, 3, 4, 4), (2, 1, 1, M)
    )

    def call(operator):
        return lambda q, k, v, queries, keys, bias: operator(
            q, k, v, q_landmarks_Bhad=queries, k_landmarks_Bhad=keys, bias=bias
        )

    assert_same(call(ops.nystrom_attention), call(reference.nystrom_attention), inputs)


def test_nystrom_attention_with_all_tokens_as_landmarks_equals_softmax():
    q, k, v = leaves(*[(1, 2, 6, 4)] * 3)
    out = ops.nystrom_attention(q, k, v, q_landmarks_Bhad=q, k_landmarks_Bhad=k, iterations=30)
    torch.testing.assert_close(out, reference.softmax_attention(q, k, v), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize('hw_shape', MAPS)
def test_manhattan_attention_equals_reference(hw_shape):
    N = hw_shape[0] * hw_shape[1]
    inputs = leaves((2, 3, N, 4), (2, 3, N, 4), (2, 3, N, 5), (3,))

    def call(operator):
        return lambda q, k, v, decay: operator(q, k, v, decay_h=-decay.abs(), hw_shape=hw_shape)

    assert_same(call(ops.manhattan_attention), call(reference.manhattan_attention), inputs)


@pytest.mark.parametrize('hw_shape', MAPS)
@pytest.mark.parametrize('dilation', [1, 2])
@pytest.mark.parametrize('biased', [True, False])
def test_neighborhood_attention_equals_reference(hw_shape, dilation, biased):
    N = hw_shape[0] * hw_shape[1]
    inputs = leaves((2, 3, N, 4), (2, 3, N, 4), (2, 3, N, 5), *[(3, 5, 5)] * biased)

    def call(operator):
        return lambda q, k, v, *bias: operator(
            q,
            k,
            v,
            hw_shape=hw_shape,
            kernel_size=3,
            dilation=dilation,
            bias=bias[0] if biased else None,
        )

    assert_same(call(ops.neighborhood_attention), call(reference.neighborhood_attention), inputs)


def natten_calls(monkeypatch):
    """Replace NATTEN by a function for the CPU, with the checks and layout of NATTEN 0.21; return
    its calls.
    """
    calls = []

    def na2d(query, key, value, *, kernel_size, dilation):
        B, H, W, h, d = query.shape
        assert key.shape == query.shape
        assert value.shape[:4] == (B, H, W, h)
        assert kernel_size * dilation <= min(H, W)
        calls.append((kernel_size, dilation))
        tokens = (x.flatten(1, 2).transpose(1, 2) for x in (query, key, value))
        return (
            reference.neighborhood_attention(
                *tokens, hw_shape=(H, W), kernel_size=kernel_size, dilation=dilation
            )
            .transpose(1, 2)
            .unflatten(1, (H, W))
        )

    monkeypatch.setattr(operator, '_natten', lambda: SimpleNamespace(na2d=na2d))
    monkeypatch.setattr(torch.Tensor, 'is_cuda', True)
    return calls


@pytest.mark.parametrize(
    ('width', 'options', 'dtype', 'supported'),
    [
        (8, dict(kernel_size=3), torch.float32, True),
        (16, dict(kernel_size=3, dilation=2), torch.float32, True),
        (8, dict(kernel_size=3, dilation=3), torch.float32, False),
        (8, dict(kernel_size=1), torch.float32, False),
        (4, dict(kernel_size=3), torch.float32, False),
        (8, dict(kernel_size=3), torch.float64, False),
        (8, dict(kernel_size=3, bias=torch.zeros(3, 5, 5)), torch.float32, False),
    ],
)
def test_neighborhood_attention_calls_natten_if_supported(
    monkeypatch, width, options, dtype, supported
):
    hw_shape, inputs = (6, 7), [torch.randn(2, 3, 42, width, dtype=dtype) for _ in range(3)]
    expected = ops.neighborhood_attention(*inputs, hw_shape=hw_shape, **options)
    calls = natten_calls(monkeypatch)
    torch.testing.assert_close(
        ops.neighborhood_attention(*inputs, hw_shape=hw_shape, **options), expected
    )
    assert calls == ([(options['kernel_size'], options.get('dilation', 1))] if supported else [])


def test_neighborhood_attention_equals_natten():
    """NATTEN's kernels on a GPU, its FlexAttention backend on the CPU."""
    natten = pytest.importorskip('natten')
    device, backend = ('cuda', None) if torch.cuda.is_available() else ('cpu', 'flex-fna')
    for hw_shape, kernel_size, dilation in (
        ((9, 7), 3, 1),
        ((14, 15), 7, 2),
        ((21, 16), 5, 3),
        ((7, 7), 7, 1),
    ):
        maps = [torch.randn(2, *hw_shape, 3, 8, device=device) for _ in range(3)]
        actual = natten.na2d(*maps, kernel_size=kernel_size, dilation=dilation, backend=backend)
        expected = ops.neighborhood_attention(
            *(x.flatten(1, 2).transpose(1, 2) for x in maps),
            hw_shape=hw_shape,
            kernel_size=kernel_size,
            dilation=dilation,
            bias=torch.zeros(3, *[2 * kernel_size - 1] * 2, device=device),
        )
        torch.testing.assert_close(
            actual, expected.transpose(1, 2).unflatten(1, hw_shape), rtol=1e-4, atol=1e-4
        )


def test_routing_attention_to_all_regions_equals_softmax():
    q, k, v = leaves(*[(2, 3, 4, 5, 6)] * 3)
    routes = ops.routed_regions(
        *(x.transpose(1, 2).transpose(2, 3).flatten(3) for x in (q, k)), topk=9
    )
    assert sorted(routes[0, 0].tolist()) == [0, 1, 2, 3]
    out = ops.routing_attention(q, k, v, routes, scale=0.4)
    expected = reference.softmax_attention(*(x.flatten(2, 3) for x in (q, k, v)), scale=0.4)
    torch.testing.assert_close(out.flatten(2, 3), expected)


def test_routing_attention_sees_only_routed_regions():
    """The values are one-hot regions, so the output of a query shows the regions that it attends
    to.
    """
    q, k = leaves((1, 1, 4, 5, 6), (1, 1, 4, 5, 6))
    similarity = q[0, 0].mean(1) @ k[0, 0].mean(1).T
    routes = ops.routed_regions(q[:, 0], k[:, 0], topk=2)
    assert routes[0].sort().values.tolist() == similarity.topk(2).indices.sort().values.tolist()
    region = torch.eye(4, dtype=torch.float64)[None, None, :, None].expand(1, 1, 4, 5, 4)
    seen = ops.routing_attention(q, k, region, routes, scale=1.0)[0, 0].sum(1) > 0
    assert [row.nonzero().flatten().tolist() for row in seen] == routes[0].sort().values.tolist()


def test_random_feature_map_estimates_softmax():
    generator = torch.Generator().manual_seed(0)
    features = ops.orthogonal_features(4096, 4, generator).double()
    assert features.shape == (4096, 4) and torch.linalg.matrix_rank(features[:4]) == 4
    torch.testing.assert_close(
        features[0] @ features[1], torch.zeros((), dtype=torch.float64), rtol=0, atol=1e-5
    )
    q, k = (torch.randn(1, 1, 9, 4, dtype=torch.float64) / 2 for _ in range(2))
    products = ops.random_feature_map(q, features, over_tokens=False) @ ops.random_feature_map(
        k, features, over_tokens=True
    ).transpose(-2, -1)
    estimate = products / products.sum(-1, keepdim=True)
    torch.testing.assert_close(
        estimate, (q @ k.transpose(-2, -1) / 2).softmax(-1), rtol=0.2, atol=0.02
    )
