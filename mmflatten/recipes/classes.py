"""Whether the heads of a model have the classes of its training set, as far as the config and its class say."""
from __future__ import annotations

from collections.abc import Iterator

from mmengine.config import ConfigDict
from mmengine.registry import DATASETS, DefaultScope

from mmflatten.recipes.training import Training

_HEADS = ('head', 'decode_head', 'auxiliary_head', 'bbox_head', 'mask_head', 'roi_head.bbox_head', 'roi_head.mask_head')


def class_mismatches(training: Training) -> Iterator[str]:
    """A sentence for each head with another number of classes; a run would stop at its first batch."""
    classes = _classes(training.cfg.train_dataloader.dataset, training.cfg.get('default_scope', 'mmengine'))
    for name, module in training.model.named_modules():
        number = getattr(module, 'num_classes', None)
        if classes and isinstance(number, int) and name.rstrip('.0123456789') in _HEADS and number != classes:
            yield (f'model.{name}.num_classes is {number} and the training set has {classes} classes; set num_classes, '
                   'or metainfo=dict(classes=...) of the data set')


def _classes(dataset: ConfigDict, scope: str) -> int:
    """The number of classes in `metainfo`, else that of the data set's class; 0 where it only knows once it is read."""
    while 'dataset' in dataset or 'datasets' in dataset:
        dataset = dataset.get('dataset') or dataset.datasets[0]
    given = dataset.get('metainfo') or {}
    if 'classes' not in given:
        with DefaultScope.overwrite_default_scope(scope), DATASETS.switch_scope_and_registry(None) as registry:
            given = getattr(registry.get(dataset.type), 'METAINFO', {})
    return len(given.get('classes') or ())
