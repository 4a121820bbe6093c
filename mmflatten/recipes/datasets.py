"""Number of training images: counted in a COCO annotation file on this machine, or the known size of the data set."""
from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mmengine.config import ConfigDict


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
    r'data/canvases': TrainingSet('garment canvases', 5_000, 'as `mmflatten data canvases` makes them'),
    r'data/garments_stereo': TrainingSet('garment pairs', 400, 'as `mmflatten data garments --stereo` makes them'),
    r'data/garments/? ': TrainingSet('garment scenes', 1_000, 'as `mmflatten data garments` makes them'),
    r'data/digits_stereo': TrainingSet('digit pairs', 400, 'as prepare_digits.py --stereo makes them'),
    r'data/digits/? .*crops': TrainingSet('digit crops', 4_405, 'as prepare_digits.py makes them'),
    r'data/digits/? ': TrainingSet('digit scenes', 1_000, 'as prepare_digits.py makes them'),
}
DATA_SETS = tuple(dict.fromkeys(known.name for known in _KNOWN.values()))


def training_set(dataset: ConfigDict) -> TrainingSet:
    """Describe a config's `train_dataloader.dataset`; concatenated parts and repetitions are added up."""
    parts = [(_count(part) or _lookup(part), times) for part, times in _parts(dataset)]
    sources = dict.fromkeys(part.source for part, _ in parts)
    images = sum(part.images * times for part, times in parts) if all(part.images for part, _ in parts) else 0
    return TrainingSet(parts[0][0].name, images, ' + '.join(sources))


def _parts(dataset: ConfigDict, times: int = 1) -> Iterator[tuple[ConfigDict, int]]:
    """Yield the data sets inside repeating and concatenating wrappers, and how often an epoch repeats each."""
    inner = [dataset.dataset] if 'dataset' in dataset else dataset.get('datasets')
    if not inner:
        yield dataset, times
    for part in inner or []:
        yield from _parts(part, times * dataset.get('times', 1))


def _lookup(dataset: ConfigDict) -> TrainingSet:
    text = ' '.join(str(dataset.get(name, '')) for name in ('type', 'data_root', 'ann_file', 'subset', 'data_prefix'))
    known = (entry for pattern, entry in _KNOWN.items() if re.search(pattern, text))
    return next(known, TrainingSet(str(dataset.get('type')).split('.')[-1], 0, ''))


def _count(dataset: ConfigDict) -> TrainingSet | None:
    """Count the images that the config's filter keeps of a COCO annotation file, if the file exists."""
    file = Path(dataset.get('data_root') or '', dataset.get('ann_file') or '')
    if file.suffix != '.json' or not file.is_file():
        return None
    content, filters = json.loads(file.read_text(encoding='utf-8')), dataset.get('filter_cfg') or {}
    images = [image for image in content.get('images', [])
              if min(image.get('width', 0), image.get('height', 0)) >= filters.get('min_size', 0)]
    if filters.get('filter_empty_gt'):
        annotated = {item['image_id'] for item in content.get('annotations', [])}
        images = [image for image in images if image['id'] in annotated]
    return TrainingSet(_lookup(dataset).name, len(images), str(file))
