"""Numbers that a diverged model gives, regions of any size, and sizes of zero: a result or an
error, never a crash.
"""

import subprocess
import sys
from pathlib import Path

import mmcv.ops
import pytest
import torch

NAN, INF = float('nan'), float('inf')


def convolution(offset, mask, modulated, groups=1, offset_groups=1, dtype=torch.float32):
    """Return a deformable convolution and its gradients, of input, offset, weight and mask."""
    random = torch.Generator().manual_seed(0)
    image = torch.rand(1, 4, 6, 7, generator=random)
    weight = torch.rand(4, 4 // groups, 3, 3, generator=random)
    image, offset, weight, mask = (
        part.to(dtype).requires_grad_() for part in (image, offset, weight, mask)
    )
    sizes = (1, 1, 1, groups, offset_groups)  # stride, padding, dilation; mmcv takes no names
    if modulated:
        result = mmcv.ops.modulated_deform_conv2d(image, offset, mask, weight, None, *sizes)
        wanted = (image, offset, weight, mask)
    else:
        result = mmcv.ops.deform_conv2d(image, offset, weight, *sizes)
        wanted = (image, offset, weight)
    return result, torch.autograd.grad(result.nansum(), wanted)


@pytest.mark.parametrize('dtype', [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize('modulated', [False, True])
def test_nan_offset_gives_nan_where_it_samples_and_no_gradient(modulated, dtype):
    random = torch.Generator().manual_seed(1)
    offset = torch.randn(1, 36, 6, 7, generator=random)
    mask = torch.rand(1, 18, 6, 7, generator=random)
    broken, far = offset.clone(), offset.clone()
    for channel in (4, 7):  # x of one tap, y of another, both of the first group of offsets
        broken[0, channel, 2, 3] = NAN
        far[0, channel, 2, 3] = -1e3
    options = dict(modulated=modulated, groups=2, offset_groups=2, dtype=dtype)
    expected, (_, far_offset, *_) = convolution(far, mask, **options)
    result, gradients = convolution(broken, mask, **options)
    assert result[0, :2, 2, 3].isnan().all()
    assert result.isnan().sum() == 2
    assert torch.equal(result.nan_to_num(0), expected.masked_fill(result.isnan(), 0))
    assert all(gradient.isfinite().all() for gradient in gradients)
    of_image, of_offset, of_weight, *_ = gradients
    assert of_image.any()
    assert of_weight.any()
    assert not of_offset[0, 4:8, 2, 3].any()
    # The offsets of the second group.
    assert torch.equal(of_offset[:, 18:], far_offset[:, 18:])


@pytest.mark.parametrize('number', [INF, -INF, 1e30, -3e38, 1e9])
@pytest.mark.parametrize('modulated', [False, True])
def test_offset_out_of_the_image_samples_zero(modulated, number):
    offset, mask = torch.zeros(1, 18, 6, 7), torch.ones(1, 9, 6, 7)
    far = offset.clone()
    offset[0, ::3] = number
    far[0, ::3] = 1e3
    result, gradients = convolution(offset, mask, modulated)
    expected, expected_gradients = convolution(far, mask, modulated)
    assert torch.equal(result, expected)
    for gradient, wanted in zip(gradients, expected_gradients, strict=True):
        assert torch.equal(gradient, wanted)


@pytest.mark.parametrize('part', ['input', 'mask'])
def test_nan_in_input_or_mask_stays_where_it_is(part):
    image, mask = torch.rand(1, 2, 6, 7), torch.ones(1, 9, 6, 7)
    (image if part == 'input' else mask)[0, 0, 0, 0] = NAN
    result = mmcv.ops.modulated_deform_conv2d(
        image, torch.zeros(1, 18, 6, 7), mask, torch.ones(3, 2, 3, 3), None, 1, 1
    )
    assert result[:, :, 0, 0].isnan().all()
    assert result[:, :, 3:, 3:].isfinite().all()


def test_convolution_with_a_stride_or_groups_of_zero_is_refused():
    image, weight = torch.rand(1, 2, 6, 7), torch.rand(2, 2, 3, 3)
    for arguments in ((1, 1, 1, 0, 1), (1, 1, 1, 1, 0)):
        offset = torch.zeros(1, 18 * arguments[4], 6, 7)
        with pytest.raises((ValueError, ZeroDivisionError)):
            mmcv.ops.deform_conv2d(image, offset, weight, *arguments)


def pooled_by_definition(
    image, rois, pooled, scale, aligned, offset=None, gamma=0.1, maximum=False
):
    """Pool regions sample by sample, in double precision."""
    image = image.double()
    results = []
    for number, roi in enumerate(rois.double()):
        x1, y1, x2, y2 = (roi[1:] * scale - (0.5 if aligned else 0)).tolist()
        sides = [y2 - y1, x2 - x1]
        if not aligned:
            sides = [max(1, side) for side in sides]
        for row in range(pooled[0]):
            for column in range(pooled[1]):
                moves = (0, 0)
                if offset is not None:
                    x_move, y_move = gamma * offset[number, :, row, column].double()
                    moves = (y_move * sides[0], x_move * sides[1])
                y_step, x_step = sides[0] / pooled[0], sides[1] / pooled[1]
                y = samples_of(y1 + row * y_step, y_step) + moves[0]
                x = samples_of(x1 + column * x_step, x_step) + moves[1]
                values = torch.einsum(
                    'yh,chw,xw->cyx',
                    weights_at(y, image.shape[2]),
                    image[int(roi[0])],
                    weights_at(x, image.shape[3]),
                ).flatten(1)
                if not values.shape[1]:
                    results.append(image.new_zeros(image.shape[1]))
                elif maximum:
                    results.append(values.amax(1))
                else:
                    results.append(values.mean(1))
    return torch.stack(results).view(len(rois), *pooled, -1).permute(0, 3, 1, 2)


def samples_of(start, length):
    """Return the samples of a bin along an axis, as many as it has pixels, rounded up."""
    count = max(0, -int(-length // 1))
    return start + (torch.arange(count).double() + 0.5) * length / max(1, count)


def weights_at(place, side):
    """Return the weights of linear interpolation along an axis, 0 beyond a pixel outside."""
    near = place.clamp(0, side - 1)
    weight = (1 - (near[:, None] - torch.arange(side)).abs()).clamp(min=0)
    return weight * ((place >= -1) & (place <= side))[:, None]


LARGE = torch.tensor(
    [
        [0.0, -200, -250, 300, 280],
        [1, -3, -400, 4, 90],
        [0, 1, 1, 4, 4],
        [1, -700, -2, 200, 3],
        [1, -500, 2, 700, 5],
        [0, 2, -30, 90, 40],
    ]
)


@pytest.mark.parametrize('aligned', [True, False])
@pytest.mark.parametrize('kind', ['avg', 'max', 'deform'])
def test_region_much_larger_than_the_map_equals_its_definition(kind, aligned):
    random = torch.Generator().manual_seed(0)
    image = torch.randn(2, 3, 6, 5, generator=random).requires_grad_()
    offset = 0.1 * torch.randn(len(LARGE), 2, 3, 2, generator=random)
    if kind == 'deform':
        result = mmcv.ops.deform_roi_pool(image, LARGE, offset, (3, 2), 0.5, 0, 0.1)
        expected = pooled_by_definition(image, LARGE, (3, 2), 0.5, True, offset)
    else:
        result = mmcv.ops.roi_align(image, LARGE, (3, 2), 0.5, 0, kind, aligned)
        expected = pooled_by_definition(image, LARGE, (3, 2), 0.5, aligned, maximum=kind == 'max')
    weight = torch.randn(result.shape, generator=random)
    assert expected.abs().amax((1, 2, 3)).min() > 1e-4
    assert torch.allclose(result.double(), expected, rtol=1e-4, atol=1e-6)
    found, wanted = (
        torch.autograd.grad((part * weight).sum(), image)[0] for part in (result, expected)
    )
    assert torch.allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('kind', ['avg', 'max', 'pool', 'deform'])
def test_region_of_any_size_is_pooled_in_bounded_memory(kind):
    image = torch.ones(1, 2, 9, 8, requires_grad=True)
    for side in (1e5, 1e7, 1e9, 1e17):
        rois = torch.tensor([[0, -side / 2, -side / 2, side, side]])
        if kind == 'pool':
            result = mmcv.ops.roi_pool(image, rois, (3, 3), 1.0)
        elif kind == 'deform':
            result = mmcv.ops.deform_roi_pool(
                image, rois, torch.full((1, 2, 3, 3), 0.01), (3, 3), 1.0, 0, 0.1
            )
        else:
            result = mmcv.ops.roi_align(image, rois, (3, 3), 1.0, 0, kind, True)
        (gradient,) = torch.autograd.grad(result.sum(), image)
        assert result.isfinite().all() and gradient.isfinite().all()
        # pixel 0 lies on the border of the first two bins
        if kind in ('max', 'pool') and side < 1e9:
            assert result.amax() == 1 and not result[..., 2, 2].any()


@pytest.mark.parametrize('kind', ['avg', 'max', 'pool', 'deform'])
def test_region_of_an_image_that_is_not_there_or_beyond_all_numbers_gives_nan(kind):
    image = torch.ones(2, 1, 8, 8, requires_grad=True)
    rois = torch.tensor(
        [
            [2.0, 0, 0, 4, 4],
            [-1, 0, 0, 4, 4],
            [1e30, 0, 0, 4, 4],
            [0, -3e38, 0, 3e38, 4],
            [1, 0, 0, 4, 4],
        ]
    )
    if kind == 'pool':
        result = mmcv.ops.roi_pool(image, rois, (2, 2), 1.0)
    elif kind == 'deform':
        result = mmcv.ops.deform_roi_pool(image, rois, torch.zeros(5, 2, 2, 2), (2, 2), 1.0, 0, 0.1)
    else:
        result = mmcv.ops.roi_align(image, rois, (2, 2), 1.0, 0, kind, True)
    (gradient,) = torch.autograd.grad(result[4].sum(), image)
    assert result[:4].isnan().all()
    assert (result[4] == 1).all()
    assert not gradient[0].any()
    assert gradient[1].any()


@pytest.mark.parametrize('kind', ['avg', 'max'])
def test_map_without_pixels_is_refused(kind):
    with pytest.raises(ValueError, match=r'input must have pixels, got shape \(1, 2, 9, 0\)'):
        mmcv.ops.roi_align(
            torch.zeros(1, 2, 9, 0), torch.tensor([[0.0, 0, 0, 4, 4]]), (2, 2), 1.0, 0, kind, True
        )


def test_offset_that_is_not_finite_gives_nan_in_its_bin_of_deformable_pooling():
    image = torch.ones(1, 1, 8, 8, requires_grad=True)
    offset = torch.zeros(1, 2, 2, 2)
    offset[0, 0, 0, 1] = NAN
    offset[0, 1, 1, 0] = INF
    offset.requires_grad_()
    result = mmcv.ops.deform_roi_pool(
        image, torch.tensor([[0.0, 1, 1, 6, 6]]), offset, (2, 2), 1.0, 0, 0.1
    )
    gradients = torch.autograd.grad(result.nansum(), [image, offset])
    assert result.isnan().flatten().tolist() == [False, True, True, False]
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert gradients[0].any()


def test_pooling_of_other_regions_does_not_read_a_nan_beside_them():
    image = torch.ones(1, 1, 8, 8)
    image[..., 6:] = NAN
    rois = torch.tensor([[0.0, 0, 0, 5, 5], [0, 0, 0, 3, 3]])
    assert mmcv.ops.deform_roi_pool(image, rois, torch.zeros(2, 2, 1, 1), (1, 1)).isfinite().all()


def test_hostile_numbers_and_sizes_end_no_process():
    options = ['--cases=20', '--seed=0', '--list']
    command = [sys.executable, Path(__file__).with_name('fuzz.py'), *options]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0 and '280 tried, 280 held, 0 lost' in run.stdout, (
        run.stdout + run.stderr
    )
