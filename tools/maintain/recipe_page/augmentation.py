"""Augmentation of training images, in short names."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mmengine.config import Config, ConfigDict

_OMITTED = ('Load', 'Pack')  # prefixes of transforms that are not augmentations


def augmentation(cfg: Config) -> str:
    """List the pipeline's augmentations, repeated augmentation, batch mixing and label smoothing."""
    loader = cfg.train_dataloader
    words = list(_transforms(_pipeline(loader.dataset)))
    if loader.get('sampler', {}).get('type') == 'RepeatAugSampler':
        words.append(f'repeated augmentation ({loader.sampler.get("num_repeats", 3)})')
    for mix in (cfg.model.get('train_cfg') or {}).get('augments') or []:
        words.append(f'{mix.type} {mix.get("alpha"):g}')
    smoothing = (cfg.model.get('head') or {}).get('loss', {}).get('label_smooth_val')
    if smoothing:
        words.append(f'label smoothing {smoothing:g}')
    return ', '.join(words) or 'none'


def _pipeline(dataset: ConfigDict) -> Sequence[ConfigDict]:
    """Return the transforms of a data set, or of the first one inside a wrapper."""
    while 'pipeline' not in dataset and ('dataset' in dataset or 'datasets' in dataset):
        dataset = dataset.get('dataset') or dataset.datasets[0]
    return dataset.get('pipeline', [])


def _transforms(pipeline: Sequence[ConfigDict]) -> Iterator[str]:
    for item in pipeline:
        name = item.type.split('.')[-1]
        if not name.startswith(_OMITTED):
            yield _NAMES[name](item) if name in _NAMES else name


def _sizes(size: Any) -> str:
    """Format a size as '224' or '512x512', in the order of the config."""
    return str(size) if isinstance(size, int) else 'x'.join(f'{side:g}' for side in size)


def _sides(scales: Sequence[Sequence[int]]) -> str:
    """Format scales as 'shorter side 480-800 and longer at most 1333'."""
    short, long = sorted(min(scale) for scale in scales), max(max(scale) for scale in scales)
    return f'shorter side {short[0]}-{short[-1]} and longer at most {long}'


def _random_resize(item: ConfigDict) -> str:
    if 'ratio_range' in item:
        return f'scale {"-".join(f"{ratio:g}" for ratio in item.ratio_range)} of {_sizes(item.scale)}'
    return _sides(item.scale)


def _random_crop(item: ConfigDict) -> str:
    if item.get('crop_type') == 'absolute_range':
        return f'crop {"-".join(map(str, item.crop_size))}'
    return f'crop {_sizes(item.crop_size)}'


def _choice(item: ConfigDict) -> str:
    branches = dict.fromkeys(', '.join(_transforms(branch)) for branch in item.transforms)
    return ' or '.join(f'({branch})' for branch in branches) if len(branches) > 1 else next(iter(branches))


def _rand_augment(item: ConfigDict) -> str:
    return (f'RandAugment ({item.num_policies} of magnitude {item.magnitude_level}, deviation '
            f'{item.get("magnitude_std", 0):g})')


_NAMES: dict[str, Callable[[ConfigDict], str]] = {
    'Resize': lambda item: f'resize {_sizes(item.scale)}',
    'RandomResize': _random_resize,
    'RandomChoiceResize': lambda item: _sides(item.scales),
    'RandomChoice': _choice,
    'RandomCrop': _random_crop,
    'RandomResizedCrop': lambda item: f'random resized crop {_sizes(item.scale)}',
    'RandomFlip': lambda item: f'flip {item.prob:g}',
    'RandAugment': _rand_augment,
    'RandomErasing': lambda item: f'erasing {item.erase_prob:g}',
    'ColorJitter': lambda item: 'colour jitter',
    'PhotoMetricDistortion': lambda item: 'photometric distortion',
    'InstaBoost': lambda item: 'InstaBoost',
    'StereoRandomCrop': lambda item: f'crop {_sizes(item.crop_size)}',
    'StereoPhotometricJitter': lambda item: 'photometric jitter',
}
