"""Transforms of stereo pairs: loading, augmentation that keeps images and maps consistent, and
packing.
"""

from collections.abc import Callable, Sequence

import cv2
import numpy as np
import torch
from mmcv.transforms import BaseTransform
from mmengine.structures import PixelData

from mmflatten.datasets.bands import read_chosen_bands
from mmflatten.datasets.stereo.files import StereoDataError, read_disparity, read_image, read_mask
from mmflatten.registry import TRANSFORMS
from mmflatten.structures import StereoDataSample

IMAGES = ('left', 'right')
MAPS = ('disparity', 'valid', 'occlusion')  # ground truth for the left image, (H, W) each
META_KEYS = (
    'sample_id',
    'img_path',
    'left_path',
    'right_path',
    'disparity_path',
    'ori_shape',
    'img_shape',
)


class StereoTransform(BaseTransform):
    """Transform whose text names its arguments."""

    def __repr__(self) -> str:
        arguments = ', '.join(f'{name}={value}' for name, value in vars(self).items())
        return f'{type(self).__name__}({arguments})'


@TRANSFORMS.register_module()
class LoadStereoPair(StereoTransform):
    """Read `left` and `right` of one size from `img_path` and `right_path`: (H, W, 3) uint8 BGR, or
    (H, W, C) float32 of `bands`.

    Args:
        bands: 'all', or indices from 0, reads the bands of TIFF, `.npy` and PNG files with all
            their bits, in the order of the file. The data preprocessor needs `mean` and `std` of
            these bands and `bgr_to_rgb=False`, and PSMNet their number as `in_channels`;
            `mmflatten init --bands` writes them. By default, three colours of 8 bits are read.
    """

    def __init__(self, bands: str | Sequence[int] | None = None) -> None:
        is_list = isinstance(bands, (list, tuple)) and len(bands) > 0
        are_indices = is_list and all(isinstance(band, int) and band >= 0 for band in bands)
        if bands not in (None, 'all') and not are_indices:
            raise ValueError(
                f"bands: expected 'all', a list of indices from 0 or None, got {bands!r}."
            )
        self.bands = bands

    def transform(self, results: dict) -> dict:
        reader = read_image if self.bands is None else self._read_bands
        results['left_path'] = results['img_path']
        results['left'] = reader(results['img_path'])
        results['right'] = _read(reader, 'right_path', results)
        found = [results[side].shape[2] for side in IMAGES]
        if found[0] != found[1]:
            raise StereoDataError(
                f'right_path {results["right_path"]}: expected {found[0]} bands as in the left'
                f' image {results["img_path"]}, got {found[1]}.'
            )
        results['img_shape'] = results['ori_shape'] = results['left'].shape[:2]
        return results

    def _read_bands(self, path: str) -> np.ndarray:
        return read_chosen_bands(path, None if isinstance(self.bands, str) else self.bands)


@TRANSFORMS.register_module()
class LoadDisparity(StereoTransform):
    """Read the ground truth of the left image: `disparity` (H, W) float32 in pixels and `valid` (H,
    W) bool.

    `disparity` is 0 where it is unknown. If the data set has occlusion, `occlusion` (H, W) bool is
    True for pixels hidden from the right camera. Raises StereoDataError for a damaged file, and for
    disparities of another size than the left image or of the opposite sign.
    """

    def transform(self, results: dict) -> dict:
        if 'disparity_path' not in results:
            raise StereoDataError(
                f'{results["img_path"]} has no disparity (disparity_path), as in test splits.'
                ' Remove LoadDisparity from the pipeline, or choose a split with ground truth.'
            )
        disparity = _read(read_disparity, 'disparity_path', results)
        valid = np.isfinite(disparity)
        # some data sets store the opposite
        if np.count_nonzero(disparity[valid] < 0) > np.count_nonzero(valid) / 2:
            raise StereoDataError(
                f'disparity {results["disparity_path"]}: expected positive values as in SceneFlow '
                'and KITTI, got negative values for most pixels. Change the sign in the files.'
            )
        results['valid'] = valid
        results['disparity'] = np.where(valid, disparity, np.float32(0))
        if 'occlusion_path' in results:
            results['occlusion'] = _read(read_mask, 'occlusion_path', results)
        elif 'noc_disparity_path' in results:
            seen = np.isfinite(_read(read_disparity, 'noc_disparity_path', results))
            results['occlusion'] = valid & ~seen
        return results


def _read(reader: Callable[[str], np.ndarray], key: str, results: dict) -> np.ndarray:
    """Read a file of the size of the left image."""
    values = reader(results[key])
    height, width = results['left'].shape[:2]
    if values.shape[:2] != (height, width):
        raise StereoDataError(
            f'{key} {results[key]}: expected {width} x {height} pixels as in the left image '
            f'{results["img_path"]}, got {values.shape[1]} x {values.shape[0]}.'
        )
    return values


@TRANSFORMS.register_module()
class StereoRandomCrop(StereoTransform):
    """Crop the same random window of `crop_size`, (height, width), from both images and all maps.

    Disparities do not change. The match of a pixel may lie outside of the other window.
    """

    def __init__(self, crop_size: Sequence[int]) -> None:
        self.crop_size = _size('crop_size', crop_size)

    def transform(self, results: dict) -> dict:
        height, width = results['left'].shape[:2]
        crop_height, crop_width = self.crop_size
        if height < crop_height or width < crop_width:
            raise ValueError(
                f'crop_size: expected at most the image size {(height, width)}, got'
                f' {self.crop_size}. Reduce it, or put StereoPad(size=...) before it.'
            )
        top = np.random.randint(height - crop_height + 1)
        left = np.random.randint(width - crop_width + 1)
        window = slice(top, top + crop_height), slice(left, left + crop_width)
        for key in (*IMAGES, *MAPS):
            if key in results:
                results[key] = results[key][window]
        results['img_shape'] = self.crop_size
        return results


@TRANSFORMS.register_module()
class StereoPad(StereoTransform):
    """Pad both images and all maps at the top and right, as in PSMNet; padded pixels are not valid.

    Args:
        size: minimum (height, width).
        size_divisor: height and width become multiples of it.
        pad_val: value of the padded pixels, 0 to 255.
    """

    def __init__(
        self, size: Sequence[int] = (1, 1), size_divisor: int = 1, pad_val: int = 0
    ) -> None:
        self.size = _size('size', size)
        self.size_divisor = size_divisor
        self.pad_val = pad_val
        if size_divisor < 1:
            raise ValueError(f'size_divisor ({size_divisor}) must be 1 or more')

    def transform(self, results: dict) -> dict:
        height, width = results['left'].shape[:2]
        padded_height = self._round_up(max(height, self.size[0]))
        padded_width = self._round_up(max(width, self.size[1]))
        border = ((padded_height - height, 0), (0, padded_width - width))
        for key in IMAGES:
            results[key] = np.pad(results[key], (*border, (0, 0)), constant_values=self.pad_val)
        for key in MAPS:
            if key in results:
                results[key] = np.pad(results[key], border)
        results['img_shape'] = padded_height, padded_width
        return results

    def _round_up(self, length: int) -> int:
        return -(-length // self.size_divisor) * self.size_divisor


@TRANSFORMS.register_module()
class StereoPhotometricJitter(StereoTransform):
    """Change brightness, contrast, saturation and gamma, usually alike in both images.

    Args:
        brightness, contrast, saturation, gamma: x for a factor, or exponent, from 1 - x to 1 + x.
        prob: probability of any change.
        asymmetric_prob: fraction of these changes that is drawn for each image separately, since
            real cameras differ in exposure and white balance.
    """

    def __init__(
        self,
        brightness: float = 0.3,
        contrast: float = 0.3,
        saturation: float = 0.3,
        gamma: float = 0.2,
        prob: float = 1.0,
        asymmetric_prob: float = 0.2,
    ) -> None:
        self.spread = dict(
            brightness=brightness, contrast=contrast, saturation=saturation, gamma=gamma
        )
        for name, value in self.spread.items():
            if not 0 <= value < 1:
                raise ValueError(f'{name} ({value}) must be at least 0 and below 1')
        self.prob, self.asymmetric_prob = prob, asymmetric_prob
        for name in ('prob', 'asymmetric_prob'):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f'{name} ({getattr(self, name)}) must be a probability, 0 to 1')

    def transform(self, results: dict) -> dict:
        for side in IMAGES:
            image = results[side]
            if image.shape[2:] != (3,) or image.dtype != np.uint8:
                raise StereoDataError(
                    f'StereoPhotometricJitter: expected three colours of 8 bits, got'
                    f' {image.shape[2]} bands of {image.dtype} in {results.get(f"{side}_path")}.'
                    ' Remove it from the pipeline of bands.'
                )
        if np.random.rand() >= self.prob:
            return results
        factors = self._sample()
        results['left'] = jitter(results['left'], **factors)
        if np.random.rand() < self.asymmetric_prob:
            factors = self._sample()
        results['right'] = jitter(results['right'], **factors)
        return results

    def _sample(self) -> dict[str, float]:
        factors = {}
        for name, value in self.spread.items():
            factors[name] = np.random.uniform(1 - value, 1 + value)
        return factors


@TRANSFORMS.register_module()
class PackStereoInputs(StereoTransform):
    """Pack `inputs` = dict(left=, right=) of (C, H, W) tensors, and a `StereoDataSample` with
    `meta_keys`.
    """

    def __init__(self, meta_keys: Sequence[str] = META_KEYS) -> None:
        self.meta_keys = tuple(meta_keys)

    def transform(self, results: dict) -> dict:
        inputs = {side: _tensor(results[side].transpose(2, 0, 1)) for side in IMAGES}
        metainfo = {key: results[key] for key in self.meta_keys if key in results}
        sample = StereoDataSample(metainfo=metainfo)
        if 'disparity' in results:
            truth = {key: _tensor(results[key])[None] for key in MAPS if key in results}
            sample.gt_disparity = PixelData(data=truth.pop('disparity'), **truth)
        return dict(inputs=inputs, data_samples=sample)


def _tensor(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values))


def jitter(
    image: np.ndarray, brightness: float, contrast: float, saturation: float, gamma: float
) -> np.ndarray:
    """Change the colours of an image (H, W, 3) uint8 BGR; factors of 1 keep it."""
    values = image.astype(np.float32)
    grey = cv2.cvtColor(values, cv2.COLOR_BGR2GRAY)[..., None]
    mean = float(grey.mean())
    values = grey + saturation * (values - grey)
    values = brightness * (mean + contrast * (values - mean))
    values = 255 * (np.clip(values, 0, 255) / 255) ** gamma
    return np.rint(values).astype(np.uint8)


def _size(name: str, value: Sequence[int]) -> tuple[int, int]:
    if isinstance(value, int) or len(value) != 2 or min(value) < 1:
        raise ValueError(f'{name} ({value}) must be (height, width), both positive')
    return tuple(int(length) for length in value)
