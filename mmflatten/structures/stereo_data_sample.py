"""One rectified stereo pair, what is known of its disparity, and what a model says of it."""
from __future__ import annotations

from mmengine.structures import BaseDataElement, PixelData


class StereoDataSample(BaseDataElement):
    """Truth and prediction of one stereo pair, both for the pixels of the left image.

    A pixel `(y, x)` of the left image with disparity `d` is seen at `(y, x - d)` of the right one; `d >= 0`, in pixels.

    Meta information: `img_shape` (H, W) of the images before the preprocessor pads them, `ori_shape` as they were on
    disk, `left_path`, `right_path`; the preprocessor adds `batch_input_shape` (H, W) with padding.

    - `gt_disparity`: `data` (1, H, W) float32; `valid` (1, H, W) bool, False where the truth is unknown; where the data
      set tells, `occlusion` (1, H, W) bool, True for pixels that the right image does not show.
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
