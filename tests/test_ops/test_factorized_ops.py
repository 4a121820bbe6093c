"""Factorized attention equals the conventional attention it replaces."""
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from mmflatten import ops
from mmflatten.ops import reference

TOLERANCE = dict(rtol=1e-10, atol=1e-10)
NAMES = ['factorized_dot_attention', 'conventional_dot_attention', 'conventional_gaussian_attention']
SIZES = st.sampled_from([1, 2, 7, 63])
SHAPES = st.tuples(st.integers(1, 2), st.integers(1, 3), SIZES, SIZES, st.sampled_from([1, 2, 8]),
                   st.sampled_from([1, 5]), st.booleans())


def leaf(*shape, strided=False):
    """A float64 leaf; `strided` lays it out as a projection of a map gives it, channels before tokens."""
    if strided:
        shape = (*shape[:-2], shape[-1], shape[-2])
    x = torch.randn(shape, dtype=torch.float64)
    return (x.transpose(-2, -1) if strided else x).detach().requires_grad_()


def inputs_of(shape):
    torch.manual_seed(0)
    B, h, N, M, d, e, strided = shape
    return [leaf(B, h, N, d, strided=strided), leaf(B, h, M, d, strided=strided), leaf(B, h, M, e, strided=strided)]


def assert_same(function, twin, inputs):
    """Equal values and gradients."""
    results = []
    for f in (function, twin):
        out = f(*inputs)
        weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
        results.append((out, *torch.autograd.grad((out * weights).sum(), inputs)))
    for ours, expected in zip(*results):
        scale = expected.abs().max().clamp(min=1)
        torch.testing.assert_close(ours / scale, expected / scale, **TOLERANCE)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(SHAPES)
def test_factorized_and_conventional_dot_attention_are_one_function(shape):
    assert_same(ops.factorized_dot_attention, ops.conventional_dot_attention, inputs_of(shape))


@pytest.mark.parametrize('matrix', [reference.efficient_attention_matrix, reference.conventional_gaussian_matrix])
def test_rows_of_the_gaussian_matrices_sum_to_one(matrix):
    q, k, _ = inputs_of((2, 3, 50, 20, 8, 1, False))
    rows = matrix(q, k).sum(-1)
    torch.testing.assert_close(rows, torch.ones_like(rows), **TOLERANCE)


@pytest.mark.parametrize('operator', [ops.efficient_attention, ops.conventional_gaussian_attention])
def test_gaussian_attention_of_constant_values_is_that_constant(operator):
    q, k, v = inputs_of((2, 3, 50, 20, 8, 5, True))
    torch.testing.assert_close(operator(q, k, torch.full_like(v, 3.)), v.new_full((2, 3, 50, 5), 3.), **TOLERANCE)


def count(operator, N, d=8, e=8):
    q, k, v = (torch.rand(1, 2, N, width) for width in (d, d, e))
    with FlopCounterMode(display=False) as counter:
        operator(q, k, v)
    return counter.get_total_flops() // 2


def test_factorized_attention_is_linear_and_conventional_attention_quadratic_in_the_tokens():
    h, d, e = 2, 8, 4
    for N in (64, 128):
        assert count(ops.factorized_dot_attention, N, d, e) == 2 * h * N * d * e
        assert count(ops.conventional_dot_attention, N, d, e) == h * N * N * (d + e)


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
@pytest.mark.parametrize('name', NAMES)
def test_half_precision_stays_finite_and_keeps_its_type(name, dtype):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 4000, 8).mul(30 if 'gaussian' in name else 1).to(dtype).requires_grad_()
               for _ in range(3))
    with torch.autocast('cpu', dtype=dtype):
        out = getattr(ops, name)(q, k, v)
    out.float().sum().mul(1e-4).backward()
    assert out.dtype == dtype and out.isfinite().all() and all(x.grad.isfinite().all() for x in (q, k, v))


def test_sums_over_tokens_that_overflow_half_precision_are_formed_in_float32():
    N, d = 4096, 8
    q, k, v = (torch.full((1, 1, N, d), value, dtype=torch.float16) for value in (2 ** -7, 16., 16.))
    assert N * 16 * 16 > torch.finfo(torch.float16).max
    out = ops.factorized_dot_attention(q, k, v)
    torch.testing.assert_close(out, torch.full_like(out, N * 2), rtol=1e-3, atol=0)
