"""Transforms that load image pairs and disparity, and pack them for a model."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from mmcv.transforms import BaseTransform
from mmengine.structures import PixelData

from mmflatten.datasets.stereo.files import StereoDataError, read_disparity, read_image, read_mask
from mmflatten.registry import TRANSFORMS
from mmflatten.structures import StereoDataSample

IMAGES = ('left', 'right')
MAPS = ('disparity', 'valid', 'occlusion')  # ground truth for the left image, (H, W) each
META_KEYS = ('sample_id', 'img_path', 'left_path', 'right_path', 'disparity_path', 'ori_shape', 'img_shape')


@TRANSFORMS.register_module()
class LoadStereoPair(BaseTransform):
    """Read `left` and `right`, (H, W, 3) uint8 BGR, from `img_path` and `right_path`.

    Raises:
        StereoDataError: a file cannot be decoded, or the sizes differ.
    """

    def transform(self, results: dict) -> dict:
        results['left_path'] = results['img_path']
        results['left'], results['right'] = read_image(results['img_path']), read_image(results['right_path'])
        left, right = results['left'].shape[:2], results['right'].shape[:2]
        if left != right:
            raise StereoDataError(f'right image {results["right_path"]}: expected {_format_size(left)} pixels as in '
                                  f'left image {results["img_path"]}, got {_format_size(right)}.')
        results['img_shape'] = results['ori_shape'] = left
        return results


@TRANSFORMS.register_module()
class LoadDisparity(BaseTransform):
    """Read the ground truth of the left image: `disparity` (H, W) float32 in pixels and `valid` (H, W) bool.

    `disparity` is 0 where it is unknown. If the data set has occlusion, `occlusion` (H, W) bool is True for pixels
    hidden from the right camera.

    Raises:
        StereoDataError: the pair has no ground truth, a file is damaged or has another size than the left image, or
            the disparities have the opposite sign.
    """

    def transform(self, results: dict) -> dict:
        if 'disparity_path' not in results:
            raise StereoDataError(f'{results["img_path"]} has no disparity (disparity_path), as in test splits. Remove '
                                  'LoadDisparity from the pipeline, or choose a split with ground truth.')
        disparity = self._read(read_disparity, 'disparity_path', results)
        results['valid'] = np.isfinite(disparity)
        _require_sign(disparity[results['valid']], results['disparity_path'])
        results['disparity'] = np.where(results['valid'], disparity, np.float32(0))
        if 'occlusion_path' in results:
            results['occlusion'] = self._read(read_mask, 'occlusion_path', results)
        elif 'noc_disparity_path' in results:
            seen_by_both = np.isfinite(self._read(read_disparity, 'noc_disparity_path', results))
            results['occlusion'] = results['valid'] & ~seen_by_both
        return results

    @staticmethod
    def _read(reader, key: str, results: dict) -> np.ndarray:
        values, size = reader(results[key]), results['left'].shape[:2]
        if values.shape != size:
            raise StereoDataError(f'{key} {results[key]}: expected {_format_size(size)} pixels as in the left image '
                                  f'{results["img_path"]}, got {_format_size(values.shape)}.')
        return values


@TRANSFORMS.register_module()
class PackStereoInputs(BaseTransform):
    """Pack `inputs` = dict(left=, right=) of (3, H, W) tensors and a `StereoDataSample`.

    Args:
        meta_keys: keys copied to the sample if present.
    """

    def __init__(self, meta_keys: Sequence[str] = META_KEYS) -> None:
        self.meta_keys = tuple(meta_keys)

    def transform(self, results: dict) -> dict:
        inputs = {side: torch.from_numpy(np.ascontiguousarray(results[side].transpose(2, 0, 1))) for side in IMAGES}
        sample = StereoDataSample(metainfo={key: results[key] for key in self.meta_keys if key in results})
        if 'disparity' in results:
            truth = {key: torch.from_numpy(np.ascontiguousarray(results[key]))[None] for key in MAPS if key in results}
            sample.gt_disparity = PixelData(data=truth.pop('disparity'), **truth)
        return dict(inputs=inputs, data_samples=sample)

    def __repr__(self) -> str:
        return f'{type(self).__name__}(meta_keys={self.meta_keys})'


def _require_sign(disparity: np.ndarray, path: str) -> None:
    """Raise if most disparities are negative: some data sets store the opposite shift."""
    if np.count_nonzero(disparity < 0) > disparity.size / 2:
        raise StereoDataError(f'disparity {path}: expected positive values as in SceneFlow and KITTI, got negative '
                              'values for most pixels. Change the sign in the files.')


def _format_size(shape: tuple[int, ...]) -> str:
    return f'{shape[1]} x {shape[0]}'
