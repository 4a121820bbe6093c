"""Results of exported stereo networks."""

from typing import Any

import numpy as np
from mmengine.structures import PixelData

from mmflatten.runtime.model import tensor

OUTPUTS = (('disparity',),)
PADS = False  # the network pads at the top and on the right


def add_prediction(sample: Any, result: dict[str, np.ndarray], size: tuple[int, int]) -> None:
    """Set `pred_disparity` (1, H, W) of a data sample, in pixels."""
    sample.pred_disparity = PixelData(data=tensor(result['disparity'])[None])
