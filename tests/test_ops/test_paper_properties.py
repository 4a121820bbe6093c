"""What the papers prove or state of their operators."""
import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mmflatten import ops
from mmflatten.measure.flops.counter import count_operations
from mmflatten.ops import reference

TOLERANCE = dict(rtol=1e-10, atol=1e-10)
# Each can be computed without its (N, M) matrix and with it.
ASSOCIATIVE = ['linear_attention', 'efficient_attention', 'sima_attention', 'angular_attention',
               'factorized_dot_attention', 'kernel_product']
LINEAR = [*ASSOCIATIVE, 'cross_covariance_attention', 'hydra_attention']


def count(name, N, M, d, e, B=2, h=3):
    """Multiply-accumulates of an operator; Hydra, which has no products, is counted by its elements."""
    shapes = [(B, N, d), (B, M, d), (B, M, d)] if name.startswith('hydra') else [
        (B, h, N, d), (B, h, M, d), (B, h, M, e)]
    options = dict(own_BhNe=torch.empty(B, h, N, e, device='meta')) if name.startswith('angular') else {}
    counts = count_operations(getattr(ops, name), *(torch.empty(s, device='meta') for s in shapes), **options)
    assert not counts.uncounted
    return counts.macs or sum(counts.elementwise.values())


@pytest.mark.parametrize('name', LINEAR)
def test_cost_grows_linearly_with_the_tokens(name):
    costs = [count(name, N, N, 8, 8) for N in (256, 512, 1024, 2048)]
    steps = [b - a for a, b in zip(costs, costs[1:])]
    assert costs[0] > 0 and steps[1] == 2 * steps[0] and steps[2] == 2 * steps[1]
    # Nothing but a norm of one entry per channel may be independent of the tokens.
    assert 2 * costs[0] - costs[1] <= 100


@pytest.mark.parametrize('name', ['softmax_attention', 'conventional_dot_attention',
                                  'conventional_gaussian_attention'])
def test_cost_of_the_others_grows_quadratically(name):
    assert count(name, 512, 512, 8, 8) == 4 * count(name, 256, 256, 8, 8)


@pytest.mark.parametrize('name', ASSOCIATIVE)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(1, 90), st.integers(1, 90), st.integers(1, 40), st.integers(1, 40))
def test_the_cheaper_association_is_chosen_by_shape(name, N, M, d, e):
    B, h = 2, 3
    products = B * h * min((N + M) * d * e, N * M * (d + e))
    denominator = B * h * N * d if name == 'linear_attention' else 0
    assert count(name, N, M, d, e, B, h) == products + denominator


def feature_pair(data, same_axis):
    """Two positive features, not parallel, whose single largest entries are on the same axis or on two."""
    size = data.draw(st.integers(2, 8))
    entries = st.lists(st.floats(.05, .9), min_size=size, max_size=size)
    x, y = (torch.tensor(data.draw(entries), dtype=torch.float64) for _ in range(2))
    m = data.draw(st.integers(0, size - 1))
    x[m] = 1.
    y[m if same_axis else (m + 1) % size] = 1.
    assume(F.cosine_similarity(x, y, dim=0) < .999)
    return x * data.draw(st.floats(.1, 10)), y


@pytest.mark.parametrize('same_axis', [True, False])
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_proposition_1_of_flatten(same_axis, data):
    """A power raises the similarity of features whose largest entries agree, and lowers that of others.

    Such a power exists, the proposition says. As powers grow the similarity goes to `|x| |y|` and to 0.
    """
    x, y = feature_pair(data, same_axis)
    before, bound = x @ y, x.norm() * y.norm()
    after = [ops.focused_map(x, p) @ ops.focused_map(y, p) for p in (4, 64, 256)]
    assert after[-1] > before if same_axis else after[-1] < before
    torch.testing.assert_close(after[-1], bound if same_axis else 0 * bound, rtol=1e-6, atol=1e-6)


def test_the_usual_power_already_pulls_together_and_pushes_apart():
    """FLatten's `f_3` on features as in its Figure 4."""
    a, b, c = torch.tensor([[1., .4, .3], [1., .3, .4], [.3, 1., .4]], dtype=torch.float64)
    focused = [ops.focused_map(x, 3) for x in (a, b, c)]
    assert focused[0] @ focused[1] > a @ b
    assert focused[0] @ focused[2] < a @ c


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.floats(1e-6, 1e4), min_size=1, max_size=12), st.sampled_from([1, 2, 3, 4, 8, 32]))
def test_the_focused_map_keeps_the_norm_and_the_order_of_the_channels(entries, power):
    x = torch.tensor(entries, dtype=torch.float64)
    focused = ops.focused_map(x, power)
    torch.testing.assert_close(focused.norm(), x.norm(), **TOLERANCE)
    assert (focused[x.argsort()].diff() >= 0).all()


def test_rank_of_implicit_maps_is_bounded_by_the_width_of_a_head():
    torch.manual_seed(0)
    q, k = (torch.rand(50, 8, dtype=torch.float64)[None, None] for _ in range(2))
    values = torch.eye(50, dtype=torch.float64)[None, None]
    for name in ASSOCIATIVE:
        if name != 'angular_attention':  # which adds the query's own value
            assert torch.linalg.matrix_rank(getattr(ops, name)(q, k, values)[0, 0]) == 8, name
    matrix = reference.linear_attention_matrix(q, k)[0, 0]
    assert torch.linalg.matrix_rank(matrix) == 8
    assert torch.linalg.matrix_rank((q @ k.transpose(-2, -1)).softmax(-1)[0, 0]) == 50


def test_rows_of_linear_attention_sum_to_one():
    torch.manual_seed(0)
    q, k = (torch.rand(1, 1, 50, 8, dtype=torch.float64) for _ in range(2))
    rows = reference.linear_attention_matrix(q, k).sum(-1)
    torch.testing.assert_close(rows, torch.ones_like(rows), rtol=1e-4, atol=0)


def test_rows_of_efficient_attention_sum_to_one():
    torch.manual_seed(0)
    q, k = torch.randn(2, 3, 50, 8, dtype=torch.float64), torch.randn(2, 3, 20, 8, dtype=torch.float64)
    rows = reference.efficient_attention_matrix(q, k).sum(-1)
    torch.testing.assert_close(rows, torch.ones_like(rows), **TOLERANCE)
    ones = torch.ones(2, 3, 20, 1, dtype=torch.float64)
    torch.testing.assert_close(ops.efficient_attention(q, k, ones)[..., 0], rows, **TOLERANCE)


def test_angular_scores_approach_the_angular_kernel_near_right_angles():
    cosine = torch.linspace(-.3, .3, 13, dtype=torch.float64)
    q = torch.stack((cosine, (1 - cosine ** 2).sqrt()), dim=-1)[None, None] * 7
    k = torch.tensor([[[[3., 0.]]]], dtype=torch.float64)
    # Values that tell the score from the query's own value: the result is (1 / 2, score / pi) of unit length.
    own = torch.tensor([1., 0.], dtype=torch.float64).expand(1, 1, 13, 2)
    out = ops.angular_attention(q, k, torch.tensor([[[[0., 1.]]]], dtype=torch.float64), own_BhNe=own)[0, 0]
    linear = .5 + .5 * out[:, 1] / out[:, 0]
    torch.testing.assert_close(linear, 1 - cosine.arccos() / torch.pi, rtol=0, atol=2e-3)


def test_class_token_sits_at_the_centre_of_the_map_in_cosformer():
    token = torch.ones(1, 1, 1 + 16, 1, dtype=torch.float64)
    features = ops.cosformer_map(token, (4, 4))[0, 0]
    scores = features @ features.t()
    assert scores[0, 1:].argmax() == 2 * 4 + 2
    torch.testing.assert_close(scores.diagonal(), torch.ones(17, dtype=torch.float64), **TOLERANCE)


def test_scores_of_cosformer_are_not_negative():
    torch.manual_seed(0)
    features = ops.cosformer_map(torch.rand(2, 3, 35, 4, dtype=torch.float64), (5, 7))
    assert (features @ features.transpose(-2, -1)).min() >= 0
