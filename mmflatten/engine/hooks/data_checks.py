"""Checks, before a run, that the classes and the annotations of its data fit the model and the
metrics.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any

from mmengine.hooks import Hook
from mmengine.runner import BaseLoop, Runner
from torch import nn

from mmflatten.datasets.used import ids_changed_by_evaluation
from mmflatten.engine.class_checks import (
    ClassesError,
    classes_of,
    innermost_datasets,
    require_same,
    with_inner,
    wrong_heads,
)
from mmflatten.engine.datasets import name_pipelines
from mmflatten.engine.models import bare_model
from mmflatten.engine.naming_pipeline import NamingPipeline
from mmflatten.engine.rehearsal import rehearse
from mmflatten.registry import HOOKS


@HOOKS.register_module()
class CheckDataHook(Hook):
    """Reject a data set whose classes the heads do not have, let its pipelines reject labels that
    the model does not have, and try one training and one validation batch.

    Otherwise a label above the last class ends in an index error, which a GPU reports at an
    unrelated place, and an error of the validation appears after the first epoch.

    Args:
        rehearse: try the batches before a training, see `engine.rehearsal`.
    """

    priority = 'VERY_HIGH'

    def __init__(self, rehearse: bool = True) -> None:
        self.rehearse = rehearse

    def before_train(self, runner: Runner) -> None:
        check_data(runner.train_loop.dataloader.dataset, 'train', runner.model)
        if runner.val_loop is not None:  # now, not after the first epoch
            require_same(
                found=classes_of(runner.val_loop.dataloader.dataset),
                expected=classes_of(runner.train_loop.dataloader.dataset),
                where='val_dataloader.dataset',
                other='train_dataloader.dataset',
                fix='Set the same metainfo=dict(classes=...) in both.',
            )
            check_data(runner.val_loop.dataloader.dataset, 'val', runner.model)
            _check_evaluator(runner.val_loop, 'val')
        if self.rehearse:
            for warning in rehearse(runner):
                runner.logger.warning(warning)

    def before_val(self, runner: Runner) -> None:
        check_data(runner.val_loop.dataloader.dataset, 'val', runner.model)

    def before_test(self, runner: Runner) -> None:
        check_data(runner.test_loop.dataloader.dataset, 'test', runner.model)
        _check_evaluator(runner.test_loop, 'test')


def check_data(dataset: Any, split: str, model: nn.Module) -> None:
    """Compare the classes of a data set with the heads of a model, and let its pipelines reject
    other labels.

    Raises ClassesError.
    """
    model = bare_model(model)
    where, classes = f'{split}_dataloader.dataset', len(classes_of(dataset))
    # A detector's labels are looked up in the classes. Other models may have unused classes.
    is_detector = any(kind.__module__.startswith('mmdet.') for kind in type(model).__mro__)
    for problem in wrong_heads(model=model, classes=classes, where=where, exact=is_detector):
        raise ClassesError(problem)
    name_pipelines(dataset, where)
    labels = _labels_of(model)
    for part in with_inner(dataset):
        # mmdet's CocoDataset skips names that its annotation file does not have.
        categories = getattr(part, 'cat_ids', None)
        if classes and categories is not None and len(categories) != classes:
            raise ClassesError(
                f'{where}: {part.ann_file} has {len(categories)} of the {classes} classes. Correct '
                'metainfo=dict(classes=...).'
            )
        pipeline = getattr(part, 'pipeline', None)
        if isinstance(pipeline, NamingPipeline):
            pipeline.labels = labels


def _labels_of(model: nn.Module) -> tuple[int, int] | None:
    """Return the number of classes of a classifier or segmentor and the label that its loss
    ignores; None for other models.

    Raises ClassesError for a softmax over a single class.
    """
    head = getattr(model, 'decode_head', None) or getattr(model, 'head', None)
    number = getattr(head, 'num_classes', None)
    loss = getattr(head, 'loss_decode', getattr(head, 'loss_module', None))
    if number == 1 and getattr(loss, 'use_sigmoid', True) is False:
        raise ClassesError(
            'num_classes: expected at least 2 for a softmax, whose only class has the probability'
            f' 1, got 1 in {type(head).__name__}. Add a class for the rest.'
        )
    if not isinstance(number, int):
        return None
    return number, getattr(head, 'ignore_index', -100)


def _check_evaluator(loop: BaseLoop, split: str) -> None:
    """Reject a COCO metric whose annotations differ from those of its data sets, or that counts an
    image twice.
    """
    dataset, metrics = loop.dataloader.dataset, loop.evaluator.metrics
    parts = [dataset] * len(metrics)
    # mmdet's MultiDatasetsEvaluator: a metric for each data set
    if hasattr(loop.evaluator, 'dataset_prefixes'):
        parts = dataset.datasets
    for metric, part in zip(metrics, parts):
        if hasattr(metric, '_coco_api'):
            _check_coco_metric(metric._coco_api, part, split)


def _check_coco_metric(coco: Any, dataset: Any, split: str) -> None:
    """Compare the annotations of a COCO metric (None if it makes them of the data set) with those
    of its data set.
    """
    parts = [part for part in innermost_datasets(dataset) if hasattr(part, 'cat_ids')]
    if not parts:
        return
    paths = _paths_by_id(coco, parts, split)
    if len(dataset) != len(paths):
        raise ValueError(
            f'{split}_dataloader.dataset: {type(dataset).__name__} yields {len(dataset)} samples of'
            f' {len(paths)} images, and the metric counts each image once. Use the data set without'
            ' this wrapper.'
        )
    missing = 0 if coco is None else len(coco.imgs.keys() - paths.keys())
    if missing:
        raise ValueError(
            f'{split}_evaluator.ann_file: {missing} of its {len(coco.imgs)} images are not in'
            f' {split}_dataloader.dataset, and their objects would count as missed. Set a file that'
            ' has only the tested images.'
        )


def _paths_by_id(coco: Any, parts: Sequence[Any], split: str) -> dict[Any, str]:
    """Return the path of each image by its id, after comparing ids and names with the metric's
    annotations.
    """
    paths: dict[Any, str] = {}
    for part in parts:
        fix = (
            f'{split}_evaluator.ann_file must be the file of {split}_dataloader.dataset'
            f' ({part.ann_file})'
        )
        if coco is not None:
            ids = coco.get_cat_ids(cat_names=part.metainfo['classes'])
            if ids != part.cat_ids:
                raise ClassesError(
                    f'{fix}: its category ids of the classes are {ids}, not {part.cat_ids}.'
                )
        for index in range(len(part)):
            info = part.get_data_info(index)
            number, path = info['img_id'], info['img_path']
            if number in paths:
                raise ValueError(
                    f'{split}_dataloader.dataset: the image id {number} is that of {paths[number]}'
                    f' and {path}, which the metric treats as one image. Merge the files with new'
                    f' ids, or {split} each alone (or use MultiDatasetsEvaluator of mmdet).'
                )
            paths[number] = path
            image = path if coco is None else coco.imgs.get(number, {}).get('file_name')
            if image is None or os.path.basename(image) != os.path.basename(path):
                raise ValueError(f'{fix}: its image of id {number} is {image}, not {path}.')
    _require_kept_ids(paths, 'images', split)
    for part in parts:
        _require_kept_ids(part.cat_ids, 'categories', split)
    return paths


def _require_kept_ids(ids: Iterable[Any], kind: str, split: str) -> None:
    """Reject ids that COCO's evaluation changes, so that it would not find the objects."""
    changed = ids_changed_by_evaluation(ids)
    if changed:
        raise ValueError(
            f"{split}_dataloader.dataset.ann_file: COCO's evaluation changes {len(changed)} ids of"
            f' {kind}, such as {changed[0]!r}, and then finds no object. Number the {kind}'
            ' from 1; `mmflatten init` writes such a file.'
        )
