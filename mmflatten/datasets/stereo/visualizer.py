"""Drawings of a stereo pair: left image, true and predicted disparity, and the error."""

from typing import Any

import cv2
import mmcv
import numpy as np
from mmengine.dist import master_only
from mmengine.visualization import Visualizer

from mmflatten.registry import VISUALIZERS
from mmflatten.structures import StereoDataSample

TITLE_HEIGHT = 20  # pixels
GAP = 4  # pixels between panels


@VISUALIZERS.register_module()
class StereoVisualizer(Visualizer):
    """Draws left image | true disparity | predicted disparity | error, with a title over each.

    Both disparities share one colour scale (turbo), from 0 to the largest of the truth; without a
    truth, to the largest predicted, and the second and fourth panel are left out. Pixels without a
    truth are black.

    Args:
        max_error: pixels of error that get the brightest colour (inferno).
        kwargs: of `mmengine.visualization.Visualizer`.
    """

    def __init__(self, name: str = 'visualizer', max_error: float = 5.0, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        if not max_error > 0:
            raise ValueError(f'max_error ({max_error}) must be positive')
        self.max_error = max_error

    @master_only
    def add_datasample(
        self,
        name: str,
        image: np.ndarray,
        data_sample: StereoDataSample | None = None,
        draw_gt: bool = True,
        draw_pred: bool = True,
        show: bool = False,
        wait_time: float = 0,
        out_file: str | None = None,
        step: int = 0,
    ) -> None:
        """Draw a pair; to `out_file`, else to the backends under `name`.

        Args:
            image: the left one, RGB (H, W, 3), 0 to 255.
            data_sample: `gt_disparity` and `pred_disparity` of (H, W) as the image has it, or with
                the padding of `StereoPad` around an image of `ori_shape`, which is cut off; either
                may be missing.
            show: open a window as well.
        """
        sample = data_sample or StereoDataSample()
        true = valid = predicted = None
        if draw_gt and 'gt_disparity' in sample:
            truth = sample.gt_disparity
            true = _cut(truth.data, image=image, name='gt_disparity', sample=sample)
            valid = _cut(truth.valid, image=image, name='gt_disparity', sample=sample)
        if draw_pred and 'pred_disparity' in sample:
            values = sample.pred_disparity.data
            predicted = _cut(values, image=image, name='pred_disparity', sample=sample)
        drawing = self.draw_pair(image, true=true, valid=valid, predicted=predicted)
        self.set_image(drawing)
        if show:
            self.show(drawing, win_name=name, wait_time=wait_time)
        if out_file is not None:
            mmcv.imwrite(drawing[..., ::-1], out_file)  # unlike OpenCV's, it reports a full disk
        else:
            self.add_image(name, drawing, step)

    def draw_pair(
        self,
        image: np.ndarray,
        true: np.ndarray | None = None,
        valid: np.ndarray | None = None,
        predicted: np.ndarray | None = None,
    ) -> np.ndarray:
        """Draw the panels side by side, RGB uint8.

        Args:
            image: the left one, (H, W, 3).
            true, valid, predicted: (H, W); disparities in pixels.
        """
        panels = [('left image', image.astype(np.uint8))]
        reference = predicted if true is None else true[valid]
        top = 1.0 if reference is None else max(1.0, float(reference.max(initial=0)))
        if true is not None:
            colours = colour_map(true, top=top, scheme=cv2.COLORMAP_TURBO, valid=valid)
            panels.append((f'true, 0 to {top:.0f} px', colours))
        if predicted is not None:
            colours = colour_map(predicted, top=top, scheme=cv2.COLORMAP_TURBO)
            panels.append((f'predicted, 0 to {top:.0f} px', colours))
        if true is not None and predicted is not None:
            error = np.abs(predicted - true)
            mean = float(error[valid].mean()) if valid.any() else float('nan')
            title = f'error, 0 to {self.max_error:g} px; mean {mean:.2f}'
            colours = colour_map(
                error, top=self.max_error, scheme=cv2.COLORMAP_INFERNO, valid=valid
            )
            panels.append((title, colours))
        return side_by_side(panels)


def colour_map(
    values: np.ndarray, top: float, scheme: int, valid: np.ndarray | None = None
) -> np.ndarray:
    """Return colours (H, W, 3) RGB of values (H, W) from 0 to `top`; black where not `valid`."""
    levels = np.rint(255 * np.clip(values / top, 0, 1)).astype(np.uint8)
    colours = np.ascontiguousarray(cv2.applyColorMap(levels, scheme)[..., ::-1])
    if valid is not None:
        colours[~valid] = 0
    return colours


def side_by_side(panels: list[tuple[str, np.ndarray]], min_width: int = 300) -> np.ndarray:
    """Draw panels (H, W, 3) of one size in a row on white, enlarged to `min_width` pixels so that
    their titles fit.
    """
    factor = max(1, -(-min_width // panels[0][1].shape[1]))
    parts = []
    for title, panel in panels:
        panel = panel.repeat(factor, 0).repeat(factor, 1)
        height, width = panel.shape[:2]
        part = np.full((height + TITLE_HEIGHT, width + GAP, 3), 255, dtype=np.uint8)
        part[TITLE_HEIGHT:, :-GAP] = panel
        cv2.putText(
            img=part,
            text=title,
            org=(2, TITLE_HEIGHT - 6),
            fontFace=cv2.FONT_HERSHEY_SIMPLEX,
            fontScale=0.45,
            color=(0, 0, 0),
            thickness=1,
            lineType=cv2.LINE_AA,
        )
        parts.append(part)
    return np.hstack(parts)[:, :-GAP]


def _cut(values: Any, image: np.ndarray, name: str, sample: StereoDataSample) -> np.ndarray:
    """Return a map (1, H, W) as an array of the size of the image, without padding."""
    array = values.detach().cpu().numpy()[0]
    height, width = image.shape[:2]
    is_original = tuple(sample.get('ori_shape', ())) == (height, width)
    if is_original and array.shape[0] >= height and array.shape[1] >= width:
        array = array[array.shape[0] - height :, :width]  # padding is above and to the right
    if array.shape != (height, width):
        raise ValueError(
            f'{name} has {array.shape} (height, width) and the image {(height, width)}; they must'
            ' agree'
        )
    return array
