"""Pictures: reading them safely with Pillow, and RGB pixels of a normalised image."""

import numpy as np
import torch
from PIL import EpsImagePlugin
from torch import Tensor, nn

# Names of the switch in MMEngine, mmdet, mmseg and mmpretrain.
_RGB_SWITCHES = ('to_rgb', 'bgr_to_rgb', 'channel_conversion', '_channel_conversion')


def disable_ghostscript() -> None:
    """Make Pillow reject pictures that are PostScript programs, which it would run in Ghostscript.

    The setting holds for the process. Whoever starts to read pictures calls this first:
    `build_dataset` for data sets, `Predictor` for predictions.
    """
    EpsImagePlugin.gs_binary = False


def takes_rgb(preprocessor: nn.Module) -> bool:
    """Return True if a data preprocessor converts the BGR that mmcv reads to RGB."""
    return any(getattr(preprocessor, name, False) for name in _RGB_SWITCHES)


@torch.no_grad()
def pixels_of(image_CHW: Tensor, preprocessor: nn.Module) -> np.ndarray:
    """Return the RGB pixels (H, W, 3), 0 to 255, of an image that the data preprocessor has
    normalised.
    """
    mean = getattr(preprocessor, 'mean', None)
    if mean is not None:
        image_CHW = image_CHW * preprocessor.std + mean
    if not takes_rgb(preprocessor):
        image_CHW = image_CHW.flip(0)
    # A grey image has one channel, which becomes all three.
    image_HW3 = image_CHW.round().clamp(0, 255).byte().permute(1, 2, 0).expand(-1, -1, 3)
    return image_HW3.cpu().numpy()
