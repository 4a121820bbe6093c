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
    """Disparity of pairs `(left, right)`, each a file or (H, W, 3) BGR pixels, through the config's
    test pipeline.
    """

    def _init_pipeline(self, cfg: Config) -> Compose:
        steps = cfg.test_dataloader.dataset.pipeline
        loaders = ('LoadStereoPair', 'LoadDisparity')
        return Compose([step for step in steps if not step['type'].endswith(loaders)])

    def preprocess(self, inputs: Sequence[tuple], batch_size: int = 1, **kwargs: Any) -> Any:
        """Load pairs as `LoadStereoPair` does, and run the pipeline on them."""
        pairs = []
        for left_path, right_path in inputs:
            left, right = _pixels(left_path), _pixels(right_path)
            size = left.shape[:2]
            if size != right.shape[:2]:
                raise ValueError(
                    f'right image: expected the (height, width) of the left image, {size}, got '
                    f'{right.shape[:2]}. Use the two images of one pair.'
                )
            pairs.append(
                dict(
                    left=left,
                    right=right,
                    left_path=left_path,
                    img_path=left_path,
                    right_path=right_path,
                    img_shape=size,
                    ori_shape=size,
                )
            )
        return super().preprocess(pairs, batch_size, **kwargs)

    def visualize(self, *args: Any, **kwargs: Any) -> None:
        """Draw nothing: `StereoVisualizer` draws the data samples."""

    def postprocess(
        self, preds: Sequence[StereoDataSample], *args: Any, **kwargs: Any
    ) -> Sequence[StereoDataSample]:
        """Return the data samples."""
        return preds


def _pixels(image: np.ndarray | str) -> np.ndarray:
    """Return pixels, or read them from a file."""
    return image if isinstance(image, np.ndarray) else read_image(image)
