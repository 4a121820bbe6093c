"""Images that `LoadBands` reads in a config's test pipeline: OpenMMLab's inferencers read three
colours alone.
"""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from mmengine.config import Config
from mmengine.dataset import Compose, pseudo_collate

from mmflatten.datasets.bands import read_bands
from mmflatten.engine.datasets import first_config
from mmflatten.engine.image_input import bands_of

DRAWN_RANGE = (2, 98)  # percentiles of a band that are drawn as black and white


def loads_bands(cfg: Config) -> bool:
    """Return True if the test pipeline of a config begins with `LoadBands`."""
    return bands_of(cfg) is not None


def with_colours(cfg: Config) -> Config:
    """Return a copy of a config whose test pipeline an inferencer accepts; it is not used."""
    colours = copy.deepcopy(cfg)
    steps = first_config(colours.test_dataloader.dataset).pipeline
    steps[0] = type(steps[0])(type='LoadImageFromFile')
    return colours


class BandsPipeline:
    """Test pipeline of a config on files, without their truth."""

    def __init__(self, cfg: Config) -> None:
        steps = first_config(cfg.test_dataloader.dataset).pipeline
        self._steps = Compose([step for step in steps if 'Annotations' not in str(step['type'])])

    def __call__(self, paths: Sequence[str]) -> Any:
        """Return `inputs` and `data_samples` of a batch."""
        return pseudo_collate([self._steps(dict(img_path=path, img_id=0)) for path in paths])


def drawn_bands(path: str) -> np.ndarray:
    """Return RGB pixels `(H, W, 3)` to draw on: the first three bands, or the first one as grey,
    each stretched to 8 bits.
    """
    image = read_bands(path).astype(np.float64)
    image = image[..., :3] if image.shape[2] >= 3 else image[..., [0, 0, 0]]
    low, high = np.nanpercentile(image, DRAWN_RANGE, axis=(0, 1))
    scaled = (image - low) / np.maximum(high - low, 1e-12)
    return (np.nan_to_num(scaled).clip(0, 1) * 255).astype(np.uint8)
