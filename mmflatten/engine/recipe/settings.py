"""Training settings of a config, and the size of its training set."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from mmengine.config import Config, ConfigDict

from mmflatten.engine.datasets import innermost_configs


class TrainingSet(NamedTuple):
    """Name of a data set, and its number of images or pairs (0 if unknown)."""

    name: str
    images: int


# Pattern of '<type> <data_root> <ann_file> <subset> <data_prefix>' -> data set.
_KNOWN = {
    r'^(mmflatten.Indexed)?ImageNet ': TrainingSet('ImageNet-1k', 1_281_167),
    # of 2011
    r'^ImageNet21k |^mmflatten.IndexedImages .*imagenet22k': TrainingSet(
        'ImageNet-22k', 14_197_122
    ),
    # images with objects, as mmdet keeps them
    r'instances_train2017': TrainingSet('COCO', 117_266),
    r'panoptic_train2017': TrainingSet('COCO panoptic', 118_287),  # with images without things
    r'^ADE20KDataset ': TrainingSet('ADE20K', 20_210),
    r'^mmflatten.SceneFlowDataset .*flyingthings3d': TrainingSet('SceneFlow', 22_390),
    r'^mmflatten.SceneFlowDataset .*monkaa': TrainingSet('SceneFlow', 8_664),
    r'^mmflatten.SceneFlowDataset .*driving': TrainingSet('SceneFlow', 4_400),
    r'^mmflatten.KITTIStereoDataset ': TrainingSet('KITTI', 160),  # pairs that are not held out
    # As the commands make them:
    r'data/garments_stereo': TrainingSet('garment pairs', 400),
    r'data/garments/? ': TrainingSet('garment scenes', 1_000),
    r'data/garments_panoptic': TrainingSet('panoptic garment scenes', 1_000),
    r'data/digits_panoptic': TrainingSet('panoptic digit scenes', 1_000),
    r'data/digits_stereo': TrainingSet('digit pairs', 400),
    r'data/digits/? .*crops': TrainingSet('digit crops', 4_405),
    r'data/digits/? ': TrainingSet('digit scenes', 1_000),
}


def gpus_of(cfg: Config) -> int:
    """Number of GPUs in the config's name (`8xb128`), or else the number that gives its base batch
    size.
    """
    name = re.search(r'_(\d+)xb(\d+)', Path(cfg.filename or '').stem)
    if name:
        return int(name[1])
    per_gpu = cfg.train_dataloader.batch_size * grad_accum_steps(cfg)
    return max(1, base_batch(cfg) // per_gpu)


def base_batch(cfg: Config) -> int:
    """Batch size that the learning rate is for (`auto_scale_lr.base_batch_size`), 0 if the config
    does not say.
    """
    return (cfg.get('auto_scale_lr') or {}).get('base_batch_size') or 0


def grad_accum_steps(cfg: Config) -> int:
    return cfg.optim_wrapper.get('accumulative_counts', 1)


def schedulers(cfg: Config) -> list[ConfigDict]:
    """Return `param_scheduler` as a list."""
    items = cfg.get('param_scheduler') or []
    return [items] if isinstance(items, dict) else list(items)


def ema_hooks(cfg: Config) -> list[ConfigDict]:
    hooks = cfg.get('custom_hooks') or []
    return [hook for hook in hooks if str(hook.get('type')).endswith('EMAHook')]


def ema_momentum(hook: ConfigDict) -> float:
    """Weight of the new parameters in each update of the average."""
    return hook.get('momentum', 0.0002)  # MMEngine's default


def training_length(cfg: Config) -> tuple[int, str]:
    """Length of the training and its unit, 'epochs' or 'iterations'."""
    loop = cfg.train_cfg
    if loop.get('max_epochs'):
        return loop.max_epochs, 'epochs'
    return loop.max_iters, 'iterations'


def training_set(dataset: ConfigDict) -> TrainingSet:
    """Describe a config's `train_dataloader.dataset`; concatenated parts and repetitions are added
    up.
    """
    names, numbers = [], []
    for config, times in innermost_configs(dataset):
        part = _describe_part(config)
        names.append(part.name)
        numbers.append(part.images * times)
    # One unknown number makes the sum unknown.
    return TrainingSet(names[0], sum(numbers) if all(numbers) else 0)


def _describe_part(dataset: ConfigDict) -> TrainingSet:
    """Look up a data set. Images of an annotation file on this machine are not looked up, because
    they can be counted.
    """
    fields = ('type', 'data_root', 'ann_file', 'subset', 'data_prefix')
    text = ' '.join(str(dataset.get(name, '')) for name in fields)
    matches = [entry for pattern, entry in _KNOWN.items() if re.search(pattern, text)]
    if not matches:
        return TrainingSet(str(dataset.get('type')).split('.')[-1], 0)
    file = Path(dataset.get('data_root') or '', dataset.get('ann_file') or '')
    can_be_counted = file.suffix == '.json' and file.is_file()
    return matches[0]._replace(images=0) if can_be_counted else matches[0]
