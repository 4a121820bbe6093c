"""Build models of a config without a Runner, and invert the normalisation of their data preprocessors."""
import copy

import numpy as np
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope
from torch import Tensor, nn

_RGB_SWITCHES = ('to_rgb', 'bgr_to_rgb', 'channel_conversion', '_channel_conversion')  # names in the four libraries


def model_config(cfg: Config) -> dict:
    """Return the config's `model` as the Runner builds it, with the config's `data_preprocessor` inside."""
    model = copy.deepcopy(cfg.model)
    if cfg.get('data_preprocessor') is not None:
        model.setdefault('data_preprocessor', copy.deepcopy(cfg.data_preprocessor))
    return model


def build_model(cfg: Config) -> nn.Module:
    """Build the config's model in the scope of its library."""
    with DefaultScope.overwrite_default_scope(cfg.get('default_scope', 'mmengine')):
        return MODELS.build(model_config(cfg))


def takes_rgb(preprocessor: nn.Module) -> bool:
    """Return True if a data preprocessor converts the BGR that mmcv reads to RGB."""
    return any(getattr(preprocessor, name, False) for name in _RGB_SWITCHES)


@torch.no_grad()
def pixels_of(image_CHW: Tensor, preprocessor: nn.Module) -> np.ndarray:
    """Return the RGB pixels (H, W, 3), 0 to 255, of an image that the data preprocessor has normalised."""
    mean = getattr(preprocessor, 'mean', None)
    if mean is not None:
        image_CHW = image_CHW * preprocessor.std + mean
    if not takes_rgb(preprocessor):
        image_CHW = image_CHW.flip(0)
    return image_CHW.round().clamp(0, 255).byte().permute(1, 2, 0).expand(-1, -1, 3).cpu().numpy()
