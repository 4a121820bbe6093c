"""Tasks: classification, detection, panoptic and semantic segmentation, stereo matching, and those
of other packages.

A new task is a subclass of `Task` with the decorator `register_task`, in a file of this folder or
in a package that a config names in `custom_imports`.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterable, Mapping
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mmflatten.text import clip, printable

if TYPE_CHECKING:
    from mmengine.config import Config
    from mmengine.structures import BaseDataElement
    from torch import Tensor, nn

_TASKS: dict[str, Task] = {}


class Task:
    """A task. Subclasses state its facts as class attributes and override the behaviour that
    differs.

    Behaviour that belongs to one folder of the package stands in the module
    `<package>.<folder>.<name>`, for example `mmflatten.export.segmentation`. A task without it does
    not offer what the folder does. docs/architecture.md lists the folders and the names that they
    take from the module.
    """

    name: str  # such as `detection`
    abbreviation: str = ''  # on the command line of `mmflatten init`
    scope: str  # `default_scope` of the task's configs, and first part of the module of its models
    package: str = 'mmflatten'  # holds the modules
    input_shape: tuple[int, int]  # usual (H, W) of an image
    fixed_size: bool = False  # models are trained and tested at one image size
    inputs: tuple[str, ...] = ('image',)  # names of the images that make one sample
    prediction: str  # key of a stored prediction by which the task is recognised
    hub_tag: str = 'other'  # name of the task on the Hugging Face hub
    visualizer_type: str = 'Visualizer'  # draws predictions, as registered in the scope
    # config of the default model for test-time augmentation
    tta_model: Mapping[str, Any] | None = None
    tta_scales: bool = False  # test-time augmentation also varies the scale
    has_instances: bool = False  # predictions are instances with scores
    has_label_maps: bool = False  # predictions are maps of class labels
    trains_on_outputs: bool = True  # the gradient of the raw outputs times a training step fairly
    annotation_files: bool = False  # annotations are files apart from the images
    label_lists: bool = False  # labels may be in CSV files
    has_classes: bool = True  # the model predicts classes of the data set
    data_preprocessor: str = ''  # type that models of the library use if the config has none
    needs_classes: bool = False  # classes and palette are required to draw predictions

    @property
    def pairs(self) -> bool:
        """True if a sample is a pair of images."""
        return len(self.inputs) == 2

    def recognises(self, model: Mapping[str, Any]) -> bool:
        """Return True if a model of the scope is one of this task.

        Several tasks may have a scope. A subclass of another task is asked before it.

        Args:
            model: settings of a config, or parts of a built model by their names.
        """
        return True

    def part(self, folder: str) -> ModuleType:
        """Import the task's module of a folder.

        Raises:
            ValueError: the task has none.
        """
        module = f'{self.package}.{folder}.{self.name}'
        if not self.offers(folder):
            raise ValueError(
                f'{folder}: not available for {self.name}. It needs the module {module}.'
            )
        return importlib.import_module(module)

    def offers(self, folder: str) -> bool:
        """Return True if the task has a module of the folder."""
        return (
            importlib.util.find_spec(f'{self.package}.{folder}') is not None
            and importlib.util.find_spec(f'{self.package}.{folder}.{self.name}') is not None
        )

    def visualizer(self, metainfo: dict, type: str | None = None) -> Any:
        """Build the visualizer, with classes and palette of `metainfo`; `type` replaces
        `visualizer_type`.
        """
        from mmengine.registry import VISUALIZERS, DefaultScope

        with DefaultScope.overwrite_default_scope(self.scope):
            visualizer = VISUALIZERS.build(
                dict(type=type or self.visualizer_type, name=f'{self.name} drawings')
            )
        # Drawing a name of many characters takes minutes.
        classes = [clip(printable(name)) for name in metainfo.get('classes') or ()]
        visualizer.dataset_meta = {**metainfo, 'classes': classes} if classes else metainfo
        return visualizer

    def inferencer(self, cfg: Config, checkpoint: str | None, device: str) -> Any:
        """Build MMEngine's inferencer for a config and a checkpoint; None for random weights."""
        raise NotImplementedError(
            f'{type(self).__name__}.inferencer: not implemented. Predictions require it.'
        )

    def preprocess(self, inferencer: Any, images: list) -> dict:
        """Return `inputs` and `data_samples` of one batch, as the inferencer's pipeline prepares
        the images.
        """
        (batch,) = inferencer.preprocess(images, batch_size=len(images))
        return batch

    def restore(self, entry: dict) -> BaseDataElement:
        """Return the data sample of a stored prediction, with what the visualizer draws of it."""
        raise NotImplementedError(
            f'{type(self).__name__}.restore: not implemented. Drawings of stored predictions '
            'require it.'
        )

    def forward(self, model: nn.Module, image: Tensor) -> Any:
        """Compute raw outputs without data-dependent steps; works on the meta device."""
        return model(image, mode='tensor')

    def forward_as_tested(self, model: nn.Module, image: Tensor) -> Any:
        """Compute raw outputs as `forward`, for as many regions as the model's `test_cfg` keeps."""
        return self.forward(model, image)

    def predict(self, model: nn.Module, image: Tensor) -> Any:
        """Compute predictions, for measuring speed."""
        return self.forward(model, image)

    def backbone(self, model: nn.Module) -> nn.Module:
        """Return the part of the model that sees the image."""
        return model.backbone


def with_own_collate(inferencer: type) -> type:
    """Return an inferencer class of MMEngine that looks up its `collate_fn` in MMEngine's registry.

    The original asks for the scope of its task. mmdet and mmseg have no registry of functions, so
    it would warn.
    """
    from mmengine.dataset import pseudo_collate
    from mmengine.registry import FUNCTIONS

    class Inferencer(inferencer):  # type: ignore[misc, valid-type]
        def _init_collate(self, cfg: Config) -> Any:
            name = cfg.test_dataloader.get('collate_fn')
            return pseudo_collate if name is None else FUNCTIONS.get(name)

    return Inferencer


def register_task(cls: type[Task]) -> type[Task]:
    """Register a task under its name. Use it as a class decorator."""
    _TASKS[cls.name] = cls()
    return cls


@cache
def tasks() -> dict[str, Task]:
    """Return all tasks by their names."""
    for module in pkgutil.iter_modules(__path__, f'{__name__}.'):
        importlib.import_module(module.name)
    return _TASKS


def task_of(cfg: Mapping[str, Any]) -> Task:
    """Return the task of a config.

    Raises:
        ValueError: no task has the config's `default_scope`.
    """
    scope = cfg.get('default_scope')
    task = find_task(scope, cfg.get('model'))
    if task is None:
        scopes = ', '.join(task.scope for task in tasks().values())
        raise ValueError(
            f'default_scope: no task has this scope, got {scope!r}. Use one of {scopes}.'
        )
    return task


def find_task(scope: str | None, model: Mapping[str, Any] | None = None) -> Task | None:
    """Return the task of a `default_scope`, None if there is none.

    Args:
        model: its settings, which distinguish the tasks of one scope.
    """
    for task in _subclasses_first():
        if task.scope == scope and task.recognises(model or {}):
            return task
    return None


def task_of_model(model: nn.Module) -> Task | None:
    """Return the task of a whole model, None for a plain module such as a backbone.

    It is recognised by the library of its base class: a detector of this project derived from
    mmdet's is mmdet's.
    """
    from mmengine.model import BaseModel

    if not isinstance(model, BaseModel):
        return None
    parts = dict(model.named_children(), test_cfg=getattr(model, 'test_cfg', None))
    for cls in reversed(type(model).__mro__):
        task = find_task(cls.__module__.split('.')[0], parts)
        if task is not None:
            return task
    return None


def task_of_predictions(entries: Iterable[Mapping[str, Any]]) -> Task | None:
    """Return the task whose predictions all entries hold."""
    entries = list(entries)
    for task in _subclasses_first():
        if all(task.prediction in entry for entry in entries):
            return task
    return None


def _subclasses_first() -> list[Task]:
    """Return all tasks, those derived from another before it."""
    return sorted(tasks().values(), key=lambda task: -len(type(task).__mro__))
