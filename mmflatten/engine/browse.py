"""Samples as a model receives them, after augmentation and mixing; normalisation is undone for drawing."""
import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.runner import set_random_seed
from mmengine.structures import BaseDataElement

from mmflatten.config import build_model, pixels_of
from mmflatten.console import quiet_libraries
from mmflatten.engine.predictions import draw_sample
from mmflatten.engine.runner import Runner
from mmflatten.measure.flops.meta import parameters_on_meta
from mmflatten.tasks import task_of

MAX_BATCH = 4  # images; mixing, such as MixUp, is drawn per batch


class BrowserSample(NamedTuple):
    """One padded RGB image (H, W, 3) from 0 to 255, or the left and right one of a pair, and the ground truth."""

    images: tuple[np.ndarray, ...]
    sample: BaseDataElement


class Browser:
    """Samples of a config's data, prepared by the Runner and the model's data preprocessor.

    Args:
        split: train, val or test.
        seed: seed of sampler and augmentation.

    Attributes:
        metainfo: classes and palette of the data set.

    Raises:
        DatasetError: the data does not exist.
    """

    def __init__(self, cfg: Config, split: str = 'train', seed: int = 0) -> None:
        self.scope, self.split, self.task = cfg.get('default_scope', 'mmengine'), split, task_of(cfg)
        self.visualizer_kind = (cfg.get('visualizer') or {}).get('type')
        settings = {**cfg[f'{split}_dataloader'], 'num_workers': 0, 'pin_memory': False}
        settings['batch_size'] = min(settings['batch_size'], MAX_BATCH)
        set_random_seed(seed)
        # The model adds batch augmentations to the preprocessor. Its parameters use no memory.
        with quiet_libraries(), DefaultScope.overwrite_default_scope(self.scope), parameters_on_meta():
            self.loader = Runner.build_dataloader(settings, seed=seed)
            self.preprocessor = build_model(cfg).data_preprocessor
        self.metainfo: dict = dict(self.loader.dataset.metainfo)

    def __iter__(self) -> Iterator[BrowserSample]:
        """Yield samples until the data ends."""
        for batch in self.loader:
            with torch.no_grad(), DefaultScope.overwrite_default_scope(self.scope):
                batch = self.preprocessor(batch, training=self.split == 'train')
            inputs = batch['inputs']
            sides = [inputs[side] for side in ('left', 'right')] if isinstance(inputs, dict) else [inputs]
            for tensors, sample in zip(zip(*sides), batch['data_samples']):
                images = tuple(pixels_of(image, self.preprocessor) for image in tensors)
                if self.split != 'train' and self.task.resizes_truth:  # the ground truth has the original size
                    height, width = sample.img_shape[:2]
                    images = (cv2.resize(images[0][:height, :width], sample.ori_shape[1::-1]), )
                elif 'gt_instances' in sample and 'masks' in sample.gt_instances:
                    sample.gt_instances.masks = sample.gt_instances.masks.pad(images[0].shape[:2])
                yield BrowserSample(images, sample)

    def draw(self, item: BrowserSample, out_file: Path) -> None:
        """Draw a sample and its ground truth."""
        visualizer, sample = self.task.visualizer(self.metainfo, self.visualizer_kind), item.sample
        if hasattr(visualizer, 'draw_pair'):
            maps = []
            if (truth := sample.get('gt_disparity')) is not None:  # padded like the image, at the top and right
                above, right = np.subtract(item.images[0].shape[:2], truth.data.shape[1:]).tolist()
                maps = [F.pad(values[0], (0, right, above, 0)).numpy() for values in (truth.data, truth.valid)]
            pair = visualizer.draw_pair(item.images[0], *maps, right=item.images[1])
            cv2.imwrite(os.fsencode(out_file), pair[..., ::-1])
            return
        if 'gt_score' in sample and 'gt_label' in sample:
            sample = copy.copy(sample)
            scores = sample.gt_score
            sample.set_gt_label(scores.nonzero().flatten())
            names = self.metainfo.get('classes') or range(len(scores))
            visualizer.dataset_meta = dict(classes=[f'{name}, {score:.0%}' for name, score in zip(names, scores)])
        draw_sample(visualizer, item.images[0], sample, str(out_file))
