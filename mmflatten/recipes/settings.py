"""Training settings of a config, as values and as text, and the size of its training set."""
from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from mmengine.config import Config, ConfigDict

from mmflatten.engine.datasets import leaves


@dataclass(frozen=True)
class TrainingSet:
    """Name of a data set, its number of images or pairs (0 if unknown), and the source of this number."""

    name: str
    images: int
    source: str


# Pattern of '<type> <data_root> <ann_file> <subset> <data_prefix>' -> data set.
_KNOWN = {
    r'^(mmflatten.Indexed)?ImageNet ': TrainingSet('ImageNet-1k', 1_281_167, 'ILSVRC 2012'),
    r'^ImageNet21k |^mmflatten.IndexedImages .*imagenet22k': TrainingSet(
        'ImageNet-22k', 14_197_122, "ImageNet's web page, 2011 release"),
    r'instances_train2017': TrainingSet('COCO', 117_266, 'train2017, images with objects, as mmdet keeps them'),
    r'^ADE20KDataset ': TrainingSet('ADE20K', 20_210, 'SceneParse150'),
    r'^mmflatten.SceneFlowDataset .*flyingthings3d': TrainingSet('SceneFlow', 22_390, 'FlyingThings3D, TRAIN'),
    r'^mmflatten.SceneFlowDataset .*monkaa': TrainingSet('SceneFlow', 8_664, 'Monkaa'),
    r'^mmflatten.SceneFlowDataset .*driving': TrainingSet('SceneFlow', 4_400, 'Driving'),
    r'^mmflatten.KITTIStereoDataset ': TrainingSet('KITTI', 160, 'the pairs that are not held out'),
    r'data/fashion': TrainingSet('Fashion-MNIST', 60_000, 'its training file'),
    r'data/canvases': TrainingSet('garment canvases', 5_000, 'as `mmflatten garments canvases` makes them'),
    r'data/garments_stereo': TrainingSet('garment pairs', 400, 'as `mmflatten garments scenes --stereo` makes them'),
    r'data/garments/? ': TrainingSet('garment scenes', 1_000, 'as `mmflatten garments scenes` makes them'),
    r'data/digits_stereo': TrainingSet('digit pairs', 400, 'as prepare_digits.py --stereo makes them'),
    r'data/digits/? .*crops': TrainingSet('digit crops', 4_405, 'as prepare_digits.py makes them'),
    r'data/digits/? ': TrainingSet('digit scenes', 1_000, 'as prepare_digits.py makes them'),
}
DATA_SETS = tuple(dict.fromkeys(known.name for known in _KNOWN.values()))


def gpus_of(cfg: Config) -> int:
    """Number of GPUs in the config's name (`8xb128`), or else the number that gives its base batch size."""
    name = re.search(r'_(\d+)xb(\d+)', Path(cfg.filename or '').stem)
    per_gpu = cfg.train_dataloader.batch_size * grad_accum_steps(cfg)
    return int(name[1]) if name else max(1, base_batch(cfg) // per_gpu)


def base_batch(cfg: Config) -> int:
    """Batch size that the learning rate is for (`auto_scale_lr.base_batch_size`), 0 if the config does not say."""
    return (cfg.get('auto_scale_lr') or {}).get('base_batch_size') or 0


def grad_accum_steps(cfg: Config) -> int:
    return cfg.optim_wrapper.get('accumulative_counts', 1)


def schedulers(cfg: Config) -> list[ConfigDict]:
    """Return `param_scheduler` as a list."""
    items = cfg.get('param_scheduler') or []
    return [items] if isinstance(items, dict) else list(items)


def ema_hooks(cfg: Config) -> list[ConfigDict]:
    return [hook for hook in cfg.get('custom_hooks') or [] if str(hook.get('type')).endswith('EMAHook')]


def ema_momentum(hook: ConfigDict) -> float:
    """Weight of the new parameters in each update of the average."""
    return hook.get('momentum', 0.0002)  # MMEngine's default


def training_length(cfg: Config) -> tuple[int, str]:
    """Length of the training and its unit, 'epochs' or 'iterations'."""
    loop = cfg.train_cfg
    return (loop.max_epochs, 'epochs') if loop.get('max_epochs') else (loop.max_iters, 'iterations')


def plain(value: float) -> str:
    """Format a number as papers do: 2e-4, 0.05, 1."""
    if value == 0 or abs(value) >= 0.01:
        return f'{value:.6g}'
    mantissa, exponent = f'{value:.2e}'.split('e')
    return f'{float(mantissa):g}e{int(exponent)}'


def describe_schedule(cfg: Config) -> str:
    number, unit = training_length(cfg)
    peak = cfg.optim_wrapper.optimizer.lr
    return ', '.join([f'{number} {unit}', *(_describe_scheduler(item, peak) for item in schedulers(cfg))])


def _describe_scheduler(item: ConfigDict, peak: float) -> str:
    unit = 'epochs' if item.get('by_epoch', True) else 'iterations'
    begin, end = item.get('begin', 0), item.get('end')
    lowest = plain(item['eta_min_ratio'] * peak if item.get('eta_min_ratio') else item.get('eta_min', 0))
    at = f'{unit[:-1]} {end}' if end else 'the end'
    since = f' from {unit[:-1]} {begin}' if begin else ''
    if item.type == 'LinearLR':
        return f'linear warm-up of {end - begin} {unit} from {plain(item.start_factor * peak)}'
    if item.type == 'MultiStepLR':
        counted = unit if len(item.milestones) > 1 else unit[:-1]
        return f'times {plain(item.get("gamma", 0.1))} after {counted} {" and ".join(map(str, item.milestones))}'
    if item.type == 'ConstantLR':
        return f'constant to {at}' if item.get('factor') == 1 else f'times {plain(item.get("factor"))} to {at}'
    if item.type == 'CosineAnnealingLR':
        return f'cosine{since} down to {lowest} at {at}'
    if item.type == 'PolyLR':
        power = item.get('power', 1)
        shape = 'linear' if power == 1 else f'polynomial ({plain(power)})'
        return f'{shape}{since} down to {lowest} at {at}'
    return f'{item.type}{since} to {at}'


def describe_ema(cfg: Config) -> str:
    words = []
    for hook in ema_hooks(cfg):
        every = hook.get('interval', 1)
        words.append(f'decay {1 - ema_momentum(hook):.6g}' + (f' every {every} iterations' if every > 1 else ''))
        if str(hook.type).endswith('MesaEMAHook'):
            words.append(f'MESA of weight {plain(hook.get("weight", 1))}')
    return ', '.join(words) or 'none'


def training_set(dataset: ConfigDict) -> TrainingSet:
    """Describe a config's `train_dataloader.dataset`; concatenated parts and repetitions are added up."""
    parts = [(_describe_part(part), times) for part, times in leaves(dataset)]
    sources = dict.fromkeys(part.source for part, _ in parts)
    images = sum(part.images * times for part, times in parts) if all(part.images for part, _ in parts) else 0
    return TrainingSet(parts[0][0].name, images, ' + '.join(sources))


def _describe_part(dataset: ConfigDict) -> TrainingSet:
    """Look up a data set, or count the images that its filter keeps of a COCO annotation file on this machine."""
    text = ' '.join(str(dataset.get(name, '')) for name in ('type', 'data_root', 'ann_file', 'subset', 'data_prefix'))
    known = next((entry for pattern, entry in _KNOWN.items() if re.search(pattern, text)),
                 TrainingSet(str(dataset.get('type')).split('.')[-1], 0, ''))
    file = Path(dataset.get('data_root') or '', dataset.get('ann_file') or '')
    if file.suffix != '.json' or not file.is_file():
        return known
    content, filters = json.loads(file.read_text(encoding='utf-8')), dataset.get('filter_cfg') or {}
    images = [image for image in content.get('images', [])
              if min(image.get('width', 0), image.get('height', 0)) >= filters.get('min_size', 0)]
    if filters.get('filter_empty_gt'):
        annotated = {item['image_id'] for item in content.get('annotations', [])}
        images = [image for image in images if image['id'] in annotated]
    return TrainingSet(known.name, len(images), str(file))
