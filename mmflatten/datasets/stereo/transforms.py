"""Augmentations of stereo pairs that keep images and maps consistent."""
from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from mmcv.transforms import BaseTransform

from mmflatten.datasets.stereo.loading import IMAGES, MAPS
from mmflatten.registry import TRANSFORMS


@TRANSFORMS.register_module()
class StereoRandomCrop(BaseTransform):
    """Crop the same random window from both images and all maps.

    Disparities do not change. The match of a pixel may lie outside of the other window.

    Args:
        crop_size: (height, width).

    Raises:
        ValueError: a pair is smaller than `crop_size`.
    """

    def __init__(self, crop_size: Sequence[int]) -> None:
        self.crop_size = _size('crop_size', crop_size)

    def transform(self, results: dict) -> dict:
        size = results['left'].shape[:2]
        if any(length < crop for length, crop in zip(size, self.crop_size)):
            raise ValueError(f'crop_size: expected at most the image size {size}, got {self.crop_size}. '
                             'Reduce it, or put StereoPad(size=...) before it.')
        top, left = (np.random.randint(length - crop + 1) for length, crop in zip(size, self.crop_size))
        window = slice(top, top + self.crop_size[0]), slice(left, left + self.crop_size[1])
        for key in (*IMAGES, *MAPS):
            if key in results:
                results[key] = results[key][window]
        results['img_shape'] = self.crop_size
        return results

    def __repr__(self) -> str:
        return f'{type(self).__name__}(crop_size={self.crop_size})'


@TRANSFORMS.register_module()
class StereoPad(BaseTransform):
    """Pad both images and all maps at the top and right, as in PSMNet; padded pixels are not valid.

    Args:
        size: minimum (height, width).
        size_divisor: height and width become multiples of it.
        pad_val: value of the padded pixels, 0 to 255.
    """

    def __init__(self, size: Sequence[int] = (1, 1), size_divisor: int = 1, pad_val: int = 0) -> None:
        self.size, self.size_divisor, self.pad_val = _size('size', size), size_divisor, pad_val
        if size_divisor < 1:
            raise ValueError(f'size_divisor ({size_divisor}) must be 1 or more')

    def transform(self, results: dict) -> dict:
        height, width = results['left'].shape[:2]
        padded = [-(-max(length, least) // self.size_divisor) * self.size_divisor
                  for length, least in zip((height, width), self.size)]
        border = ((padded[0] - height, 0), (0, padded[1] - width))
        for key in IMAGES:
            results[key] = np.pad(results[key], (*border, (0, 0)), constant_values=self.pad_val)
        for key in MAPS:
            if key in results:
                results[key] = np.pad(results[key], border)
        results['img_shape'] = tuple(padded)
        return results

    def __repr__(self) -> str:
        return (f'{type(self).__name__}(size={self.size}, size_divisor={self.size_divisor}, '
                f'pad_val={self.pad_val})')


@TRANSFORMS.register_module()
class StereoPhotometricJitter(BaseTransform):
    """Change brightness, contrast, saturation and gamma, usually alike in both images.

    Real cameras differ in exposure and white balance, which `asymmetric_prob` simulates.

    Args:
        brightness: x for a factor from 1 - x to 1 + x.
        contrast: likewise, around the mean of the image.
        saturation: likewise, around its grey version.
        gamma: x for an exponent from 1 - x to 1 + x.
        prob: probability of any change.
        asymmetric_prob: fraction of these changes that is drawn for each image separately.
    """

    def __init__(self, brightness: float = 0.3, contrast: float = 0.3, saturation: float = 0.3, gamma: float = 0.2,
                 prob: float = 1.0, asymmetric_prob: float = 0.2) -> None:
        self.spread = dict(brightness=brightness, contrast=contrast, saturation=saturation, gamma=gamma)
        for name, value in self.spread.items():
            if not 0 <= value < 1:
                raise ValueError(f'{name} ({value}) must be at least 0 and below 1')
        for name, value in dict(prob=prob, asymmetric_prob=asymmetric_prob).items():
            if not 0 <= value <= 1:
                raise ValueError(f'{name} ({value}) must be a probability, 0 to 1')
        self.prob, self.asymmetric_prob = prob, asymmetric_prob

    def transform(self, results: dict) -> dict:
        if np.random.rand() >= self.prob:
            return results
        left = self._draw()
        right = self._draw() if np.random.rand() < self.asymmetric_prob else left
        results['left'], results['right'] = jitter(results['left'], **left), jitter(results['right'], **right)
        return results

    def _draw(self) -> dict[str, float]:
        return {name: float(np.random.uniform(1 - value, 1 + value)) for name, value in self.spread.items()}

    def __repr__(self) -> str:
        return f'{type(self).__name__}({self.spread}, prob={self.prob}, asymmetric_prob={self.asymmetric_prob})'


def jitter(image: np.ndarray, brightness: float, contrast: float, saturation: float, gamma: float) -> np.ndarray:
    """Change the colours of an image (H, W, 3) uint8 BGR; factors of 1 keep it."""
    values = image.astype(np.float32)
    grey = cv2.cvtColor(values, cv2.COLOR_BGR2GRAY)[..., None]
    mean = float(grey.mean())
    values = grey + saturation * (values - grey)
    values = brightness * (mean + contrast * (values - mean))
    values = 255 * (np.clip(values, 0, 255) / 255)**gamma
    return np.rint(values).astype(np.uint8)


def _size(name: str, value: Sequence[int]) -> tuple[int, int]:
    if isinstance(value, int) or len(value) != 2 or min(value) < 1:
        raise ValueError(f'{name} ({value}) must be (height, width), both positive')
    return tuple(int(length) for length in value)
