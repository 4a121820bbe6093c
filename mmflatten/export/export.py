"""Export of a trained model, compared with PyTorch before the file is kept."""
from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.model import revert_sync_batchnorm
from torch import nn

from mmflatten.building import build_model
from mmflatten.config_files import require_parts
from mmflatten.engine.checkpoints.loading import load_all_of
from mmflatten.engine.checkpoints.reading import load_from_local
from mmflatten.engine.setup import load_config
from mmflatten.export.engines import Engine, load_engine
from mmflatten.export.formats import WRITERS, check_format, side_range, trace
from mmflatten.export.wrappers import ExportedModel, ExportError, wrap
from mmflatten.measure.flops.model_cost import image_shape

TOLERANCE = 1e-4  # largest difference, relative to the largest value of the output


@dataclass(frozen=True)
class ExportReport:
    """An exported file and its difference from PyTorch.

    Attributes:
        metadata: as stored in the file.
        errors: size -> largest difference from PyTorch, relative to the largest value of the output.
    """

    file: str
    metadata: dict[str, Any]
    errors: dict[tuple[int, int], float]

    def __str__(self) -> str:
        data = self.metadata
        sides = f'sides from {data["sides"][0]} to {data["sides"][1]}' if data['sides'] else 'fixed size'
        lines = [f'{self.file}: {data["task"]}, {"x".join(map(str, data["size"]))}, {sides}',
                 f'  in: {", ".join(data["inputs"])}, RGB 0-255, float32; out: {", ".join(data["outputs"])}']
        lines += [f'  {height}x{width}: differs from PyTorch by {error:.1e} of the largest value'
                  for (height, width), error in self.errors.items()]
        if data['task'] == 'detection':
            lines.append('  non-maximum suppression is not in the file: mmflatten.export.detection.select_boxes')
        return '\n'.join(lines)


def export_model(config: str, checkpoint: str, file: str, *, format: str = 'onnx', dynamic: bool = False,
                 size: tuple[int, int] | None = None, features: bool = False,
                 options: Mapping[str, Any] | None = None) -> ExportReport:
    """Export a checkpoint and compare the file with PyTorch. Existing files are replaced only if the new one agrees.

    Args:
        config: config file of the model.
        checkpoint: checkpoint file; every key must fit the model.
        file: path to write.
        format: 'onnx', 'openvino' or 'pt2'.
        dynamic: leave height and width open; `size` is then only an example.
        size: (H, W) of the images, by default the backbone's `img_size` or the usual size of the task.
        features: export the maps of backbone and neck instead of the task's predictions.
        options: dotted keys and values that replace those of the config.

    Raises:
        ExportError: the model cannot be exported, or the file has NaN or differs from PyTorch by more than `TOLERANCE`
            and by more than rounding explains.
        CheckpointError: the checkpoint does not fit.
    """
    check_format(format, file)
    cfg = load_config(config, options)
    require_parts(cfg, 'model')
    model, classes = _load(cfg, checkpoint)
    module = wrap(model, features).eval()
    if dynamic and len(module.inputs) > 1:
        raise ExportError(f'--dynamic: the hourglass network of {type(model).__name__} requires a fixed size. '
                          'Use --size.')
    metadata = _metadata(module, cfg, classes, size or image_shape(cfg), dynamic)
    folder = Path(file).absolute().parent
    with tempfile.TemporaryDirectory(prefix='.', suffix='.part', dir=folder) as temporary:
        written = Path(temporary, Path(file).name)
        write(module, written, format, metadata)
        report = _compare(module, load_engine(written), file, metadata)
        for part in Path(temporary).iterdir():  # some formats write weights and metadata to files beside it
            os.replace(part, folder / part.name)
    return report


def write(module: ExportedModel, file: str | Path, format: str, metadata: dict[str, Any]) -> None:
    """Trace a model at `metadata['size']` and write the file."""
    inputs = tuple(map(torch.from_numpy, random_images(module, tuple(metadata['size']))))
    WRITERS[format](trace(module, inputs, metadata['sides'] is not None), file, module, metadata)


def difference(module: ExportedModel, engine: Engine, images: tuple[np.ndarray, ...]) -> float:
    """Return the largest difference between a file and PyTorch over all outputs, relative to the largest value."""
    with torch.no_grad():
        expected = [x.numpy() for x in module(*map(torch.from_numpy, images))]
    return _largest_difference(engine(*images).values(), expected)


def agrees(module: ExportedModel, size: tuple[int, int], error: float) -> bool:
    """Return True if a file's `difference` is below `TOLERANCE` or within four times the rounding error."""
    return error <= TOLERANCE or error <= 4 * rounding_error(module, size)


def rounding_error(module: ExportedModel, size: tuple[int, int]) -> float:
    """Return PyTorch's difference between float32 and float64; large scores can raise it above `TOLERANCE`."""
    images = tuple(map(torch.from_numpy, random_images(module, size)))
    with torch.no_grad():
        exact = copy.deepcopy(module).double()(*(image.double() for image in images))
        return _largest_difference([x.numpy() for x in module(*images)], [y.numpy() for y in exact])


def _largest_difference(outputs: Iterable[np.ndarray], expected: Iterable[np.ndarray]) -> float:
    # NumPy's max propagates NaN, Python's does not.
    return float(np.max([np.abs(x - y).max() / np.maximum(np.abs(y).max(), 1e-12)
                         for x, y in zip(outputs, expected, strict=True)]))


def random_images(module: ExportedModel, size: tuple[int, int]) -> tuple[np.ndarray, ...]:
    """Return one noise image for each input of the model, always the same."""
    generator = np.random.default_rng(0)
    return tuple(generator.uniform(0, 255, (1, 3, *size)).astype(np.float32) for _ in module.inputs)


def _load(cfg: Config, checkpoint: str) -> tuple[nn.Module, Sequence[str]]:
    """Return the model with its weights, and the class names if the checkpoint has them."""
    model = revert_sync_batchnorm(build_model(cfg))
    content = load_from_local(checkpoint, 'cpu')
    load_all_of(content, model, checkpoint)
    meta = content.get('meta') if isinstance(content.get('meta'), dict) else {}
    return model, (meta.get('dataset_meta') or {}).get('classes') or ()


def _metadata(module: ExportedModel, cfg: Config, classes: Sequence[str], size: tuple[int, int],
              dynamic: bool) -> dict[str, Any]:
    test_cfg = cfg.model.get('test_cfg') if module.needs_test_cfg else None
    return dict(task=module.task, config=Path(cfg.filename).name, classes=list(classes), size=list(size),
                sides=list(side_range(module)) if dynamic else None, inputs=list(module.inputs),
                outputs=list(module.outputs), input='RGB, 0 to 255, float32; normalised in the graph',
                mean=module.mean.flatten().tolist(), std=module.std.flatten().tolist(),
                test_cfg=test_cfg and test_cfg.to_dict())


def _compare(module: ExportedModel, engine: Engine, file: str, metadata: dict[str, Any]) -> ExportReport:
    """Compare a file with PyTorch on noise, at open sizes also at an odd and at a wide size."""
    height, width = metadata['size']
    sizes = [(height, width)]
    if metadata['sides']:
        least = metadata['sides'][0]
        sizes += [(max(height * 3 // 4 | 1, least), max(width * 5 // 4 | 1, least)), (height, 2 * width)]
    report = ExportReport(str(file), metadata, {
        size: difference(module, engine, random_images(module, size)) for size in sizes})
    if not all(agrees(module, size, error) for size, error in report.errors.items()):
        raise ExportError(f'{file}: not written because it differs from PyTorch by more than {TOLERANCE}: {report}')
    return report
