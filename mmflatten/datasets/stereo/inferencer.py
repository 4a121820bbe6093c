"""mmengine's inferencer for stereo pairs."""
from collections.abc import Sequence
from typing import Any

import numpy as np
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.infer import BaseInferencer

from mmflatten.datasets.stereo.files import read_image
from mmflatten.structures import StereoDataSample


class StereoInferencer(BaseInferencer):
    """Disparity of pairs `(left, right)`, each a file or (H, W, 3) BGR pixels, through the config's test pipeline."""

    visualize_kwargs = {'show', 'wait_time', 'draw_pred', 'img_out_dir'}

    def _init_pipeline(self, cfg: Config) -> Compose:
        steps = cfg.test_dataloader.dataset.pipeline
        return Compose([step for step in steps if not step['type'].endswith(('LoadStereoPair', 'LoadDisparity'))])

    def preprocess(self, inputs: Sequence[tuple], batch_size: int = 1, **kwargs: Any) -> Any:
        """Load pairs as `LoadStereoPair` does, and run the pipeline on them."""
        pairs = []
        for left_path, right_path in inputs:
            left, right = _read(left_path), _read(right_path)
            size = left.shape[:2]
            if size != right.shape[:2]:
                raise ValueError(f'right image: expected the (height, width) of the left image, {size}, got '
                                 f'{right.shape[:2]}. Use the two images of one pair.')
            pairs.append(dict(left=left, right=right, left_path=left_path, img_path=left_path, right_path=right_path,
                              img_shape=size, ori_shape=size))
        return super().preprocess(pairs, batch_size, **kwargs)

    def visualize(self, inputs: list, preds: Sequence[StereoDataSample], show: bool = False, wait_time: float = 0,
                  draw_pred: bool = True, img_out_dir: str = '') -> list[np.ndarray]:
        drawings = []
        for number, ((left, _), sample) in enumerate(zip(inputs, preds)):
            out_file = f'{img_out_dir}/{number:08d}.png' if img_out_dir else None
            self.visualizer.add_datasample(str(number), _read(left)[..., ::-1], sample, draw_pred=draw_pred, show=show,
                                           wait_time=wait_time, out_file=out_file)
            drawings.append(self.visualizer.get_image())
        return drawings

    def postprocess(self, preds: Sequence[StereoDataSample], visualization: list[np.ndarray],
                    return_datasamples: bool = False, **kwargs: Any) -> dict:
        predictions = preds if return_datasamples else [sample.pred_disparity.data.cpu().numpy()[0] for sample in preds]
        return dict(predictions=predictions, visualization=visualization)


def _read(image: str | np.ndarray) -> np.ndarray:
    return image if isinstance(image, np.ndarray) else read_image(image)
