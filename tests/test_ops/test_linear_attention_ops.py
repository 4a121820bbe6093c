"""Linear attention and its feature maps against their explicit twins."""
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mmflatten import ops
from mmflatten.ops import reference

TOLERANCE = dict(rtol=1e-10, atol=1e-10)
SIZES = st.sampled_from([1, 2, 7, 63])


def draw(shape, layout='contiguous', positive=False):
    """A float64 leaf of the shape, in a memory layout that attention meets."""
    if layout == 'strided heads':
        B, h, N, d = shape
        x = torch.randn(B, N, 3, h, d, dtype=torch.float64)[:, :, 1].transpose(1, 2)
    else:
        x = torch.randn(shape, dtype=torch.float64)
    x = x.abs() + 1e-3 if positive else x
    return x.detach().requires_grad_()


def assert_same_values_and_gradients(function, twin, inputs):
    results = []
    for f in (function, twin):
        out = f(*inputs)
        grads = torch.autograd.grad(out.square().sum(), inputs)
        results.append((out, *grads))
    for ours, expected in zip(*results):
        torch.testing.assert_close(ours, expected, **TOLERANCE)


layouts = st.sampled_from(['contiguous', 'strided heads'])
shapes = st.tuples(st.integers(1, 2), st.integers(1, 3), SIZES, SIZES, st.sampled_from([1, 4, 9]),
                   st.sampled_from([1, 4, 9]), layouts)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(shapes, st.sampled_from([{}, dict(eps=1e-2), dict(min_denominator=2.5)]))
def test_linear_attention_equals_its_explicit_twin(shape, options):
    torch.manual_seed(0)
    B, h, N, M, d, e, layout = shape
    inputs = [draw((B, h, N, d), layout, True), draw((B, h, M, d), layout, True), draw((B, h, M, e), layout)]
    assert_same_values_and_gradients(lambda *x: ops.linear_attention(*x, **options),
                                     lambda *x: reference.linear_attention(*x, **options), inputs)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(shapes)
def test_kernel_product_is_the_same_by_either_association(shape):
    torch.manual_seed(0)
    B, h, N, M, d, e, layout = shape
    inputs = [draw((B, h, N, d), layout), draw((B, h, M, d), layout), draw((B, h, M, e), layout)]
    assert_same_values_and_gradients(lambda *x: ops.kernel_product(*x, 0.5),
                                     lambda *x: reference.kernel_product(*x, 0.5), inputs)


@pytest.mark.parametrize(('N', 'd', 'expected'), [(49, 64, 2 * 49 * 49 * 64), (3136, 32, 2 * 3136 * 32 * 32)])
def test_kernel_product_takes_the_cheaper_association(N, d, expected):
    from torch.utils.flop_counter import FlopCounterMode
    q, k, v = (torch.randn(1, 1, N, d) for _ in range(3))
    with FlopCounterMode(display=False) as counter:
        ops.kernel_product(q, k, v)
    assert counter.get_total_flops() == 2 * expected


def test_local_term_is_added_and_gives_its_memory_layout():
    torch.manual_seed(0)
    q, k, v = (torch.rand(2, 3, 10, 4, dtype=torch.float64) for _ in range(3))
    local = torch.randn(2, 10, 3, 4, dtype=torch.float64).transpose(1, 2)
    out = ops.linear_attention(q, k, v, local_BhNe=local)
    torch.testing.assert_close(out, reference.linear_attention(q, k, v) + local, **TOLERANCE)
    assert ops.merge_heads(out).data_ptr() == out.data_ptr()


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_sums_do_not_overflow_in_half_precision(dtype):
    torch.manual_seed(0)
    q, k, v = (torch.rand(1, 2, 4000, 8).mul(1e3).to(dtype).requires_grad_() for _ in range(3))
    with torch.autocast('cpu', dtype=dtype):
        out = ops.linear_attention(q, k, v)
    out.float().sum().backward()
    assert out.dtype == dtype and out.isfinite().all()
    assert all(x.grad.isfinite().all() for x in (q, k, v))
    expected = reference.linear_attention(q.double(), k.double(), v.double())
    torch.testing.assert_close(out.double(), expected, rtol=1e-2, atol=1.)


@pytest.mark.parametrize('factor', [1, 2, 3, 4, 8])
def test_focused_map_equals_its_twin_and_keeps_the_norm(factor):
    torch.manual_seed(0)
    x = draw((2, 7, 12), positive=True)
    assert_same_values_and_gradients(lambda x: ops.focused_map(x, factor),
                                     lambda x: reference.focused_map(x, factor), [x])
    torch.testing.assert_close(ops.focused_map(x, factor).norm(dim=-1), x.norm(dim=-1), **TOLERANCE)


@pytest.mark.parametrize('factor', [3, 4, 8, 32])
def test_focused_map_is_finite_for_tiny_and_huge_tokens(factor):
    x = torch.tensor([[1e-6] * 32, [6e4] * 32, [1e-6] * 31 + [6e4]]).requires_grad_()
    out = ops.focused_map(x, factor)
    out.sum().backward()
    assert out.isfinite().all() and x.grad.isfinite().all()


@pytest.mark.parametrize('factor', [2, 3, 4, 8])
def test_query_map_is_the_focused_map_up_to_a_factor_per_token(factor):
    torch.manual_seed(0)
    x = draw((2, 7, 12), positive=True)
    powered, inverse_factor = ops.focused_query_map(x, factor)
    torch.testing.assert_close(powered / inverse_factor, ops.focused_map(x, factor), **TOLERANCE)


def test_focusing_pulls_similar_directions_together_and_pushes_others_apart():
    """Proposition 1 of FLatten Transformer: the angle shrinks where the largest channels agree, grows where not."""
    a, b, c = torch.tensor([[1., .4, .3], [1., .3, .4], [.3, 1., .4]], dtype=torch.float64)

    def cosine(x, y):
        return torch.nn.functional.cosine_similarity(x, y, dim=-1)

    focused = [ops.focused_map(x, 3) for x in (a, b, c)]
    assert cosine(focused[0], focused[1]) > cosine(a, b)
    assert cosine(focused[0], focused[2]) < cosine(a, c)


def test_rank_of_the_implicit_map_is_bounded_by_the_head_width():
    torch.manual_seed(0)
    q, k = (torch.rand(1, 1, 50, 8, dtype=torch.float64) for _ in range(2))
    matrix = reference.linear_attention_matrix(q, k)[0, 0]
    assert torch.linalg.matrix_rank(matrix) == 8
    torch.testing.assert_close(matrix.sum(-1), torch.ones(50, dtype=torch.float64), rtol=1e-4, atol=0)
