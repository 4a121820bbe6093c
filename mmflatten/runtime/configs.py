"""Configs of exported files: made of a file's metadata, and a config that gets a file as model."""

from pathlib import Path
from typing import Any

from mmengine.config import Config, ConfigDict

from mmflatten.engine.class_checks import require_same
from mmflatten.engine.datasets import first_config, read_metainfo
from mmflatten.engine.image_input import bands_of, pipeline_of
from mmflatten.engine.setup import require_scope
from mmflatten.export.wrappers import ExportError
from mmflatten.runtime.files import is_model_file, read_facts
from mmflatten.runtime.model import task_of_file
from mmflatten.tasks import task_of
from mmflatten.untrusted.exported import ExportedFacts


def file_config(file: str | Path, runtime: str | None = None) -> Config:
    """Make the config of a prediction from the metadata of an exported file.

    Raises:
        ExportError: the file cannot be used, or its metadata lack the preparation of images.
    """
    facts = read_facts(file)
    task = task_of_file(facts, str(file))
    if facts.transforms is None:
        raise ExportError(
            f'transforms: expected the resizing of images, got none in {file}, because the test'
            ' pipeline of its config has other steps. Name the config too.'
        )
    require_scope(task.scope)
    metainfo: dict[str, Any] = {}
    if facts.classes:
        metainfo['classes'] = tuple(facts.classes)
        if facts.palette:
            metainfo['palette'] = facts.palette
    pipeline = pipeline_of(facts.transforms, task.scope)
    dataset = dict(type='mmengine.dataset.BaseDataset', metainfo=metainfo, pipeline=pipeline)
    return Config(
        dict(
            default_scope=task.scope,
            model=_model(file, runtime, facts),
            visualizer=dict(type=task.visualizer_type),
            test_dataloader=dict(dataset=dataset),
        )
    )


def use_model(cfg: Config, checkpoint: str | Path, runtime: str | None = None) -> bool:
    """Make an exported file the model of a config, in place. Returns False for a checkpoint.

    Args:
        checkpoint: exported file or checkpoint.
        runtime: as in `ModelFile`; None with a checkpoint.

    Raises:
        ExportError: the file cannot be used, or is of another task; or there is a runtime for a
            checkpoint.
        ClassesError: the classes of the file differ from those of the config's test data.
    """
    if not is_model_file(checkpoint):
        if runtime is not None:
            raise ExportError(
                f'runtime: expected a file of `mmflatten export` to run in {runtime}, got'
                f' {checkpoint}. Omit the runtime.'
            )
        return False
    launcher = cfg.get('launcher', 'none')
    if launcher != 'none':
        raise ExportError(
            f'launcher: expected none, because exported files run in one process, got {launcher}.'
            ' Start without a launcher.'
        )
    facts = read_facts(checkpoint)
    expected = task_of(cfg).name
    if facts.task != expected:
        raise ExportError(
            f'task: expected {expected}, that of the config, got {facts.task} in {checkpoint}. Use'
            ' the config of the export.'
        )
    task_of_file(facts, str(checkpoint))
    require_same(
        found=facts.classes,
        expected=read_metainfo(cfg).get('classes') or (),
        where=f'file {checkpoint}',
        other='the config',
        fix='Use the config of the training.',
    )
    _read_bands(cfg, facts, checkpoint)
    cfg.model = ConfigDict(_model(checkpoint, runtime, facts))
    cfg.pop('data_preprocessor', None)  # the graph prepares the images
    return True


def _read_bands(cfg: Config, facts: ExportedFacts, file: str | Path) -> None:
    """Leave out the norms of the step that reads bands, which are in the graph."""
    in_config = bands_of(cfg) is not None
    if in_config != (facts.bands is not None):
        kinds = ('colours', 'bands')
        raise ExportError(
            f'test_dataloader.dataset.pipeline: expected a config that reads'
            f' {kinds[not in_config]}, as {file} does, got one of {kinds[in_config]}. Use the'
            ' config of the export.'
        )
    if in_config:
        step = first_config(cfg.test_dataloader.dataset).pipeline[0]
        for name in ('mean', 'std'):
            step.pop(name, None)


def _model(file: str | Path, runtime: str | None, facts: ExportedFacts) -> dict[str, Any]:
    return dict(
        type='mmflatten.FileModel',
        file=str(Path(file).absolute()),
        runtime=runtime,
        task=facts.task,
    )
