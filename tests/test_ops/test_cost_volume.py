"""Cost volumes and disparity regression against their explicit references."""

import pytest
import torch

from mmflatten.ops import concat_cost_volume, reference, soft_argmax_disparity


def maps(*shape: int, number: int = 2) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(shape, dtype=torch.float64, generator=generator, requires_grad=True)
        for _ in range(number)
    ]


@pytest.mark.parametrize('size', [(1, 1), (3, 7), (2, 63), (5, 4)])
@pytest.mark.parametrize('num_shifts', [1, 4, 9])
def test_concat_cost_volume_equals_reference(size, num_shifts):
    left, right = maps(2, 3, *size)
    volumes = [
        build(left, right, num_shifts)
        for build in (concat_cost_volume, reference.concat_cost_volume)
    ]
    assert volumes[0].shape == (2, 6, num_shifts, *size)
    assert torch.equal(*volumes)
    weights = torch.randn_like(volumes[0])
    gradients = [torch.autograd.grad((volume * weights).sum(), (left, right)) for volume in volumes]
    for ours, expected in zip(*gradients):
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


def test_concat_cost_volume_halves_agree_at_true_disparity():
    (left,) = maps(1, 4, 6, 20, number=1)
    right = left.roll(-5, -1)  # left[x] matches right[x - 5]
    first, second = concat_cost_volume(left, right, 8).chunk(2, 1)
    difference = (first - second).abs().mean((0, 1, 3, 4))
    assert difference[5] == 0 and (difference > 0).sum() == 7


def test_concat_cost_volume_copies_inputs_and_keeps_type():
    left, right = (x.detach().half() for x in maps(1, 2, 3, 5))
    before = left.clone(), right.clone()
    volume = concat_cost_volume(left, right, 3)
    volume.zero_()
    assert volume.dtype == torch.float16
    assert torch.equal(left, before[0]) and torch.equal(right, before[1])


@pytest.mark.parametrize(
    'right, num_shifts, message',
    [((1, 2, 3, 6), 4, r'right_BCHW.*\(1, 2, 3, 6\)'), ((1, 2, 3, 5), 0, 'num_shifts.* 0')],
)
def test_concat_cost_volume_rejects_wrong_arguments(right, num_shifts, message):
    with pytest.raises(ValueError, match=message):
        concat_cost_volume(torch.zeros(1, 2, 3, 5), torch.zeros(right), num_shifts)


@pytest.mark.parametrize('num_disparities', [1, 7, 64])
def test_soft_argmax_disparity_equals_reference(num_disparities):
    (scores,) = maps(2, num_disparities, 3, 5, number=1)
    results = [
        regress(scores * 9) for regress in (soft_argmax_disparity, reference.soft_argmax_disparity)
    ]
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)
    gradients = [torch.autograd.grad(result.square().sum(), scores)[0] for result in results]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_soft_argmax_disparity_keeps_subpixels_under_autocast(dtype):
    scores = torch.full((1, 192, 1, 1), -30.0, dtype=dtype)
    scores[0, 150:154] = 0  # the mean is 151.5, which bfloat16 cannot represent
    with torch.autocast('cpu', dtype=torch.bfloat16):
        disparity = soft_argmax_disparity(scores)
    assert disparity.dtype == torch.float32
    assert disparity.item() == pytest.approx(151.5, abs=1e-4)
