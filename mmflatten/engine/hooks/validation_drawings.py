"""Draw predictions at every validation during training."""
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mmcv
from mmengine.fileio import get
from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmflatten.engine.predictions import draw_sample
from mmflatten.registry import HOOKS


@HOOKS.register_module()
class DrawValidationHook(Hook):
    """Draw the first image of every `interval`-th validation batch, with ground truth and prediction.

    With `LocalVisBackend`, the drawings are `vis_data/vis_image/<image name>_<batch>_<training step>.png` in the folder
    of the run. Other visualizer backends receive them too.

    Args:
        interval: number of batches between two drawings.
    """

    def __init__(self, interval: int = 50) -> None:
        if interval < 1:
            raise ValueError(f'interval: expected a positive integer, got {interval}.')
        self.interval = interval

    def after_val_iter(self, runner: Runner, batch_idx: int, data_batch: Any = None,
                       outputs: Sequence[Any] = ()) -> None:
        if batch_idx % self.interval or not outputs:
            return
        sample = outputs[0]
        image = mmcv.imfrombytes(get(sample.img_path), channel_order='rgb')
        name = f'{Path(sample.img_path).stem}_{batch_idx}'
        draw_sample(runner.visualizer, image, sample, name=name, step=runner.iter)
