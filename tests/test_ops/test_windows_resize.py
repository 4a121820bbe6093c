"""Windows and resizing."""

import pytest
import torch
import torch.nn.functional as F

from mmflatten import ops


@pytest.mark.parametrize('rest', [(5,), (3, 4), ()])
@pytest.mark.parametrize('window', [(2, 3), (1, 6), (4, 1), (4, 6)])
def test_window_reverse_inverts_partition(rest, window):
    x = torch.arange(2 * 4 * 6 * torch.Size(rest).numel()).view(2, 4, 6, *rest)
    windows = ops.window_partition(x, window)
    assert windows.shape == (2 * 24 // (window[0] * window[1]), window[0] * window[1], *rest)
    assert torch.equal(ops.window_reverse(windows, window, (4, 6)), x)
    assert torch.equal(windows[0], x[0, : window[0], : window[1]].flatten(0, 1))


def test_shifted_window_mask_allows_neighbours_before_the_roll():
    H, W, window, shift = 6, 9, (3, 3), (1, 1)
    rows = torch.arange(H)[:, None].expand(H, W)
    cols = torch.arange(W).expand(H, W)
    position = torch.stack((rows, cols), -1).roll((-1, -1), dims=(0, 1))
    windows = ops.window_partition(position[None], window)
    # Tokens that were neighbours before the roll are at most window - 1 apart.
    distance = (windows[:, :, None] - windows[:, None]).abs().amax(-1)
    expected = distance < 3
    assert torch.equal(
        ops.shifted_window_mask((H, W), window, shift, torch.device('cpu')), expected
    )


def test_padded_window_mask_marks_padding_of_rolled_map():
    real = torch.zeros(6, 6, dtype=torch.bool)
    real[:5, :4] = True
    expected = ops.window_partition(real.roll((-1, -1), dims=(0, 1))[None], (3, 3))[:, None]
    mask = ops.padded_window_mask((5, 4), (6, 6), (3, 3), (1, 1), torch.device('cpu'))
    assert torch.equal(mask, expected)


def test_resize_grid_interpolates_and_keeps_same_size():
    ramp = torch.arange(4.0).repeat(3, 1).reshape(1, 12, 1)
    assert ops.resize_grid(ramp, (3, 4), (3, 4)) is ramp
    wide = ops.resize_grid(ramp, (3, 4), (3, 8)).view(3, 8)
    assert (wide.diff(dim=1) >= 0).all() and torch.equal(wide[0], wide[2])
    tall = ops.resize_grid(ramp, (3, 4), (6, 4)).view(6, 4)
    torch.testing.assert_close(tall, torch.arange(4.0).repeat(6, 1))


@pytest.mark.parametrize('new_size', [(5, 4), (3, 9), (13, 2), (1, 1)])
def test_trained_tables_are_resized_by_products_with_the_values_and_gradients_of_interpolate(
    new_size,
):
    table = torch.randn(1, 12, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(1, new_size[0] * new_size[1], 5, dtype=torch.float64)
    with torch.inference_mode():
        expected = ops.resize_grid(table, (3, 4), new_size)  # F.interpolate
    y = ops.resize_grid(table, (3, 4), new_size)
    torch.testing.assert_close(y, expected.clone())
    (grad,) = torch.autograd.grad((y * weight).sum(), table)
    grid = F.interpolate(table.view(1, 3, 4, 5).permute(0, 3, 1, 2), new_size, mode='bilinear')
    (expected,) = torch.autograd.grad(
        (grid.permute(0, 2, 3, 1).reshape_as(weight) * weight).sum(), table
    )
    torch.testing.assert_close(grad, expected)
    with torch.autocast('cpu', torch.bfloat16):
        assert ops.resize_grid(table.float(), (3, 4), new_size).dtype == torch.float32


def test_resize_relative_position_bias_keeps_centre():
    table = torch.randn(13 * 13, 3, generator=torch.Generator().manual_seed(0))
    resized = ops.resize_relative_position_bias(table, (7, 7), (12, 12))
    assert resized.shape == (23 * 23, 3)
    torch.testing.assert_close(resized[23 * 23 // 2], table[13 * 13 // 2], rtol=0.2, atol=0.2)


@pytest.mark.parametrize('size', [(7, 7), (1, 3), (13, 5), (4, 8)])
@pytest.mark.parametrize('side', [1, 3, 7])
def test_cell_weights_equal_adaptive_pooling(size, side):
    x = torch.randn(2, 3, *size, dtype=torch.float64)
    rows, cols = (ops.cell_weights(length, side, x) for length in size)
    torch.testing.assert_close(rows @ x @ cols.T, ops.pool_cells(x, side))
