"""Building of data sets with errors that name the data set, and their configs inside wrappers."""

import contextlib
import copy
import io
from collections.abc import Iterator
from typing import Any

from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.registry import DATASETS

from mmflatten.console import explain, is_ours, quiet_libraries
from mmflatten.engine.class_checks import require_usable, with_inner
from mmflatten.engine.naming_pipeline import NamedTransform, NamingPipeline
from mmflatten.engine.pictures import disable_ghostscript


class DatasetError(RuntimeError):
    """A data set cannot be built: files are missing or do not match the config."""


def build_dataset(cfg: dict) -> Any:
    """Build a data set and read its list of samples. Its pipelines name the files of a broken
    sample (`NamingPipeline`, `NamedTransform`).

    Raises:
        ClassesError: the class names in the config cannot be used.
        DatasetError: names the data set, its paths, and the command that creates them if there is
            one.
    """
    disable_ghostscript()
    for part, _ in innermost_configs(cfg):
        if isinstance(part.get('metainfo'), dict):  # MMEngine reports other types
            require_usable(part['metainfo'], f'data set {part.get("type")}')
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints
            dataset = DATASETS.build(cfg)
            if hasattr(dataset, 'full_init'):
                dataset.full_init()
    except Exception as error:
        if is_ours(error):
            raise
        raise DatasetError(_building_error(cfg, error)) from error
    for part in with_inner(dataset):
        pipeline = getattr(part, 'pipeline', None)
        # A subclass of Compose has behaviour of its own and stays.
        if type(pipeline) is Compose:
            part.pipeline = NamingPipeline(pipeline.transforms)
        elif isinstance(pipeline, list):  # of a wrapper that mixes images
            part.pipeline = [NamedTransform(step, index) for index, step in enumerate(pipeline)]
    name_pipelines(dataset, 'dataset')
    return dataset


def name_pipelines(dataset: Any, field: str) -> None:
    """Give the pipelines of a data set and of those inside it their fields in the config, for
    messages.

    Args:
        field: of the data set, such as `train_dataloader.dataset`.
    """
    pipeline = getattr(dataset, 'pipeline', None)
    for part in pipeline if isinstance(pipeline, list) else [pipeline]:
        if isinstance(part, (NamingPipeline, NamedTransform)):
            part.place = f'{field}.pipeline'
    single = getattr(dataset, 'dataset', None)
    if single is not None:
        name_pipelines(single, f'{field}.dataset')
    for index, part in enumerate(getattr(dataset, 'datasets', None) or ()):
        name_pipelines(part, f'{field}.datasets.{index}')


def _building_error(cfg: dict, error: Exception) -> str:
    parts = [part for part, _ in innermost_configs(cfg)]
    named = parts[0] if len(parts) == 1 else cfg
    paths = []
    for name in ('data_root', 'ann_file', 'data_prefix'):
        if named.get(name):
            paths.append(f'{name}={named[name]}')
    return (
        f'data set {named.get("type")} ({", ".join(paths)}) cannot be read: {explain(error)}. Check'
        ' data_root, data_prefix, ann_file and filter_cfg in the config.'
    )


def innermost_configs(dataset: dict, times: int = 1) -> Iterator[tuple[dict, int]]:
    """Yield the configs of the data sets inside repeating and concatenating wrappers, each with the
    number of its repetitions in an epoch.
    """
    if isinstance(dataset.get('dataset'), dict):
        inner = [dataset['dataset']]
    else:
        inner = dataset.get('datasets') or []
    if not inner:
        yield dataset, times
    for part in inner:
        yield from innermost_configs(part, times * dataset.get('times', 1))


def first_config(dataset: dict) -> dict:
    """Return the config of the first data set inside wrappers."""
    config, _ = next(innermost_configs(dataset))
    return config


def read_metainfo(cfg: Config, split: str = 'test') -> dict:
    """Return classes and palette of a config's data set without reading its files."""
    dataset = first_config(cfg[f'{split}_dataloader'].dataset)
    scope = cfg.get('default_scope', 'mmengine')
    with DATASETS.switch_scope_and_registry(scope) as registry, quiet_libraries():
        kind = dataset['type']
        if isinstance(kind, str):
            kind = registry.get(kind)
        if not hasattr(kind, 'METAINFO'):  # a plain PyTorch data set
            return {}
        unread = copy.deepcopy(dataset)
        unread.update(lazy_init=True, pipeline=[])
        return dict(registry.build(unread).metainfo)
