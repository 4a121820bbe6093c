"""Data sample of a rectified stereo pair with true and predicted disparity."""
from __future__ import annotations

from mmengine.structures import BaseDataElement, PixelData


class StereoDataSample(BaseDataElement):
    """Ground truth and prediction of a stereo pair, for the pixels of the left image.

    A pixel `(y, x)` of the left image with disparity `d >= 0` corresponds to `(y, x - d)` in the right image. All
    values are in pixels.

    Meta information: `img_shape` (H, W) of the images before padding, `ori_shape` of the files, `left_path` and
    `right_path`. The preprocessor adds `batch_input_shape` (H, W), which includes padding.

    - `gt_disparity`: `data` (1, H, W) float32; `valid` (1, H, W) bool, False for pixels without ground truth; and for
      data sets with this annotation `occlusion` (1, H, W) bool, True for pixels that the right image does not show.
    - `pred_disparity`: `data` (1, H, W) float32, of the size `img_shape`.
    """

    @property
    def gt_disparity(self) -> PixelData:
        return self._gt_disparity

    @gt_disparity.setter
    def gt_disparity(self, value: PixelData) -> None:
        self.set_field(value, '_gt_disparity', dtype=PixelData)

    @gt_disparity.deleter
    def gt_disparity(self) -> None:
        del self._gt_disparity

    @property
    def pred_disparity(self) -> PixelData:
        return self._pred_disparity

    @pred_disparity.setter
    def pred_disparity(self, value: PixelData) -> None:
        self.set_field(value, '_pred_disparity', dtype=PixelData)

    @pred_disparity.deleter
    def pred_disparity(self) -> None:
        del self._pred_disparity
