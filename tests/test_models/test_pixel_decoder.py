"""Pixel decoder of the mask head: sum of projected maps, and its errors."""

import pytest
import torch
import torch.nn.functional as F

from mmflatten.models.mask_head.pixel_decoder import PixelDecoder

CHANNELS = (4, 6, 8)
SIZES = ((13, 9), (7, 5), (4, 3))


def maps_of(channels: tuple[int, ...]) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(2, number, *size) for number, size in zip(channels, SIZES)]


def projected(decoder: PixelDecoder, level: int, map_BCHW: torch.Tensor) -> torch.Tensor:
    """A linear layer and a norm over the channels of every pixel."""
    convolution, norm = decoder.laterals[level]
    x = map_BCHW.permute(0, 2, 3, 1) @ convolution.weight[..., 0, 0].T + convolution.bias
    x = x - x.mean(-1, keepdim=True)
    x = x / (x.square().mean(-1, keepdim=True) + norm.eps).sqrt()
    return (x * norm.weight + norm.bias).permute(0, 3, 1, 2)


@pytest.mark.parametrize('level, chosen', [(None, 1), (0, 0), (2, 2)])
def test_tokens_are_the_sum_of_their_level_and_the_coarser_ones(level, chosen):
    decoder = PixelDecoder(CHANNELS, 5, level)
    for parameter in decoder.parameters():
        torch.nn.init.normal_(parameter)
    maps = maps_of(CHANNELS)
    tokens, finer = decoder(maps)
    parts = [projected(decoder, index, x) for index, x in enumerate(maps)]
    expected = sum(F.interpolate(x, SIZES[chosen], mode='bilinear') for x in parts[chosen:])
    torch.testing.assert_close(tokens, expected, rtol=1e-4, atol=1e-5)
    assert len(finer) == chosen
    for ours, part in zip(finer, reversed(parts[:chosen])):
        torch.testing.assert_close(ours, part, rtol=1e-4, atol=1e-5)


def test_maps_of_another_backbone_are_rejected():
    decoder = PixelDecoder(CHANNELS, 5)
    with pytest.raises(ValueError, match=r'in_channels.*\[4, 6, 7\].*\[4, 6, 8\]'):
        decoder(maps_of((4, 6, 7)))
    with pytest.raises(ValueError, match=r'in_channels.*\[4, 6\].*\[4, 6, 8\]'):
        decoder(maps_of((4, 6)))


@pytest.mark.parametrize('level', [3, -1])
def test_a_level_that_does_not_exist_is_rejected(level):
    with pytest.raises(ValueError, match=f'token_level.*3 maps.*{level}'):
        PixelDecoder(CHANNELS, 5, level)
