"""Properties of the operators that their papers prove or state."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mmflatten import ops
from mmflatten.measure.flops.counter import count_operations
from mmflatten.ops import reference

TOLERANCE = dict(rtol=1e-10, atol=1e-10)
# Operators that can be computed with or without their (N, M) matrix.
ASSOCIATIVE = [
    'linear_attention',
    'efficient_attention',
    'sima_attention',
    'angular_attention',
    'factorized_dot_attention',
    'kernel_product',
]
LINEAR = [*ASSOCIATIVE, 'cross_covariance_attention', 'hydra_attention']


def count(name, N, M, d, e, B=2, h=3):
    """Count multiply-accumulates, or elementwise operations for Hydra, which has no matrix
    products.
    """
    shapes = (
        [(B, N, d), (B, M, d), (B, M, d)]
        if name.startswith('hydra')
        else [(B, h, N, d), (B, h, M, d), (B, h, M, e)]
    )
    options = (
        dict(own_BhNe=torch.empty(B, h, N, e, device='meta')) if name.startswith('angular') else {}
    )
    counts = count_operations(
        getattr(ops, name), *(torch.empty(s, device='meta') for s in shapes), **options
    )
    assert not counts.uncounted
    return counts.macs or sum(counts.elementwise.values())


@pytest.mark.parametrize('name', LINEAR)
def test_linear_operators_cost_grows_linearly(name):
    costs = [count(name, N, N, 8, 8) for N in (256, 512, 1024, 2048)]
    steps = [b - a for a, b in zip(costs, costs[1:])]
    assert costs[0] > 0 and steps[1] == 2 * steps[0] and steps[2] == 2 * steps[1]
    # The constant term is at most a norm with one entry per channel.
    assert 2 * costs[0] - costs[1] <= 100


@pytest.mark.parametrize(
    'name', ['softmax_attention', 'conventional_dot_attention', 'conventional_gaussian_attention']
)
def test_quadratic_operators_count_products_of_their_matrix(name):
    B, h, N, M, d, e = 2, 3, 64, 128, 8, 4
    assert count(name, N, M, d, e, B, h) == B * h * N * M * (d + e)


@pytest.mark.parametrize('name', ASSOCIATIVE)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(1, 90), st.integers(1, 90), st.integers(1, 40), st.integers(1, 40))
def test_kernel_product_chooses_cheaper_association(name, N, M, d, e):
    B, h = 2, 3
    products = B * h * min((N + M) * d * e, N * M * (d + e))
    denominator = B * h * N * d if name == 'linear_attention' else 0
    assert count(name, N, M, d, e, B, h) == products + denominator


def feature_pair(data, same_axis):
    """Draw two positive, non-parallel features whose largest entries lie on the same axis or on
    different axes.
    """
    size = data.draw(st.integers(2, 8))
    entries = st.lists(st.floats(0.05, 0.9), min_size=size, max_size=size)
    x, y = (torch.tensor(data.draw(entries), dtype=torch.float64) for _ in range(2))
    m = data.draw(st.integers(0, size - 1))
    x[m] = 1.0
    y[m if same_axis else (m + 1) % size] = 1.0
    assume(F.cosine_similarity(x, y, dim=0) < 0.999)
    return x * data.draw(st.floats(0.1, 10)), y


@pytest.mark.parametrize('same_axis', [True, False])
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_focused_map_satisfies_proposition_1_of_flatten(same_axis, data):
    """A large power raises the similarity of features with the same largest axis and lowers that of
    others.

    In the limit of large powers the similarity is `|x| |y|` or 0. The proposition states that such
    a power exists.
    """
    x, y = feature_pair(data, same_axis)
    before, bound = x @ y, x.norm() * y.norm()
    after = [ops.focused_map(x, p) @ ops.focused_map(y, p) for p in (4, 64, 256)]
    assert after[-1] > before if same_axis else after[-1] < before
    torch.testing.assert_close(after[-1], bound if same_axis else 0 * bound, rtol=1e-6, atol=1e-6)


def test_focused_map_power_3_separates_features():
    """Features as in Figure 4 of FLatten."""
    a, b, c = torch.tensor([[1.0, 0.4, 0.3], [1.0, 0.3, 0.4], [0.3, 1.0, 0.4]], dtype=torch.float64)
    focused = [ops.focused_map(x, 3) for x in (a, b, c)]
    assert focused[0] @ focused[1] > a @ b
    assert focused[0] @ focused[2] < a @ c


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.floats(1e-6, 1e4), min_size=1, max_size=12), st.sampled_from([1, 2, 3, 4, 8, 32])
)
def test_focused_map_keeps_norm_and_channel_order(entries, power):
    x = torch.tensor(entries, dtype=torch.float64)
    focused = ops.focused_map(x, power)
    torch.testing.assert_close(focused.norm(), x.norm(), **TOLERANCE)
    assert (focused[x.argsort()].diff() >= 0).all()


def test_linear_operators_rank_is_bounded_by_head_width():
    torch.manual_seed(0)
    q, k = (torch.rand(50, 8, dtype=torch.float64)[None, None] for _ in range(2))
    values = torch.eye(50, dtype=torch.float64)[None, None]
    for name in ASSOCIATIVE:
        if name != 'angular_attention':  # which adds the value at the query's position
            assert torch.linalg.matrix_rank(getattr(ops, name)(q, k, values)[0, 0]) == 8, name
    matrix = reference.linear_attention_matrix(q, k)[0, 0]
    assert torch.linalg.matrix_rank(matrix) == 8
    assert torch.linalg.matrix_rank((q @ k.transpose(-2, -1)).softmax(-1)[0, 0]) == 50


def test_linear_attention_rows_sum_to_one():
    torch.manual_seed(0)
    q, k = (torch.rand(1, 1, 50, 8, dtype=torch.float64) for _ in range(2))
    rows = reference.linear_attention_matrix(q, k).sum(-1)
    torch.testing.assert_close(rows, torch.ones_like(rows), rtol=1e-4, atol=0)


@pytest.mark.parametrize(
    'operator, matrix',
    [
        (ops.efficient_attention, reference.efficient_attention_matrix),
        (ops.conventional_gaussian_attention, reference.conventional_gaussian_matrix),
    ],
)
def test_gaussian_attention_rows_sum_to_one(operator, matrix):
    torch.manual_seed(0)
    q, k = (
        torch.randn(2, 3, 50, 8, dtype=torch.float64),
        torch.randn(2, 3, 20, 8, dtype=torch.float64),
    )
    rows = matrix(q, k).sum(-1)
    torch.testing.assert_close(rows, torch.ones_like(rows), **TOLERANCE)
    ones = torch.ones(2, 3, 20, 1, dtype=torch.float64)
    torch.testing.assert_close(operator(q, k, ones)[..., 0], rows, **TOLERANCE)


def test_angular_attention_approximates_angular_kernel():
    cosine = torch.linspace(-0.3, 0.3, 13, dtype=torch.float64)
    q = torch.stack((cosine, (1 - cosine**2).sqrt()), dim=-1)[None, None] * 7
    k = torch.tensor([[[[3.0, 0.0]]]], dtype=torch.float64)
    # These values separate the constant term from the score: the result is (1 / 2, score / pi),
    # normalised.
    own = torch.tensor([1.0, 0.0], dtype=torch.float64).expand(1, 1, 13, 2)
    out = ops.angular_attention(
        q, k, torch.tensor([[[[0.0, 1.0]]]], dtype=torch.float64), own_BhNe=own
    )[0, 0]
    linear = 0.5 + 0.5 * out[:, 1] / out[:, 0]
    torch.testing.assert_close(linear, 1 - cosine.arccos() / torch.pi, rtol=0, atol=2e-3)


def test_cosformer_map_places_class_token_at_centre():
    token = torch.ones(1, 1, 1 + 16, 1, dtype=torch.float64)
    features = ops.cosformer_map(token, (4, 4))[0, 0]
    scores = features @ features.t()
    assert scores[0, 1:].argmax() == 2 * 4 + 2
    torch.testing.assert_close(scores.diagonal(), torch.ones(17, dtype=torch.float64), **TOLERANCE)


def test_cosformer_map_scores_are_non_negative():
    torch.manual_seed(0)
    features = ops.cosformer_map(torch.rand(2, 3, 35, 4, dtype=torch.float64), (5, 7))
    assert (features @ features.transpose(-2, -1)).min() >= 0
