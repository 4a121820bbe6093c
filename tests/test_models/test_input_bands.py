"""Backbones for images of one band and of more than three, and weights of three bands."""

import pytest
import torch
from timm.models import adapt_input_conv

from mmflatten.checkpoints.input_bands import adapt_bands
from mmflatten.registry import MODELS
from tests.test_models.test_backbones import SMALL


@pytest.mark.parametrize('name', SMALL)
@pytest.mark.parametrize('bands', [1, 4])
def test_backbone_takes_other_bands_and_adapts_weights_of_three(name, bands, tmp_path):
    torch.manual_seed(0)
    rgb = MODELS.get(name)(**SMALL[name]).eval()
    file = tmp_path / 'rgb.pth'
    torch.save({f'backbone.{key}': value for key, value in rgb.state_dict().items()}, file)
    init = dict(type='Pretrained', checkpoint=str(file), prefix='backbone.')
    model = MODELS.get(name)(**SMALL[name], in_channels=bands, init_cfg=init).eval()
    model.init_weights()
    grey = torch.randn(1, 1, 64, 64)
    with torch.no_grad():
        expected = rgb(grey.expand(-1, 3, -1, -1))
        found = model(grey.expand(-1, bands, -1, -1))
    for one, other in zip(found, expected):
        assert one.shape == other.shape
        # One band is the sum of three equal ones. Four have another mean of the weights.
        if bands == 1:
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize('bands', [1, 2, 4, 6, 16])
@pytest.mark.parametrize('dtype', [torch.float32, torch.float16])
def test_adapted_weights_equal_those_of_timm(bands, dtype):
    weight = torch.randn(5, 3, 2, 2, generator=torch.Generator().manual_seed(1)).to(dtype)
    torch.testing.assert_close(
        adapt_bands(weight, bands), adapt_input_conv(bands, weight), atol=0, rtol=0
    )


@pytest.mark.parametrize('value', [0, 2.5, '4'])
def test_invalid_number_of_bands_is_named(value):
    with pytest.raises(ValueError, match='in_channels'):
        MODELS.get('FLattenSwin')(**SMALL['FLattenSwin'], in_channels=value)
