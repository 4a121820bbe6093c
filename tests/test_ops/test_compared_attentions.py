"""The other linear attentions against their explicit twins, and the properties their papers state."""
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from mmflatten import ops
from mmflatten.ops import reference

TOLERANCE = dict(rtol=1e-10, atol=1e-10)
SIZES = st.sampled_from([1, 2, 7, 63])


def leaf(*shape, strided=False):
    if strided:
        B, h, N, d = shape
        return torch.randn(B, N, 3, h, d, dtype=torch.float64)[:, :, 1].transpose(1, 2).detach().requires_grad_()
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def assert_same(function, twin, inputs):
    results = []
    for f in (function, twin):
        out = f(*inputs)
        results.append((out, *torch.autograd.grad((out * torch.arange(out.numel()).view_as(out)).sum(), inputs)))
    for ours, expected in zip(*results):
        scale = expected.abs().max().clamp(min=1)
        torch.testing.assert_close(ours / scale, expected / scale, **TOLERANCE)


shapes = st.tuples(st.integers(1, 2), st.integers(1, 3), SIZES, SIZES, st.sampled_from([2, 8]), st.booleans())


@pytest.mark.parametrize('name', ['efficient_attention', 'sima_attention'])
@settings(max_examples=20, deadline=None, derandomize=True)
@given(shapes, st.sampled_from([1, 5]))
def test_operator_equals_its_explicit_twin(name, shape, e):
    torch.manual_seed(0)
    B, h, N, M, d, strided = shape
    inputs = [leaf(B, h, N, d, strided=strided), leaf(B, h, M, d, strided=strided), leaf(B, h, M, e)]
    assert_same(getattr(ops, name), getattr(reference, name), inputs)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(shapes)
def test_angular_attention_equals_its_explicit_twin(shape):
    torch.manual_seed(0)
    B, h, N, M, d, strided = shape
    inputs = [leaf(B, h, n, d, strided=strided) for n in (N, M, M, N)]
    assert_same(lambda q, k, v, own: ops.angular_attention(q, k, v, own_BhNe=own),
                lambda q, k, v, own: reference.angular_attention(q, k, v, own_BhNe=own), inputs)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(shapes)
def test_cross_covariance_attention_equals_its_explicit_twin(shape):
    torch.manual_seed(0)
    B, h, N, _, d, strided = shape
    inputs = [*(leaf(B, h, N, d, strided=strided) for _ in range(3)), leaf(h, 1, 1)]
    assert_same(lambda q, k, v, t: ops.cross_covariance_attention(q, k, v, temperature=t),
                lambda q, k, v, t: reference.cross_covariance_attention(q, k, v, temperature=t), inputs)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.integers(1, 2), SIZES, SIZES, st.sampled_from([2, 9]))
def test_hydra_attention_equals_its_explicit_twin(B, N, M, C):
    torch.manual_seed(0)
    assert_same(ops.hydra_attention, reference.hydra_attention, [leaf(B, n, C) for n in (N, M, M)])


@pytest.mark.parametrize(('q_shape', 'k_shape'), [((3, 5), (3, 5)), ((1, 7), (1, 7)), ((6, 4), (3, 2)),
                                                  ((1, 1), (1, 1))])
def test_cosformer_features_multiply_to_scores_that_fade_with_distance(q_shape, k_shape):
    torch.manual_seed(0)
    q, k = (torch.rand(2, 3, H * W, 4, dtype=torch.float64) for H, W in (q_shape, k_shape))
    scores = ops.cosformer_map(q, q_shape) @ ops.cosformer_map(k, k_shape).transpose(-2, -1)
    torch.testing.assert_close(scores, reference.cosformer_scores(q, k, q_shape, k_shape), **TOLERANCE)
    assert (scores >= 0).all()


def test_class_token_sits_at_the_centre_of_the_map_in_cosformer():
    token = torch.ones(1, 1, 1 + 16, 1, dtype=torch.float64)
    features = ops.cosformer_map(token, (4, 4))[0, 0]
    scores = features @ features.t()
    assert scores[0, 1:].argmax() == 2 * 4 + 2
    torch.testing.assert_close(scores.diagonal(), torch.ones(17, dtype=torch.float64), **TOLERANCE)


def test_rows_of_efficient_attention_sum_to_one():
    torch.manual_seed(0)
    q, k = torch.randn(2, 3, 50, 8, dtype=torch.float64), torch.randn(2, 3, 20, 8, dtype=torch.float64)
    rows = reference.efficient_attention_matrix(q, k).sum(-1)
    torch.testing.assert_close(rows, torch.ones_like(rows), **TOLERANCE)
    ones = torch.ones(2, 3, 20, 1, dtype=torch.float64)
    torch.testing.assert_close(ops.efficient_attention(q, k, ones)[..., 0], rows, **TOLERANCE)


def test_angular_scores_approach_the_angular_kernel_near_right_angles():
    cosine = torch.linspace(-.3, .3, 13, dtype=torch.float64)
    linear = .5 + cosine / torch.pi
    torch.testing.assert_close(linear, 1 - cosine.arccos() / torch.pi, rtol=0, atol=2e-3)


@pytest.mark.parametrize('name', ['linear_attention', 'efficient_attention', 'sima_attention', 'angular_attention',
                                  'cross_covariance_attention'])
def test_cost_grows_linearly_with_the_tokens(name):
    counts = []
    for N in (256, 512, 1024):
        q, k, v = (torch.rand(1, 2, N, 8) for _ in range(3))
        with FlopCounterMode(display=False) as counter:
            getattr(ops, name)(q, k, v)
        counts.append(counter.get_total_flops())
    assert counts[1] == 2 * counts[0] and counts[2] == 4 * counts[0]


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
@pytest.mark.parametrize('name', ['efficient_attention', 'sima_attention', 'angular_attention',
                                  'cross_covariance_attention'])
def test_half_precision_stays_finite_and_keeps_its_type(name, dtype):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 4000, 8).mul(1e3).to(dtype).requires_grad_() for _ in range(3))
    with torch.autocast('cpu', dtype=dtype):
        out = getattr(ops, name)(q, k, v)
    out.float().sum().mul(1e-4).backward()
    assert out.dtype == dtype and out.isfinite().all() and all(x.grad.isfinite().all() for x in (q, k, v))
