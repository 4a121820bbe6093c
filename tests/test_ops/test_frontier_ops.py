"""Operators that know the map of their tokens, against their explicit twins in float64: values and gradients."""
import pytest
import torch

from mmflatten import ops
from mmflatten.ops import reference

MAPS = [(1, 1), (1, 7), (3, 5), (4, 4), (9, 7)]


def leaves(*shapes, positive=False):
    tensors = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    return [(x.abs() + .1 if positive else x).requires_grad_() for x in tensors]


def assert_same(function, twin, inputs):
    results = []
    for f in (function, twin):
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
def test_rotary_positions(hw_shape, prefix, last_frequency, width):
    inputs = leaves((2, 3, prefix + hw_shape[0] * hw_shape[1], width))
    assert_same(lambda x: ops.rotary_2d(x, hw_shape, last_frequency=last_frequency),
                lambda x: reference.rotary_2d(x, hw_shape, last_frequency=last_frequency), inputs)


def test_products_of_rotated_tokens_depend_on_their_distance_alone():
    q, k = (torch.randn(1, 8, dtype=torch.float64).expand(5 * 6, 8) for _ in range(2))
    products = ops.rotary_2d(q, (5, 6)) @ ops.rotary_2d(k, (5, 6)).T
    by_row_and_column = products.view(5, 6, 5, 6)
    torch.testing.assert_close(by_row_and_column[0, 1, 2, 4], by_row_and_column[2, 2, 4, 5])
    assert not torch.isclose(by_row_and_column[0, 1, 2, 4], by_row_and_column[0, 1, 4, 2])


def test_rotation_of_an_unfit_width_names_it():
    with pytest.raises(ValueError, match='6.*multiple of 4'):
        ops.rotary_2d(torch.randn(1, 4, 6), (2, 2))


@pytest.mark.parametrize('hw_shape', MAPS)
def test_circulant_attention(hw_shape):
    N = hw_shape[0] * hw_shape[1]
    assert_same(lambda *x: ops.circulant_attention(*x, hw_shape=hw_shape),
                lambda *x: reference.circulant_attention(*x, hw_shape=hw_shape), leaves(*[(2, N, 3)] * 3))


@pytest.mark.parametrize('hw_shape', MAPS)
@pytest.mark.parametrize('kv_shape', [(4, 4), (5, 3)])
@pytest.mark.parametrize('prefix', [0, 1])
@pytest.mark.parametrize('blocks', [1, 9])
def test_block_linear_attention(hw_shape, kv_shape, prefix, blocks):
    N, M = (prefix + H * W for H, W in (hw_shape, kv_shape))
    inputs = leaves((2, 3, N, 4), (2, 3, M, 4), (2, 3, M, 5), (blocks, blocks), positive=True)

    def call(operator):
        return lambda q, k, v, w: operator(q, k, v, mixing_bb=w, hw_shape=hw_shape, kv_shape=kv_shape)

    assert_same(call(ops.block_linear_attention), call(reference.block_linear_attention), inputs)


@pytest.mark.parametrize('tokens', [1, 2, 63])
def test_gated_test_time_training(tokens):
    inputs = leaves(*[(2, 3, tokens, 4)] * 3, *[(3, 4, 4)] * 2)

    def call(operator):
        return lambda q, k, v, w1, w2: operator(q, k, v, value_hdd=w1, gate_hdd=w2)

    assert_same(call(ops.gated_test_time_training), call(reference.gated_test_time_training), inputs)


@pytest.mark.parametrize('hw_shape', MAPS)
def test_conv_test_time_training(hw_shape):
    inputs = leaves(*[(2, 3, *hw_shape)] * 3, (3, 1, 3, 3))

    def call(operator):
        return lambda q, k, v, w: operator(q, k, v, weight_C1yx=w)

    assert_same(call(ops.conv_test_time_training), call(reference.conv_test_time_training), inputs)


def test_weights_of_the_keys_are_a_softmax_whose_mean_is_1():
    q, k = leaves((2, 3, 5, 4), (2, 3, 7, 4))
    mask = torch.tensor([True] * 5 + [False] * 2).view(1, 1, 7, 1)
    weights = ops.global_key_weights(q, k, mask)
    logits = (k[..., :5, :] * q.mean(-2, keepdim=True)).sum(-1, keepdim=True) / 2
    torch.testing.assert_close(weights[..., :5, :], 7 * logits.exp() / logits.exp().sum(-2, keepdim=True))
    assert not weights[..., 5:, :].any()


def test_weights_of_a_query_sum_to_1_in_magnitude_aware_and_inline_attention():
    q, k = leaves((1, 2, 5, 4), (1, 2, 6, 4), positive=True)
    ones = torch.ones(1, 2, 6, 1, dtype=torch.float64)
    torch.testing.assert_close(ops.magnitude_aware_attention(q, k, ones, eps=0.), torch.ones_like(ones[..., :5, :]))
    torch.testing.assert_close(ops.inline_attention(q, k, ones), torch.ones_like(ones[..., :5, :]))


@pytest.mark.parametrize('exponent', [1.5, 3., 4.5])
def test_positive_power_has_finite_gradients_at_zero(exponent):
    x, p = torch.tensor([0., .5, 2.]).requires_grad_(), torch.full((3,), exponent).requires_grad_()
    y = ops.positive_power(x, p)
    torch.testing.assert_close(y, x ** exponent)
    y.sum().backward()
    assert x.grad.isfinite().all() and p.grad.isfinite().all() and p.grad[0] == 0


def test_signed_parts():
    assert ops.signed_parts(torch.tensor([1., -2.])).tolist() == [1, 0, 0, 2]
