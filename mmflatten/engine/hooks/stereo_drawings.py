"""Drawings of stereo pairs during training, at every validation."""
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mmcv
from mmengine.fileio import get
from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmflatten.registry import HOOKS


@HOOKS.register_module()
class StereoVisualizationHook(Hook):
    """Give the visualizer the first pair of every `interval`-th validation batch, with truth, prediction and error.

    With `LocalVisBackend` the drawings are `vis_data/vis_image/<name of the image>_<batch>_<steps trained>.png` in the
    folder of the run; TensorBoard and the like get them too. The config's visualizer must be a `StereoVisualizer`.

    Args:
        interval: batches between two drawings.
    """

    def __init__(self, interval: int = 50) -> None:
        if interval < 1:
            raise ValueError(f'interval ({interval}) must be 1 or more')
        self.interval = interval

    def after_val_iter(self, runner: Runner, batch_idx: int, data_batch: Any = None,
                       outputs: Sequence[Any] = ()) -> None:
        if batch_idx % self.interval or not outputs:
            return
        sample = outputs[0]
        image = mmcv.imfrombytes(get(sample.img_path), channel_order='rgb')
        runner.visualizer.add_datasample(f'{Path(sample.img_path).stem}_{batch_idx}', image, sample, step=runner.iter)
