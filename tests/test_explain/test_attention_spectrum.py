"""Rank and entropy of attention matrices against numpy."""

import math

import numpy as np
import pytest
import torch

from mmflatten.explain.attention import (
    AttentionLayer,
    effective_rank,
    entropy,
    rank,
    singular_values,
)
from mmflatten.models.attention import build_mixer

SIZE = (5, 6)


def layer(kind, prefix=0, **arguments):
    torch.manual_seed(0)
    mixer = (
        build_mixer(dict(type=kind, embed_dims=16, num_heads=2, grid_size=SIZE, **arguments))
        .double()
        .eval()
    )
    return AttentionLayer(
        'layer', mixer, torch.randn(1, prefix + SIZE[0] * SIZE[1], 16, dtype=torch.float64), SIZE
    )


def uniform(**arguments):
    made = layer('SoftmaxAttention', **arguments)
    torch.nn.init.zeros_(made.module.qkv.weight)
    return made


@pytest.mark.parametrize(
    'made, part',
    [
        (layer('FocusedLinearAttention'), 'attention'),
        (layer('FocusedLinearAttention'), 'both'),
        (layer('SimAAttention', prefix=1), 'attention'),
        (layer('SoftmaxAttention', sr_ratio=2), 'attention'),
    ],
)
def test_singular_values_equal_numpy(made, part):
    values = singular_values(made, part)
    assert values.dtype == torch.float64
    assert values.shape == (2, min(made.num_queries, made.num_keys))
    for matrix, found in zip(made.matrix(part=part).numpy(), values):
        expected = np.linalg.svd(matrix, compute_uv=False)
        np.testing.assert_allclose(found, expected, atol=1e-12)
        shares = expected / expected.sum()
        assert rank(found[None], 0.1).item() == (expected > 0.1 * expected[0]).sum()
        assert rank(found[None], 1e-9).item() == np.linalg.matrix_rank(
            matrix, tol=1e-9 * expected[0]
        )
        assert effective_rank(found[None]).item() == pytest.approx(
            np.exp(-(shares * np.log(np.maximum(shares, 1e-300))).sum())
        )


def test_rank_of_linear_attention_is_the_head_width_and_grows_with_the_convolution():
    made = layer('FocusedLinearAttention')
    assert rank(singular_values(made), 1e-9).tolist() == [8, 8]
    assert min(rank(singular_values(made, 'both'), 1e-9)) > 8


def test_identity_has_full_rank_and_no_entropy():
    made = layer('CrossCovarianceAttention')
    values = singular_values(made)
    torch.testing.assert_close(values, torch.ones(2, 30, dtype=torch.float64))
    assert rank(values).tolist() == [30, 30] and entropy(made).tolist() == [0, 0]
    torch.testing.assert_close(effective_rank(values), torch.full((2,), 30.0, dtype=torch.float64))


@pytest.mark.parametrize('prefix', [0, 2])
def test_equal_weights_have_rank_one_and_the_entropy_of_all_keys(prefix):
    made = uniform(prefix=prefix)
    values = singular_values(made)
    assert rank(values).tolist() == [1, 1]
    assert effective_rank(values).tolist() == pytest.approx([1, 1])
    assert entropy(made).tolist() == pytest.approx([math.log(30 + prefix)] * 2)


def test_entropy_is_that_of_absolute_weights_over_queries_of_the_map():
    made = layer('SimAAttention', prefix=1)
    sizes = np.abs(made.matrix().numpy())
    shares = sizes / sizes.sum(-1, keepdims=True)
    by_query = -(shares * np.log(shares)).sum(-1)
    assert entropy(made, 10**6).numpy() == pytest.approx(by_query[:, 1:].mean(1))
    assert entropy(made, 2).numpy() == pytest.approx(by_query[:, [1, 30]].mean(1))


@pytest.mark.parametrize('shape', [(1, 4), (3, 1)])
def test_zeros_have_no_rank(shape):
    assert rank(torch.zeros(shape)).tolist() == [0] * shape[0]
    assert effective_rank(torch.zeros(shape)).isfinite().all()


def test_matrix_above_the_memory_limit_is_rejected():
    made = AttentionLayer(
        'large', layer('SoftmaxAttention').module, torch.zeros(1, 10**5, 16), (1000, 100)
    )
    with pytest.raises(ValueError, match=r'large.*2 x 100000 x 100000|2 x 100000 x 100000.*large'):
        singular_values(made)


def test_rank_has_the_tolerance_of_matrix_rank_and_a_share_on_request():
    generator = torch.Generator().manual_seed(0)
    low = torch.rand(2, 40, 5, generator=generator) @ torch.rand(2, 5, 60, generator=generator)
    matrix = low + 3e-3 * torch.eye(40, 60)  # full rank, with small singular values
    for made, expected in ((low, [5, 5]), (matrix, [40, 40])):
        assert torch.linalg.matrix_rank(made).tolist() == expected
        assert rank(torch.linalg.svdvals(made.double()), longest=60).tolist() == expected
    assert max(rank(torch.linalg.svdvals(matrix.double()), 0.01)) < 6
