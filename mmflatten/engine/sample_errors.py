"""Name the image when a data set cannot load it, in any library and in any data-loading process."""
import traceback
from typing import Any, Iterator, Optional

from mmengine.dataset import Compose
from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmflatten.registry import HOOKS


class SampleError(RuntimeError):
    """A sample of a data set could not be loaded or transformed."""


class NamingPipeline:
    """A data set's pipeline whose errors say which files the sample was made of.

    OpenCV returns None and Pillow speaks of a `BytesIO` when bytes are no image; the path is known here alone, in the
    process that reads it. A missing file passes unchanged, since its error holds the path, and so do errors of our own
    classes, which name the file themselves.
    """

    def __init__(self, pipeline: Compose) -> None:
        self.pipeline = pipeline

    @property
    def transforms(self) -> list:
        return self.pipeline.transforms

    def __call__(self, data: dict) -> Optional[dict]:
        image, label_map = data.get('img_path'), data.get('seg_map_path')
        try:
            return self.pipeline(data)
        except FileNotFoundError:
            raise
        except Exception as error:
            if type(error).__module__.startswith('mmflatten.'):
                raise
            raise SampleError(_message(error, image, label_map)) from error

    def __repr__(self) -> str:
        return repr(self.pipeline)


def _message(error: Exception, image: Optional[str], label_map: Optional[str]) -> str:
    step = _failing_step(error)
    reason = f'{step}: {type(error).__name__}: {error}'
    if step.startswith('Load'):
        path = label_map if 'Annotation' in step and label_map else image
        return f'image {path} cannot be decoded ({reason}); replace the file or take it out of the data set'
    names = ' and '.join(str(path) for path in (image, label_map) if path)
    return f'the sample of {names or "an unnamed file"} cannot be prepared ({reason})'


def _failing_step(error: Exception) -> str:
    """Class of the outermost transform that was running."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        owner = frame.f_locals.get('self')
        if frame.f_code.co_name in ('__call__', 'transform') and not isinstance(owner, (NamingPipeline, Compose)):
            return type(owner).__name__
    return 'pipeline'


@HOOKS.register_module()
class NameFailingSamplesHook(Hook):
    """Put a NamingPipeline around the pipeline of every data set before it is read."""

    def before_train(self, runner: Runner) -> None:
        _name_samples(runner.train_loop.dataloader.dataset)

    def before_val(self, runner: Runner) -> None:
        _name_samples(runner.val_loop.dataloader.dataset)

    def before_test(self, runner: Runner) -> None:
        _name_samples(runner.test_loop.dataloader.dataset)


def _name_samples(dataset: Any) -> None:
    for part in _with_inner(dataset):
        if type(getattr(part, 'pipeline', None)) is Compose:
            part.pipeline = NamingPipeline(part.pipeline)


def _with_inner(dataset: Any) -> Iterator[Any]:
    """A data set and those it wraps (repeated, concatenated, class-balanced, mixed)."""
    yield dataset
    inner = [getattr(dataset, 'dataset', None), *(getattr(dataset, 'datasets', None) or [])]
    for part in inner:
        if part is not None:
            yield from _with_inner(part)
