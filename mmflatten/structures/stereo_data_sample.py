"""Data sample of a rectified stereo pair with true and predicted disparity."""

from __future__ import annotations

from mmengine.structures import BaseDataElement, PixelData


def _pixels(name: str) -> property:
    """A field of type `PixelData`, stored under this name."""

    def get(self: BaseDataElement) -> PixelData:
        return getattr(self, name)

    def set_pixels(self: BaseDataElement, value: PixelData) -> None:
        self.set_field(value, name, dtype=PixelData)

    def delete(self: BaseDataElement) -> None:
        delattr(self, name)

    return property(get, set_pixels, delete)


class StereoDataSample(BaseDataElement):
    """Ground truth and prediction of a stereo pair, for the pixels of the left image.

    A pixel `(y, x)` of the left image with disparity `d >= 0` corresponds to `(y, x - d)` in the
    right image. All values are in pixels.

    Meta information: `img_shape` (H, W) of the images before padding, `ori_shape` of the files,
    `left_path` and `right_path`. The preprocessor adds `batch_input_shape` (H, W), which includes
    padding.

    - `gt_disparity`: `data` (1, H, W) float32; `valid` (1, H, W) bool, False for pixels without
      ground truth; and for data sets with this annotation `occlusion` (1, H, W) bool, True for
      pixels that the right image does not show.
    - `pred_disparity`: `data` (1, H, W) float32, of the size `img_shape`.
    """

    gt_disparity, pred_disparity = _pixels('_gt_disparity'), _pixels('_pred_disparity')
