"""Export of a trained model, compared with PyTorch before the file is kept."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.model import revert_sync_batchnorm
from torch import nn

from mmflatten.checkpoints.loading import load_weights, read_checkpoint
from mmflatten.checkpoints.run_files import atomic_write
from mmflatten.config import build_model, require_parts
from mmflatten.engine.image_input import bands_of
from mmflatten.engine.setup import load_config
from mmflatten.export.comparison import Case, Engine, compare, image_cases, noise_cases, run
from mmflatten.export.metadata import describe
from mmflatten.export.onnx_files import OnnxFile, check_file, write
from mmflatten.export.precision import (
    MAX_DRIFT,
    bfloat16_engine,
    drift,
    quantise,
    split_cases,
    write_metadata,
)
from mmflatten.export.wrappers import ExportedModel, ExportError, wrap
from mmflatten.measure.flops.model_cost import image_shape
from mmflatten.models.backbones.base import image_bands

NUM_IMAGES = 16  # images of the user that are compared


def export_model(
    config: str,
    checkpoint: str,
    file: str,
    *,
    dynamic: bool = False,
    size: tuple[int, int] | None = None,
    features: bool = False,
    images: Sequence[str] = (),
    precision: str = 'float32',
    max_drift: float = MAX_DRIFT,
    options: Mapping[str, Any] | None = None,
) -> list[str]:
    """Export a checkpoint and compare the file with PyTorch.

    An existing file is replaced only if the new one agrees. Returns lines about the file for the
    user.

    Args:
        config, checkpoint: files of the model; every key of the checkpoint must fit.
        file: path to write.
        dynamic: leave height, width and batch open; `size` is then only an example.
        size: (H, W) of the images, by default the backbone's `img_size` or the usual size of the
            task.
        features: export the maps of backbone and neck instead of the task's predictions.
        images: files and folders of images for the comparison, which also uses noise, and for
            the calibration of int8.
        precision: 'float32', 'int8' (quantised with `images`) or 'bfloat16' (in OpenVINO, on
            processors that have it).
        max_drift: largest mean difference of a file of reduced precision from PyTorch.
        options: dotted keys and values that replace those of the config.

    Raises:
        ExportError: the model cannot be exported, or the file differs from PyTorch.
        CheckpointError: the checkpoint does not fit.
    """
    check_file(file)
    if precision != 'float32' and not images:
        raise ExportError(
            f'--{precision}: requires images to measure its drift, got none. Name some with'
            ' --images.'
        )
    cfg = load_config(config, options)
    require_parts(cfg, 'model')
    model, dataset_meta = _load(cfg, checkpoint)
    module = wrap(model, features).eval()
    _use_bands(module, cfg)
    metadata = describe(
        module,
        cfg,
        dataset_meta,
        size=size or tuple(image_shape(cfg)),
        dynamic=dynamic,
        checkpoint=checkpoint,
    )
    _require_size(metadata)
    photos = []
    if images:
        photos = image_cases(images, metadata, cfg.default_scope, 4 * NUM_IMAGES)
    calibration, compared = [], photos[:NUM_IMAGES]
    if precision == 'int8':
        calibration, compared = split_cases(photos, NUM_IMAGES)
    noise = noise_cases(module, metadata)
    with atomic_write(file) as written:
        write(module, written, metadata)
        exported = OnnxFile(written)
        noise_errors = _errors(file, module, exported, noise)
        lines = _summary(file, module, metadata, noise_errors)
        errors = _errors(file, module, exported, compared)
        if errors:
            lines.append(_images_line(errors))
        lines += _hints(module, noise + compared)
        largest = max([*noise_errors.values(), *errors.values()])
        difference = dict(images=len(compared), largest=largest, mean=None)
        metadata.update(precision=precision, difference=difference)
        if precision != 'float32':
            engine = _reduced(written, metadata, calibration)
            mean = drift(file, module, engine, compared, max_drift)
            difference.update(mean=mean)
            lines.append(f'  {precision}: differs from PyTorch by {mean:.2g} on average')
        write_metadata(written, metadata)
    return lines


def _use_bands(module: ExportedModel, cfg: Config) -> None:
    """Let the graph take the bands that the config's test pipeline reads.

    Raises ExportError if it reads three colours, and the model takes other bands.
    """
    bands = bands_of(cfg) if 'test_dataloader' in cfg else None
    if bands is not None:
        module.use_bands(bands)
    elif image_bands(module.model) != 3:
        raise ExportError(
            'in_channels of the model: expected 3, because test_dataloader.dataset.pipeline reads'
            f' colours, got {image_bands(module.model)}. Let it read bands, as in a config that'
            ' `mmflatten init --bands` writes.'
        )


def _require_size(metadata: Mapping[str, Any]) -> None:
    """Raise ExportError if the example of a file with open sizes is not one of these sizes."""
    if not metadata['sides']:
        return
    least, most = metadata['sides']
    if min(metadata['size']) < least or max(metadata['size']) > most:
        size = 'x'.join(map(str, metadata['size']))
        raise ExportError(
            f'--size: expected sides from {least} to {most} with --dynamic, got {size}. Name a size'
            ' in this range, or omit --dynamic.'
        )


def _reduced(file: Path, metadata: dict[str, Any], calibration: Sequence[Case]) -> Engine:
    """Replace a file by one of the precision in its metadata. Returns a function that runs it."""
    if metadata['precision'] == 'bfloat16':
        return bfloat16_engine(file, metadata['outputs'])
    quantise(file, file, calibration, metadata)
    return OnnxFile(file)


def _errors(
    file: str, module: ExportedModel, exported: Engine, cases: Sequence[Case]
) -> dict[str, float]:
    return {case.name: compare(file, module, exported=exported, case=case) for case in cases}


def _summary(
    file: str, module: ExportedModel, metadata: Mapping[str, Any], errors: Mapping[str, float]
) -> list[str]:
    sides = 'fixed size'
    if metadata['sides']:
        sides = 'sides from {} to {}'.format(*metadata['sides'])
    batch = 'batch 1'
    if metadata['batch']:
        batch = 'batch from {} to {}'.format(*metadata['batch'])
    pixels = 'RGB 0-255' if module.bands is None else f'{len(module.mean)} bands'
    lines = [
        f'{file}: {module.task}, {"x".join(map(str, metadata["size"]))}, {sides}, {batch}',
        f'  in: {", ".join(module.inputs)}, {pixels}, float32; out: {", ".join(module.outputs)}',
    ]
    for name, error in errors.items():
        lines.append(f'  {name}: differs from PyTorch by {error:.1e} of the largest value')
    return lines


def _images_line(errors: Mapping[str, float]) -> str:
    name = max(errors, key=errors.__getitem__)
    return (
        f'  {len(errors)} images: differ from PyTorch by at most {errors[name]:.1e} of the largest'
        f' value ({name})'
    )


def _hints(module: ExportedModel, cases: Sequence[Case]) -> list[str]:
    """Return a hint if nothing was detected, so that the comparison has compared nothing."""
    if 'scores' not in module.outputs:
        return []
    if any((run(module, case)['scores'] > 0).any() for case in cases):
        return []
    return ['  No detections in any of these: name photos with --images to compare them.']


def _load(cfg: Config, checkpoint: str) -> tuple[nn.Module, Mapping[str, Any]]:
    """Return the model with its weights, and the classes and palette of the checkpoint."""
    model = revert_sync_batchnorm(build_model(cfg))
    content = read_checkpoint(checkpoint, 'cpu')
    load_weights(model, content, checkpoint)
    meta = content.get('meta')
    if not isinstance(meta, dict):
        return model, {}
    return model, meta.get('dataset_meta') or {}
