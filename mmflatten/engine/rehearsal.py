"""Rehearsal of a training: one training step and one validation batch on a copy of the model.

Errors of data, pipelines, losses and metrics appear before the first epoch, with the field of the
config. Neither the run nor its random numbers change.
"""

import contextlib
import copy
import random
from collections.abc import Iterator, Sequence
from traceback import walk_tb
from typing import Any

import numpy as np
import torch
from mmengine.dist import get_world_size
from mmengine.evaluator import Evaluator
from mmengine.model import BaseModel, is_model_wrapper
from mmengine.optim import OptimWrapper
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from mmflatten.console import error_text, is_ours
from mmflatten.engine.models import bare_model
from mmflatten.text import shorten

LOADED = 8  # samples of a batch at most
IN_MODEL = 2  # of them run through the model; batch norm needs two in training
MOST_PADDING = 0.5  # of the pixels of a training batch
SKIP = 'default_hooks.data_checks.rehearse=False skips this rehearsal.'


class RehearsalError(RuntimeError):
    """A training step or a validation batch of a config fails."""


def rehearse(runner: Runner) -> list[str]:
    """Run a training step, without its update, and a validation batch of a run that begins.

    Models that are not MMEngine's, or are divided between processes, are not tried.

    Returns:
        Warnings.

    Raises:
        RehearsalError: a step fails. Errors of our own classes, such as those of a broken sample,
            pass unchanged.
    """
    model = _copy_of(runner.model)
    if model is None:
        return []
    autocast: contextlib.AbstractContextManager = contextlib.nullcontext()
    if isinstance(runner.optim_wrapper, OptimWrapper):
        autocast = runner.optim_wrapper.optim_context(model)
    with _kept_random_state():
        with autocast:
            warnings = try_training(model, runner.train_loop.dataloader)
        if runner.val_loop is not None:
            try_evaluation(model, runner.val_loop.dataloader, runner.val_loop.evaluator, 'val')
    return warnings


def try_training(model: BaseModel, loader: DataLoader) -> list[str]:
    """Compute the losses of a training batch and their gradients, in `model`.

    Returns warnings, and raises errors, as `rehearse`.
    """
    dataset = _isolated(loader.dataset)
    # A sampler of several sources mixes kinds of samples that a model requires together.
    if dataset is None or 'MultiSource' in type(loader.sampler).__name__:
        return []
    size = min(_batch_size(loader), LOADED, len(dataset))
    indices = [number * len(dataset) // size for number in range(size)]
    samples = [dataset[index] for index in indices]
    model.train()
    batch = _preprocessed(model, loader, samples, 'train')
    with _explained('train_dataloader: a training step fails', model, samples[:IN_MODEL]):
        few = _preprocessed(model, loader, samples[:IN_MODEL], 'train')
        loss, _ = model.parse_losses(model._run_forward(few, mode='loss'))
        if loss.requires_grad:
            loss.backward()
    model.zero_grad(set_to_none=True)
    return _padding(model, samples, batch)


def try_evaluation(
    model: BaseModel, loader: DataLoader, evaluator: Evaluator | None, split: str
) -> None:
    """Predict the first images of a loader, and let its metrics process them.

    The first, the middle and the last batch are loaded, because images may differ in size. Errors
    are those of `rehearse`.
    """
    dataset = _isolated(loader.dataset)
    if dataset is None:
        return
    size = min(_batch_size(loader), LOADED)
    model.eval()
    first = None
    for indices in _batches(len(dataset), size):
        samples = [dataset[index] for index in indices]
        _preprocessed(model, loader, samples, split)
        first = first or samples[:IN_MODEL]
    if not first:
        return
    with torch.no_grad(), _explained(f'{split}_dataloader: a {split} batch fails', model, first):
        batch = loader.collate_fn(copy.deepcopy(first))
        predictions = model._run_forward(model.data_preprocessor(batch, False), mode='predict')
        _process(evaluator, predictions, batch)


def _process(evaluator: Evaluator | None, predictions: Any, batch: Any) -> None:
    """Let metrics read predictions, and forget them. Metrics that write files are left out."""
    metrics = getattr(evaluator, 'metrics', [])
    if any(getattr(metric, 'output_dir', None) for metric in metrics):
        return
    try:
        if evaluator is not None:
            evaluator.process(data_samples=predictions, data_batch=batch)
    finally:
        for metric in metrics:
            if isinstance(getattr(metric, 'results', None), list):
                metric.results.clear()


def _copy_of(model: nn.Module) -> BaseModel | None:
    """Copy the model in its wrapper; None if it is not one of MMEngine, is divided between
    processes or cannot be copied.
    """
    is_wrapped = is_model_wrapper(model)
    if is_wrapped and not isinstance(model, DistributedDataParallel):
        return None  # parts of the weights are on other processes
    model = bare_model(model)
    is_usual = isinstance(model, BaseModel) and type(model).train_step is BaseModel.train_step
    is_divided = any(isinstance(parameter, DTensor) for parameter in model.parameters())
    if not is_usual or is_divided:
        return None
    try:
        return copy.deepcopy(model)
    except (RuntimeError, TypeError):  # such as locks, or tensors of a graph
        return None


def _isolated(dataset: Any) -> Any:
    """Return a data set with the same samples and pipelines of its own, whose caches may fill; None
    for a stream of samples.
    """
    if not hasattr(dataset, '__len__') or not hasattr(dataset, '__getitem__') or not len(dataset):
        return None
    twin = copy.copy(dataset)
    if getattr(dataset, 'pipeline', None) is not None:
        twin.pipeline = copy.deepcopy(dataset.pipeline)
    if getattr(dataset, 'dataset', None) is not None:
        twin.dataset = _isolated(dataset.dataset)
    if getattr(dataset, 'datasets', None):
        twin.datasets = [_isolated(part) for part in dataset.datasets]
    return twin


def _batch_size(loader: DataLoader) -> int:
    size = loader.batch_size or getattr(loader.batch_sampler, 'batch_size', None)
    return size if isinstance(size, int) and size > 0 else 1


def _batches(length: int, size: int) -> list[list[int]]:
    """Return the indices of the first, the middle and the last batch of the first process; one
    batch if each has one image.
    """
    processes = get_world_size()
    number = max(length // (size * processes), 1)
    chosen = sorted({0, number // 2, number - 1}) if size > 1 else [0]
    batches = []
    for batch in chosen:
        start = batch * size * processes
        batches.append([*range(start, length, processes)][:size])
    return batches


def _preprocessed(
    model: BaseModel, loader: DataLoader, samples: Sequence[Any], split: str
) -> dict[str, Any]:
    """Collate samples and run the data preprocessor on them."""
    field = f'{split}_dataloader'
    sizes = sorted({size for size in map(_size, samples) if size is not None})
    try:
        batch = loader.collate_fn(copy.deepcopy(list(samples)))
        return model.data_preprocessor(batch, split == 'train')
    except Exception as error:
        if is_ours(error) or isinstance(error, torch.cuda.OutOfMemoryError):
            raise
        reason = f'{type(error).__name__}: {error_text(error)}'
        first = samples[0]
        if isinstance(first, dict) and 'inputs' not in first and isinstance(error, KeyError):
            raise RehearsalError(
                f'{field}.dataset.pipeline: expected samples with inputs, got'
                f' {shorten(list(map(str, first)), 5)}. End the pipeline of the outermost data set'
                ' with PackDetInputs, PackSegInputs or PackInputs.'
            ) from error
        if len(sizes) > 1:
            shown = [f'{width} x {height}' for height, width in sizes]
            fix = f'Crop or resize in {field}.dataset.pipeline to one size.'
            if split != 'train':
                fix = (
                    f'Set {field}.batch_size=1, or padding, such as'
                    ' model.data_preprocessor.test_cfg.size_divisor=32 of a segmentor.'
                )
            raise RehearsalError(
                f'{field}.batch_size: {loader.batch_size} images of different sizes'
                f' ({shorten(shown, 3)}) do not fit in one batch ({reason}). {fix}'
            ) from error
        raise RehearsalError(
            f'data_preprocessor: a batch of {field} fails ({reason}) for'
            f' {_names(samples)}. Correct data_preprocessor or the pipeline. {SKIP}'
        ) from error


@contextlib.contextmanager
def _explained(what: str, model: nn.Module, samples: Sequence[Any]) -> Iterator[None]:
    """Name the part of the model and the files in errors of libraries."""
    try:
        yield
    except Exception as error:
        if is_ours(error) or isinstance(error, torch.cuda.OutOfMemoryError):
            raise
        raise RehearsalError(
            f'{what} in {_part_of(error, model)}: {type(error).__name__}:'
            f' {error_text(error) or "without a message"} ({_names(samples)}). Correct these fields'
            f' or the data. {SKIP}'
        ) from error


def _part_of(error: BaseException, model: nn.Module) -> str:
    """Return the field and class of the innermost part of a model that an error has passed."""
    names = {id(module): name for name, module in model.named_modules()}
    found = f'model ({type(model).__name__})'
    for frame, _ in walk_tb(error.__traceback__):
        owner = frame.f_locals.get('self')
        name = names.get(id(owner))
        if name:
            found = f'model.{name} ({type(owner).__name__})'
    return found


def _names(samples: Sequence[Any]) -> str:
    paths = []
    for sample in samples:
        data_sample = sample.get('data_samples') if isinstance(sample, dict) else None
        path = getattr(data_sample, 'img_path', None)
        paths.append('unnamed sample' if path is None else str(path))
    return shorten(paths, 3)


def _size(sample: Any) -> tuple[int, int] | None:
    """Return height and width of the input image of a sample; None without one."""
    inputs = sample.get('inputs') if isinstance(sample, dict) else None
    if not isinstance(inputs, Tensor) or inputs.dim() < 3:
        return None
    return inputs.shape[-2], inputs.shape[-1]


def _padding(model: BaseModel, samples: Sequence[Any], batch: Any) -> list[str]:
    """Warn if most pixels of a training batch are padding."""
    inputs = batch.get('inputs') if isinstance(batch, dict) else None
    sizes = [size for size in map(_size, samples) if size is not None]
    if not isinstance(inputs, Tensor) or len(sizes) != len(inputs):
        return []
    pixels = sum(height * width for height, width in sizes)
    height, width = inputs.shape[-2:]
    padding = 1 - pixels / (len(inputs) * height * width)
    if padding <= MOST_PADDING:
        return []
    smallest = min(sizes)
    given = getattr(model.data_preprocessor, 'size', None)
    field = 'data_preprocessor' if given is None else f'data_preprocessor.size {tuple(given)}'
    return [
        f'{field}: {padding:.0%} of the pixels of a training batch is padding: images of'
        f' {smallest[1]} x {smallest[0]} in inputs of {width} x {height}. Set it to the crop of'
        ' train_dataloader.dataset.pipeline.'
    ]


@contextlib.contextmanager
def _kept_random_state() -> Iterator[None]:
    """Restore the random numbers of Python, NumPy and PyTorch afterwards."""
    python, numpy = random.getstate(), np.random.get_state()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
