"""What a model sees: samples after augmentation, mixing and normalisation, which is undone to draw them."""
import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.runner import set_random_seed
from mmengine.structures import BaseDataElement
from torch import nn

from mmflatten.building import build_model, pixels_of
from mmflatten.console import quiet_libraries
from mmflatten.engine.predictions import draw_sample
from mmflatten.engine.runner import Runner
from mmflatten.measure.flops.meta import parameters_on_meta
from mmflatten.tasks import task_of

BATCH = 4  # images at most; whatever mixes images does it anew in every batch


class Seen(NamedTuple):
    """A sample as the model gets it.

    Attributes:
        images: RGB (H, W, 3) of 0 to 255, with padding: one, or the left and the right of a pair.
        sample: its truth.
    """

    images: tuple[np.ndarray, ...]
    sample: BaseDataElement


class Browser:
    """Samples of a config's data, prepared as the Runner and the model's data preprocessor prepare them.

    Args:
        split: train, val or test.
        seed: of sampler and augmentation.

    Attributes:
        metainfo: classes and palette of the data set.

    Raises:
        DatasetError: the data is not there.
    """

    def __init__(self, cfg: Config, split: str = 'train', seed: int = 0) -> None:
        self.scope, self.split, self.task = cfg.get('default_scope', 'mmengine'), split, task_of(cfg)
        self.visualizer_kind = (cfg.get('visualizer') or {}).get('type')
        settings = {**cfg[f'{split}_dataloader'], 'num_workers': 0, 'pin_memory': False}
        settings['batch_size'] = min(settings['batch_size'], BATCH)
        set_random_seed(seed)
        with quiet_libraries(), DefaultScope.overwrite_default_scope(self.scope):
            self.loader = Runner.build_dataloader(settings, seed=seed)
            self.preprocessor = _preprocessor(cfg)
        self.metainfo: dict = dict(self.loader.dataset.metainfo)

    def __iter__(self) -> Iterator[Seen]:
        """Samples, batch after batch, until the data ends."""
        for batch in self.loader:
            with torch.no_grad(), DefaultScope.overwrite_default_scope(self.scope):
                batch = self.preprocessor(batch, training=self.split == 'train')
            inputs = batch['inputs']
            sides = [inputs[side] for side in ('left', 'right')] if isinstance(inputs, dict) else [inputs]
            for tensors, sample in zip(zip(*sides), batch['data_samples']):
                yield self._fitted(tuple(pixels_of(image, self.preprocessor) for image in tensors), sample)

    def draw(self, seen: Seen, out_file: Path) -> None:
        """Draw a sample and its truth."""
        visualizer = self.task.visualizer(self.metainfo, self.visualizer_kind)
        if hasattr(visualizer, 'draw_pair'):
            truth = seen.sample.get('gt_disparity')
            maps = () if truth is None else (_padded(truth.data, seen), _padded(truth.valid, seen))
            pair = visualizer.draw_pair(seen.images[0], *maps, right=seen.images[1])
            cv2.imwrite(os.fsencode(out_file), pair[..., ::-1])
            return
        sample = seen.sample
        if 'gt_score' in sample and 'gt_label' in sample:
            sample = copy.copy(sample)
            shares = sample.gt_score
            sample.set_gt_label(shares.nonzero().flatten())
            names = self.metainfo.get('classes') or range(len(shares))
            visualizer.dataset_meta = dict(classes=[f'{name}, {share:.0%}' for name, share in zip(names, shares)])
        draw_sample(visualizer, seen.images[0], sample, str(out_file))

    def _fitted(self, images: tuple[np.ndarray, ...], sample: BaseDataElement) -> Seen:
        """Image and truth in one size.

        In training masks are padded as the image is. In a test the truth is that of the original image, as metrics
        count, so the image is brought back to it.
        """
        if self.split != 'train' and self.task.resizes_truth:
            height, width = sample.img_shape[:2]
            images = (cv2.resize(images[0][:height, :width], sample.ori_shape[1::-1]), )
        elif 'gt_instances' in sample and 'masks' in sample.gt_instances:
            masks = sample.gt_instances.masks
            if (masks.height, masks.width) != images[0].shape[:2]:
                sample.gt_instances.masks = masks.pad(images[0].shape[:2])
        return Seen(images, sample)


def _preprocessor(cfg: Config) -> nn.Module:
    """The data preprocessor as the model sets it up, with what mixes its batches; the model needs no memory."""
    with parameters_on_meta():
        return build_model(cfg).data_preprocessor


def _padded(values: torch.Tensor, seen: Seen) -> np.ndarray:
    """A map (1, H, W) of the pair, zero where `StereoDataPreProcessor` pads its images: above and to the right."""
    height, width = seen.images[0].shape[:2]
    array = np.zeros((height, width), dtype=values.numpy().dtype)
    array[height - values.shape[1]:, :values.shape[2]] = values[0].numpy()
    return array
