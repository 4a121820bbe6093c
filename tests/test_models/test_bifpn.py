"""BiFPN: comparison with an explicit reference, sizes, extra levels, gradients, parameters."""

import pytest
import torch
from torch import nn

from mmflatten.models.detection import BiFPN
from mmflatten.models.detection.bifpn import Fusion
from mmflatten.registry import MODELS

NORM = dict(type='GN', num_groups=2)


def build(**settings) -> BiFPN:
    torch.manual_seed(0)
    neck = MODELS.build(
        dict(dict(type='BiFPN', in_channels=[4, 6, 8], out_channels=10, norm_cfg=NORM), **settings)
    )
    neck.init_weights()
    return neck


def maps(*sizes, channels=(4, 6, 8)) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [
        torch.randn(2, width, *size, generator=generator) for width, size in zip(channels, sizes)
    ]


def larger(x: torch.Tensor, size: torch.Size) -> torch.Tensor:
    """Resize by nearest neighbours with explicit indices."""
    rows, columns = (torch.arange(new) * old // new for new, old in zip(size, x.shape[2:]))
    return x[:, :, rows][:, :, :, columns]


def smaller(x: torch.Tensor) -> torch.Tensor:
    """Max pooling of 3 x 3 with stride 2, with explicit windows."""
    padded = nn.functional.pad(x, (1, 1, 1, 1), value=-torch.inf)
    height, width = x.shape[2:]
    rows = []
    for i in range(0, height, 2):
        row = [padded[:, :, i : i + 3, j : j + 3].amax((2, 3)) for j in range(0, width, 2)]
        rows.append(torch.stack(row, dim=-1))
    return torch.stack(rows, dim=-2)


def fused(fusion: Fusion, *inputs: torch.Tensor) -> torch.Tensor:
    weights = [max(float(weight), 0.0) for weight in fusion.weights.detach()]
    total = sum(weight * x for weight, x in zip(weights, inputs)) / (sum(weights) + 1e-4)
    return fusion.conv.gn(fusion.conv.conv(total * torch.sigmoid(total)))


def reference(neck: BiFPN, c3, c4, c5) -> tuple[torch.Tensor, ...]:
    """Explicit computation of four levels and one layer."""
    p3, p4, p5, p6 = (
        lateral.gn(lateral.conv(x)) for lateral, x in zip(neck.laterals, (c3, c4, c5, smaller(c5)))
    )
    (layer,) = neck.layers
    down5 = fused(layer.top_down[2], p5, larger(p6, p5.shape[2:]))
    down4 = fused(layer.top_down[1], p4, larger(down5, p4.shape[2:]))
    out3 = fused(layer.top_down[0], p3, larger(down4, p3.shape[2:]))
    out4 = fused(layer.bottom_up[0], smaller(out3), down4, p4)
    out5 = fused(layer.bottom_up[1], smaller(out4), down5, p5)
    return out3, out4, out5, fused(layer.bottom_up[2], smaller(out5), p6)


@torch.no_grad()
@pytest.mark.parametrize('sizes', [((8, 12), (4, 6), (2, 3)), ((13, 7), (7, 4), (4, 2))])
def test_bifpn_matches_explicit_reference(sizes):
    neck, inputs = build(num_outs=4, num_layers=1), maps(*sizes)
    for number, fusion in enumerate(
        module for module in neck.modules() if isinstance(module, Fusion)
    ):
        fusion.weights.copy_(torch.tensor([0.5, 2.0, 1.2][: len(fusion.weights)]))
        fusion.weights[number % 2] *= -1  # a negative weight counts as zero
    for output, expected in zip(neck(inputs), reference(neck, *inputs), strict=True):
        torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_bifpn_applies_layers_in_sequence():
    one, two = build(num_layers=1), build(num_layers=2)
    two.load_state_dict(one.state_dict(), strict=False)
    outputs = one(maps((8, 8), (4, 4), (2, 2)))
    for output, expected in zip(
        two(maps((8, 8), (4, 4), (2, 2))), two.layers[1](list(outputs)), strict=True
    ):
        torch.testing.assert_close(output, expected, rtol=0, atol=0)


@pytest.mark.parametrize('size', [(64, 96), (50, 26), (8, 8), (1, 1)])
def test_bifpn_levels_have_out_channels_and_halved_sizes(size):
    sizes = [size]
    while len(sizes) < 5:
        sizes.append(tuple(-(-side // 2) for side in sizes[-1]))
    outputs = build()(maps(*sizes[:3]))
    assert [tuple(output.shape) for output in outputs] == [(2, 10, *size) for size in sizes]


def test_bifpn_extra_level_adds_lateral_and_fusions():
    three, four = (set(build(num_outs=levels, num_layers=1).state_dict()) for levels in (3, 4))
    assert not three - four
    added = ('laterals.3.', 'layers.0.top_down.2.', 'layers.0.bottom_up.2.')
    for prefix in added:
        assert any(name.startswith(prefix) for name in four - three), prefix
    assert all(name.startswith(added) for name in four - three)
    assert build(num_outs=4).laterals[3].conv.weight.shape == (10, 8, 1, 1)


def test_bifpn_trains_every_parameter_and_map():
    neck, inputs = build(), [x.requires_grad_() for x in maps((16, 12), (8, 6), (4, 3))]
    sum((output * torch.randn_like(output)).sum() for output in neck(inputs)).backward()
    for name, parameter in neck.named_parameters():
        assert (
            parameter.grad is not None
            and torch.isfinite(parameter.grad).all()
            and parameter.grad.any()
        ), name
    assert all(x.grad.any() for x in inputs)


def test_bifpn_convolutions_start_from_xavier_uniform():
    weight = build(out_channels=64).layers[0].top_down[0].conv.conv.weight
    bound = (6 / (2 * 9 * 64)) ** 0.5
    assert 0.95 * bound < weight.abs().max() <= bound


def test_bifpn_rejects_maps_with_other_channels():
    with pytest.raises(ValueError, match=r'in_channels.*\[4, 8, 6\].*\[4, 6, 8\]'):
        build()(maps((4, 4), (2, 2), (1, 1), channels=(4, 8, 6)))
    with pytest.raises(ValueError, match=r'in_channels.*\[4, 6\].*\[4, 6, 8\]'):
        build()(maps((4, 4), (2, 2)))


def test_bifpn_rejects_fewer_levels_than_maps():
    with pytest.raises(ValueError, match=r'num_outs.*3.*2'):
        build(num_outs=2)
