"""Focal attention against its explicit reference, and its key lists against rolled and unfolded
maps.
"""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from mmflatten import ops
from mmflatten.ops import reference

CPU = torch.device('cpu')


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    B=st.integers(1, 2),
    h=st.integers(1, 3),
    W=st.sampled_from([1, 2, 6]),
    n=st.sampled_from([1, 4, 9]),
    S=st.sampled_from([1, 7, 63]),
    M=st.sampled_from([1, 5, 30]),
    d=st.sampled_from([1, 8]),
    e=st.sampled_from([1, 4]),
    with_bias=st.booleans(),
    mask_rows=st.sampled_from([None, 'window', 'query']),
    strided=st.booleans(),
)
def test_focal_attention_equals_reference(B, h, W, n, S, M, d, e, with_bias, mask_rows, strided):
    torch.manual_seed(0)

    def draw(N, width):
        x = torch.randn(B, N, 3, h, width, dtype=torch.float64)[:, :, 1].transpose(1, 2)
        return (x if strided else x.contiguous()).detach().requires_grad_()

    inputs = [draw(W * n, d), draw(S, d), draw(S, e)]
    keys = torch.randint(0, S, (W, M))
    options = {}
    if with_bias:
        options['bias_hnM'] = torch.randn(h, n, M, dtype=torch.float64, requires_grad=True)
    if mask_rows:
        options['mask'] = torch.rand(W, n if mask_rows == 'query' else 1, M) < 0.5
        options['mask'][..., 0] = True
    parameters = [*inputs, *(x for x in options.values() if x.requires_grad)]
    results = []
    for function in (ops.focal_attention, reference.focal_attention):
        out = function(*inputs, keys, **options)
        results.append((out, *torch.autograd.grad(out.square().sum(), parameters)))
    for ours, expected in zip(*results):
        torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)


def test_focal_attention_heads_merge_without_copy():
    out = ops.focal_attention(
        torch.randn(2, 3, 8, 4),
        torch.randn(2, 3, 9, 4),
        torch.randn(2, 3, 9, 4),
        torch.randint(0, 9, (2, 5)),
    )
    assert ops.merge_heads(out).data_ptr() == out.data_ptr()


@pytest.mark.parametrize(
    ('window', 'expand', 'number', 'distinct'),
    [(7, 3, 132, 120), (7, 7, 196, 196), (4, 1, 28, 20), (3, 5, 36, 36), (7, 0, 0, 0)],
)
def test_neighbor_offsets_count(window, expand, number, distinct):
    offsets = ops.neighbor_offsets(window, expand)
    assert (len(offsets), len(set(offsets))) == (number, distinct)


def test_neighbor_offsets_repeat_middle_row_and_column():
    offsets = ops.neighbor_offsets(7, 3)
    twice = {offset for offset in offsets if offsets.count(offset) == 2}
    far = (-3, -2, -1, 7, 8, 9)
    assert twice == {(3, x) for x in far} | {(y, 3) for y in far}


@pytest.mark.parametrize(
    ('window', 'expand', 'grid'), [(7, 3, (2, 3)), (4, 2, (1, 2)), (3, 5, (2, 2))]
)
def test_window_order_gives_keys_of_rolled_windows(window, expand, grid):
    """The official code rolls the map four times, partitions it, and drops the tokens inside the
    window.
    """
    H, W = grid[0] * window, grid[1] * window
    token = torch.arange(H * W).view(1, H, W)
    # row-major token at each index
    in_order = ops.window_partition(token, (window, window)).flatten()
    inside = torch.zeros(3 * window + 2 * expand, 3 * window + 2 * expand)
    inside[window : 2 * window, window : 2 * window] = 1
    expected = []
    for dy in (-expand, expand):
        for dx in (-expand, expand):
            outside = (
                inside.roll((dy, dx), (0, 1))[window : 2 * window, window : 2 * window].flatten()
                == 0
            )
            rolled = ops.window_partition(token.roll((dy, dx), (1, 2)), (window, window))
            expected.append(rolled[:, outside])
    offsets = torch.tensor(ops.neighbor_offsets(window, expand))
    keys = ops.window_order(ops.window_positions(grid, window, offsets), grid, window)
    assert torch.equal(in_order[keys], torch.cat(expected, dim=1))


@pytest.mark.parametrize(
    ('level', 'focal_window'), [(0, 1), (0, 3), (0, 7), (1, 1), (1, 5), (2, 3)]
)
def test_pooled_keys_equal_unfolded_map(level, focal_window):
    grid, step = (3, 4), 2**level
    side = 2 * (focal_window // 2) + 2 * step - 1
    index = torch.arange(1.0, 1 + 12 * step**2).view(1, 1, grid[0] * step, grid[1] * step)
    unfolded = F.unfold(index, side, stride=step, padding=side // 2).view(side, side, 12)
    unfolded = unfolded[step - 1 :, step - 1 :].flatten(0, 1).t().long()  # 0 is outside the map
    keys, inside = ops.pooled_keys(grid, level, focal_window, CPU)
    assert torch.equal(inside, unfolded > 0)
    assert torch.equal(keys[inside] + 1, unfolded[inside])
    assert keys.min() >= 0 and keys.max() < index.numel()


@pytest.mark.parametrize('shift', [0, 1])
@pytest.mark.parametrize('padding', [True, False])
def test_visible_keys_are_neighbours_before_the_roll(shift, padding):
    window, grid, hw_shape, map_size = 3, (2, 3), (5, 7), (6, 9)
    offsets = torch.cartesian_prod(torch.arange(window), torch.arange(window))
    queries = ops.window_positions(grid, window, offsets)
    keys = ops.window_positions(grid, window, torch.tensor(ops.neighbor_offsets(window, 1)))
    visible = ops.visible_keys(
        keys, queries, hw_shape, map_size, shift, wrap=False, padding=padding
    )
    assert visible.shape == (6, 9 if shift else 1, keys.shape[1])
    size = torch.tensor(map_size)
    unrolled = [(x + shift) % size for x in (queries, keys)]
    # The distance on the map must equal the distance on the rolled map.
    expected = (
        unrolled[1][:, None] - unrolled[0][:, :, None] == keys[:, None] - queries[:, :, None]
    ).all(-1)
    if shift:
        expected = expected | ~(unrolled[0] < torch.tensor(hw_shape)).all(-1)[..., None]
    if not padding:
        expected = expected & (unrolled[1] < torch.tensor(hw_shape)).all(-1)[:, None]
    assert torch.equal(visible.expand(-1, 9, -1), expected)


@pytest.mark.parametrize(
    'shape', [(7, 3, 7, 3), (7, 3, 12, 3), (7, 3, 14, 6), (12, 5, 7, 3), (3, 4, 3, 3)]
)
def test_resize_neighbor_bias_keeps_constant_table(shape):
    window, expand, new_window, new_expand = shape
    table = torch.full((1, 2, window**2, len(ops.neighbor_offsets(window, expand))), 0.5)
    resized = ops.resize_neighbor_bias(table, *shape)
    expected = torch.full(
        (1, 2, new_window**2, len(ops.neighbor_offsets(new_window, new_expand))), 0.5
    )
    torch.testing.assert_close(resized, expected)


def test_resize_neighbor_bias_keeps_relative_positions():
    window, expand, new_window, new_expand = 7, 3, 14, 6

    def ramp(window, expand):
        """Bias that grows with the row of the key and the column of the query, in units of the
        window.
        """
        key = torch.tensor(ops.neighbor_offsets(window, expand))[:, 0] / window
        query = torch.arange(window) / window
        return (key + query.repeat(window)[:, None])[None, None]

    resized = ops.resize_neighbor_bias(ramp(window, expand), window, expand, new_window, new_expand)
    # At the ends of the pieces bilinear interpolation is flat, which costs half a token of the old
    # window per axis.
    torch.testing.assert_close(resized, ramp(new_window, new_expand), rtol=0, atol=2 / window)
    assert (
        torch.corrcoef(torch.stack((resized.flatten(), ramp(new_window, new_expand).flatten())))[
            0, 1
        ]
        > 0.99
    )


def test_resize_neighbor_bias_keeps_table_of_same_window():
    table = torch.randn(1, 2, 49, 132)
    torch.testing.assert_close(ops.resize_neighbor_bias(table, 7, 3, 7, 3), table)


def test_resize_neighbor_bias_starts_new_neighbours_at_zero():
    resized = ops.resize_neighbor_bias(torch.ones(1, 1, 4, 16), 2, 2, 3, 2)
    assert set(resized.unique().tolist()) == {0.0, 1.0}
