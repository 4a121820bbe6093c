"""Data sets whose errors name the data set or the files of the sample, and the check of their
classes before a run.
"""

import contextlib
import copy
import io
import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.hooks import Hook
from mmengine.model import BaseTTAModel, is_model_wrapper
from mmengine.registry import DATASETS
from mmengine.runner import BaseLoop, Runner
from torch import nn

from mmflatten.console import error_text, explain, is_ours, quiet_libraries
from mmflatten.engine import class_checks
from mmflatten.engine.class_checks import ClassesError, require_same
from mmflatten.registry import HOOKS


class DatasetError(RuntimeError):
    """A data set cannot be built: files are missing or do not match the config."""


class SampleError(RuntimeError):
    """A sample of a data set cannot be loaded or transformed."""


def leaves(dataset: dict, times: int = 1) -> Iterator[tuple[dict, int]]:
    """Yield the data sets inside repeating and concatenating wrappers, and how often an epoch
    repeats each.
    """
    inner = (
        [dataset['dataset']]
        if isinstance(dataset.get('dataset'), dict)
        else dataset.get('datasets')
    )
    if not inner:
        yield dataset, times
    for part in inner or []:
        yield from leaves(part, times * dataset.get('times', 1))


def build_dataset(cfg: dict) -> Any:
    """Build a data set and read its list of samples.

    Raises:
        ClassesError: the class names in the config cannot be used.
        DatasetError: names the data set, its paths, and the command that creates them if there is
            one.
    """
    parts = [part for part, _ in leaves(cfg)]
    for part in parts:
        if isinstance(part.get('metainfo'), dict):  # MMEngine reports other types
            class_checks.require_usable(part['metainfo'], f'data set {part.get("type")}')
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints
            dataset = DATASETS.build(cfg)
            if hasattr(dataset, 'full_init'):
                dataset.full_init()
    except Exception as error:
        if is_ours(error):
            raise
        cfg = parts[0] if len(parts) == 1 else cfg
        paths = ', '.join(
            f'{name}={cfg[name]}'
            for name in ('data_root', 'ann_file', 'data_prefix')
            if cfg.get(name)
        )
        raise DatasetError(
            f'data set {cfg.get("type")} ({paths}) cannot be read: {explain(error)}. Check'
            ' data_root, data_prefix, ann_file and filter_cfg in the config.'
        ) from error
    return dataset


def read_metainfo(cfg: Config, split: str = 'test') -> dict:
    """Return classes and palette of a config's data set without reading its files."""
    dataset, _ = next(leaves(cfg[f'{split}_dataloader'].dataset))
    with (
        DATASETS.switch_scope_and_registry(cfg.get('default_scope', 'mmengine')) as registry,
        quiet_libraries(),
    ):
        kind = (
            registry.get(dataset['type']) if isinstance(dataset['type'], str) else dataset['type']
        )
        if not hasattr(kind, 'METAINFO'):  # a plain PyTorch data set
            return {}
        return dict(
            registry.build({**copy.deepcopy(dataset), 'lazy_init': True, 'pipeline': []}).metainfo
        )


class NamingPipeline(Compose):
    """Pipeline of a data set whose errors name the files of the sample.

    OpenCV returns None and Pillow mentions a `BytesIO` if a file is not an image; only the pipeline
    knows the path. Errors of our own classes pass unchanged, because they name the file.

    Args:
        labels: number of classes of the model and the label it ignores, to reject other labels.
            None skips the check.
    """

    def __init__(self, transforms: list, labels: tuple[int, int] | None = None) -> None:
        super().__init__(transforms)
        self.labels = labels

    def __call__(self, data: dict) -> dict | None:
        image, label_map = data.get('img_path'), data.get('seg_map_path')
        for transform in self.transforms:
            try:
                data = transform(data)
            except Exception as error:
                if is_ours(error):
                    raise
                raise SampleError(_message(error, transform, image, label_map)) from error
            if data is None:
                return None
        if self.labels is not None and isinstance(data, dict):
            sample = data.get('data_samples')
            truth = getattr(sample, 'gt_sem_seg', None)
            labels = getattr(sample, 'gt_label', None) if truth is None else truth.data
            if isinstance(labels, torch.Tensor) and not labels.is_floating_point():
                class_checks.require_labels(labels, *self.labels, label_map or image)
        return data


def _message(error: Exception, transform: Any, image: str | None, label_map: str | None) -> str:
    if isinstance(error, FileNotFoundError):
        return explain(error)
    step = getattr(transform, '__name__', type(transform).__name__)
    reason = f'{step}: {type(error).__name__}: {error_text(error)}'
    if step.startswith('Load'):
        path = label_map if 'Annotation' in step and label_map else image
        return (
            f'image {path} cannot be decoded ({reason}). Replace the file or remove it from the'
            ' data set.'
        )
    names = ' and '.join(str(path) for path in (image, label_map) if path)
    return f'sample {names or "without a file name"} cannot be prepared ({reason}).'


def bare_model(model: nn.Module) -> nn.Module:
    """Return the model inside wrappers of distributed training and test-time augmentation."""
    while is_model_wrapper(model) or isinstance(model, BaseTTAModel):
        model = model.module
    return model


@HOOKS.register_module()
class CheckDataHook(Hook):
    """Reject a data set whose classes the heads do not have, and replace its pipeline by a
    `NamingPipeline`.

    Otherwise a label above the last class ends in an index error, which a GPU reports at an
    unrelated place.
    """

    priority = 'VERY_HIGH'

    def before_train(self, runner: Runner) -> None:
        _check(runner.train_loop, 'train', runner.model)
        if runner.val_loop is not None:  # now, not after the first epoch
            require_same(
                _classes(runner.val_loop),
                _classes(runner.train_loop),
                'val_dataloader.dataset',
                'train_dataloader.dataset',
                'Set the same metainfo=dict(classes=...) in both.',
            )
            _check(runner.val_loop, 'val', runner.model)
            _check_evaluator(runner.val_loop, 'val')

    def before_val(self, runner: Runner) -> None:
        _check(runner.val_loop, 'val', runner.model)

    def before_test(self, runner: Runner) -> None:
        _check(runner.test_loop, 'test', runner.model)
        _check_evaluator(runner.test_loop, 'test')


def _classes(loop: BaseLoop) -> Sequence[str]:
    """Return the classes of a loop's data set; raise ClassesError if the data sets in a wrapper
    have different ones.
    """
    first, *others = [
        getattr(part, 'metainfo', {}).get('classes') or ()
        for part in class_checks.leaves_of(loop.dataloader.dataset)
    ]
    for other in others:
        require_same(
            other,
            first,
            'one of the concatenated data sets',
            'the first',
            'Set the same metainfo=dict(classes=...) in all.',
        )
    return first


def compare_classes(runner: Runner, checkpoint: dict, filename: str, fine_tuning: bool) -> None:
    """Compare the classes in a checkpoint with those of the data it is used on; unknown ones fit
    any other.

    Raises ClassesError, or logs a warning if the weights are those before a fine-tuning.
    """
    loops = {'train': runner._train_loop, 'test': runner._test_loop, 'val': runner._val_loop}
    split, loop = next(
        ((name, loop) for name, loop in loops.items() if isinstance(loop, BaseLoop)), ('', None)
    )
    if loop is None:
        return
    fix = (
        'Set metainfo=dict(classes=...) to the classes of the checkpoint; categories of a COCO file'
        ' have their order.'
    )
    try:
        require_same(
            _classes(loop),
            class_checks.trained_classes(checkpoint),
            f'{split}_dataloader.dataset',
            f'checkpoint {filename}',
            fix,
        )
    except ClassesError as error:
        if not fine_tuning:
            raise
        runner.logger.warning(
            f'load_from: the head starts from other classes, if it has as many. {error}'
        )


def _check(loop: BaseLoop, split: str, model: nn.Module) -> None:
    model, where, classes = bare_model(model), f'{split}_dataloader.dataset', len(_classes(loop))
    # A detector's labels are looked up in the classes. Other models may have unused classes.
    is_detector = any(kind.__module__.startswith('mmdet.') for kind in type(model).__mro__)
    for problem in class_checks.wrong_heads(model, classes, where, exact=is_detector):
        raise ClassesError(problem)
    # Labels of a classifier or segmentor: number of classes, and the label that the loss ignores.
    head = getattr(model, 'decode_head', None) or getattr(model, 'head', None)
    number = getattr(head, 'num_classes', None)
    labels = (number, getattr(head, 'ignore_index', -100)) if isinstance(number, int) else None
    loss = getattr(head, 'loss_decode', getattr(head, 'loss_module', None))
    if number == 1 and getattr(loss, 'use_sigmoid', True) is False:
        raise ClassesError(
            'num_classes: expected at least 2 for a softmax, whose only class has the probability'
            f' 1, got 1 in {type(head).__name__}. Add a class for the rest.'
        )
    for part in class_checks.with_inner(loop.dataloader.dataset):
        # mmdet's CocoDataset skips names that its annotation file does not have.
        categories = getattr(part, 'cat_ids', None)
        if classes and categories is not None and len(categories) != classes:
            raise ClassesError(
                f'{where}: {part.ann_file} has {len(categories)} of the {classes} classes. Correct '
                'metainfo=dict(classes=...).'
            )
        if type(getattr(part, 'pipeline', None)) is Compose:
            part.pipeline = NamingPipeline(part.pipeline.transforms, labels)


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
    leaves_ = [part for part in class_checks.leaves_of(dataset) if hasattr(part, 'cat_ids')]
    found: dict[Any, str] = {}  # path of each image, by its id
    for part in leaves_:
        fix = (
            f'{split}_evaluator.ann_file must be the file of {split}_dataloader.dataset'
            f' ({part.ann_file})'
        )
        if (
            coco is not None
            and (ids := coco.get_cat_ids(cat_names=part.metainfo['classes'])) != part.cat_ids
        ):
            raise ClassesError(
                f'{fix}: its category ids of the classes are {ids}, not {part.cat_ids}.'
            )
        for index in range(len(part)):
            info = part.get_data_info(index)
            number, path = info['img_id'], info['img_path']
            if number in found:
                raise ValueError(
                    f'{split}_dataloader.dataset: the image id {number} is that of {found[number]}'
                    f' and {path}, which the metric takes for one image. Merge the files with new'
                    f' ids, or {split} each alone (or use MultiDatasetsEvaluator of mmdet).'
                )
            found[number] = path
            image = coco.imgs.get(number, {}).get('file_name') if coco is not None else path
            if image is None or os.path.basename(image) != os.path.basename(path):
                raise ValueError(f'{fix}: its image of id {number} is {image}, not {path}.')
    if leaves_ and len(dataset) != len(found):
        raise ValueError(
            f'{split}_dataloader.dataset: {type(dataset).__name__} gives {len(dataset)} samples of '
            f'{len(found)} images, and the metric counts each image once. Name the data set itself.'
        )
    if coco is not None and leaves_ and (missing := len(coco.imgs.keys() - found.keys())):
        raise ValueError(
            f'{split}_evaluator.ann_file: {missing} of its {len(coco.imgs)} images are not in'
            f' {split}_dataloader.dataset, and their objects would count as missed. Give a file of'
            ' the tested images alone.'
        )
