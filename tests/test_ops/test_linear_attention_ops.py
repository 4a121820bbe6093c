"""Linear operators: half precision, extreme values and memory."""

import pytest
import torch

from mmflatten import ops
from mmflatten.ops import reference

TOLERANCE = dict(rtol=1e-10, atol=1e-10)


def test_linear_attention_adds_local_term_and_takes_its_layout():
    torch.manual_seed(0)
    q, k, v = (torch.rand(2, 3, 10, 4, dtype=torch.float64) for _ in range(3))
    local = torch.randn(2, 10, 3, 4, dtype=torch.float64).transpose(1, 2)
    out = ops.linear_attention(q, k, v, local_BhNe=local)
    torch.testing.assert_close(out, reference.linear_attention(q, k, v) + local, **TOLERANCE)
    assert ops.merge_heads(out).data_ptr() == out.data_ptr()


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_linear_attention_sums_do_not_overflow_half_precision(dtype):
    torch.manual_seed(0)
    q, k, v = (torch.rand(1, 2, 1000, 8).mul(1e3).to(dtype).requires_grad_() for _ in range(3))
    with torch.autocast('cpu', dtype=dtype):
        out = ops.linear_attention(q, k, v)
    out.float().sum().backward()
    assert out.dtype == dtype and out.isfinite().all()
    assert all(x.grad.isfinite().all() for x in (q, k, v))
    expected = reference.linear_attention(q.double(), k.double(), v.double())
    torch.testing.assert_close(out.double(), expected, rtol=1e-2, atol=1.0)


@pytest.mark.parametrize('factor', [3, 4, 8, 32])
def test_focused_map_is_finite_for_extreme_tokens(factor):
    x = torch.tensor([[1e-6] * 32, [6e4] * 32, [1e-6] * 31 + [6e4]]).requires_grad_()
    out = ops.focused_map(x, factor)
    out.sum().backward()
    assert out.isfinite().all() and x.grad.isfinite().all()


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    'name, scale',
    [
        ('efficient_attention', 1e3),
        ('sima_attention', 1e3),
        ('angular_attention', 1e3),
        ('cross_covariance_attention', 1e3),
        ('conventional_gaussian_attention', 30),
        ('conventional_dot_attention', 1),
        ('factorized_dot_attention', 1),
    ],
)
def test_operators_keep_half_precision_finite(name, scale, dtype):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 1000, 8).mul(scale).to(dtype).requires_grad_() for _ in range(3))
    with torch.autocast('cpu', dtype=dtype):
        out = getattr(ops, name)(q, k, v)
    out.float().sum().mul(1e-4).backward()
    assert out.dtype == dtype
    assert out.isfinite().all()
    assert all(x.grad.isfinite().all() for x in (q, k, v))


def test_factorized_dot_attention_sums_in_float32():
    N, d = 4096, 8
    q, k, v = (
        torch.full((1, 1, N, d), value, dtype=torch.float16) for value in (2**-7, 16.0, 16.0)
    )
    assert N * 16 * 16 > torch.finfo(torch.float16).max
    out = ops.factorized_dot_attention(q, k, v)
    torch.testing.assert_close(out, torch.full_like(out, N * 2), rtol=1e-3, atol=0)


def test_rotated_queries_require_rotated_keys():
    x = torch.rand(1, 2, 3, 4)
    with pytest.raises(ValueError, match='rotated_q_BhNd, rotated_k_BhMd'):
        ops.linear_attention(x, x, x, rotated_q_BhNd=x)
