"""From a config and a checkpoint to a file of another runtime, compared with PyTorch before it is called done."""
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
from mmflatten.export.formats import WRITERS, check_format, side_range, trace, write_torchscript
from mmflatten.export.quantize import Images, calibration_images, write_int8
from mmflatten.export.wrappers import ExportedModel, ExportError, wrap
from mmflatten.measure.flops.inputs import image_shape

TOLERANCE = 1e-4  # of a float32 file: largest difference by the largest value of a result
CALIBRATION_IMAGES = 32  # as many again are compared


@dataclass(frozen=True)
class ExportReport:
    """What was written and how it agrees with PyTorch.

    Attributes:
        file: its path.
        metadata: what the file says of itself.
        errors: size to the largest difference from PyTorch, by the largest value of the result.
        top1: of an 8-bit file, the share of images, or of pixels, whose best class stayed; NaN without classes.
    """

    file: str
    metadata: dict[str, Any]
    errors: dict[tuple[int, int], float]
    top1: float | None = None

    def __str__(self) -> str:
        data = self.metadata
        sides = f'sides from {data["sides"][0]} to {data["sides"][1]}' if data['sides'] else 'that size only'
        lines = [f'{self.file}: {data["task"]}, {"x".join(map(str, data["size"]))}, {sides}',
                 f'  in: {", ".join(data["inputs"])}, RGB 0-255, float32; out: {", ".join(data["outputs"])}']
        lines += [f'  {height}x{width}: differs from PyTorch by {error:.1e} of the largest value'
                  for (height, width), error in self.errors.items()]
        if data['task'] == 'detection':
            lines.append('  non-maximum suppression is not in the file: mmflatten.export.detection.select_boxes')
        if self.top1 is not None:
            lines.append(f'  8 bits: the best class stays in {self.top1:.1%}')
        return '\n'.join(lines)


def export_model(config: str, checkpoint: str, file: str, *, format: str = 'onnx', dynamic: bool = False,
                 int8: bool = False, size: tuple[int, int] | None = None, features: bool = False,
                 calibration: str | None = None, options: Mapping[str, Any] | None = None) -> ExportReport:
    """Export a checkpoint and compare the file with PyTorch; only then it takes the place of what was there.

    Args:
        config: its config.
        checkpoint: every key must fit the model.
        file: to write.
        format: 'onnx', 'openvino', 'pt2' or 'torchscript'.
        dynamic: leave height and width open; `size` is then only an example.
        int8: quantise to 8 bits (ONNX, OpenVINO).
        size: (H, W) of the images; the backbone's `img_size` or the task's usual size by default.
        features: the maps of backbone and neck in place of what the task predicts.
        calibration: folder of images for `int8`; the config's validation data by default.
        options: dotted keys and values that replace the config's.

    Raises:
        ExportError: it cannot be exported so, or the file differs from PyTorch by more than `TOLERANCE` and more than
            rounding explains, or has values that are no numbers.
        CheckpointError: the checkpoint does not fit.
    """
    check_format(format, file, int8)
    if calibration is not None and not int8:
        raise ExportError(f'--calibration {calibration} is for --int8, which is not given; add it, or leave out both')
    cfg = load_config(config, options)
    require_parts(cfg, 'model')
    model, classes = _load(cfg, checkpoint)
    module = wrap(model, features).eval()
    if dynamic and (format == 'torchscript' or len(module.inputs) > 1):
        what = 'a trace of TorchScript has' if format == 'torchscript' else 'the hourglasses of a stereo network have'
        raise ExportError(f'--dynamic: {what} one size; give it with --size')
    size = size or image_shape(cfg)
    metadata = _metadata(module, cfg, classes, size, dynamic)
    images = calibration_images(cfg, calibration, size, 2 * CALIBRATION_IMAGES) if int8 else []
    folder = Path(file).absolute().parent
    with tempfile.TemporaryDirectory(prefix='.', suffix='.part', dir=folder) as aside:
        written = Path(aside, Path(file).name)
        write(module, written, format, metadata, images[::2])
        report = _compare(module, load_engine(written), file, metadata, images[1::2] or images)
        for part in Path(aside).iterdir():  # with the weights and the metadata that some formats have beside the file
            os.replace(part, folder / part.name)
    return report


def write(module: ExportedModel, file: str | Path, format: str, metadata: dict[str, Any],
          images: Sequence[Images] = ()) -> None:
    """Write a file; in 8 bits where there are images to calibrate with."""
    inputs = tuple(map(torch.from_numpy, random_images(module, tuple(metadata['size']))))
    if format == 'torchscript':
        write_torchscript(module, inputs, file, metadata)
        return
    program = trace(module, inputs, metadata['sides'] is not None)
    if images:
        write_int8(program, file, format, module, metadata, images)
    else:
        WRITERS[format](program, file, module, metadata)


def difference(module: ExportedModel, engine: Engine, images: Images) -> float:
    """The largest difference between a file and PyTorch, by the largest value of the result, over all results."""
    with torch.no_grad():
        expected = [x.numpy() for x in module(*map(torch.from_numpy, images))]
    return _largest_difference(engine(*images).values(), expected)


def agrees(module: ExportedModel, size: tuple[int, int], error: float) -> bool:
    """Whether a file's `difference` at a size is small, or no more than rounding explains."""
    return error <= TOLERANCE or error <= 4 * rounding_error(module, size)


def rounding_error(module: ExportedModel, size: tuple[int, int]) -> float:
    """How much PyTorch's own float32 result differs from float64: more than `TOLERANCE` in networks of large scores."""
    images = tuple(map(torch.from_numpy, random_images(module, size)))
    with torch.no_grad():
        exact = copy.deepcopy(module).double()(*(image.double() for image in images))
        return _largest_difference([x.numpy() for x in module(*images)], [y.numpy() for y in exact])


def _largest_difference(found: Iterable[np.ndarray], expected: Iterable[np.ndarray]) -> float:
    """NaN where anything is NaN, which Python's own `max` can lose."""
    return float(np.max([np.abs(x - y).max() / np.maximum(np.abs(y).max(), 1e-12)
                         for x, y in zip(found, expected, strict=True)]))


def random_images(module: ExportedModel, size: tuple[int, int]) -> Images:
    """Noise of the given size, the same each time."""
    generator = np.random.default_rng(0)
    return tuple(generator.uniform(0, 255, (1, 3, *size)).astype(np.float32) for _ in module.inputs)


def _load(cfg: Config, checkpoint: str) -> tuple[nn.Module, Sequence[str]]:
    """The model with its weights, and the names of its classes where the checkpoint has them."""
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


def _sizes(size: tuple[int, int], sides: tuple[int, int] | None) -> list[tuple[int, int]]:
    """Where a file is compared: at its size and, where that is open, at an odd and an oblong one too."""
    if sides is None:
        return [size]
    return [size, (max(size[0] * 3 // 4 | 1, sides[0]), max(size[1] * 5 // 4 | 1, sides[0])), (size[0], 2 * size[1])]


def _compare(module: ExportedModel, engine: Engine, file: str, metadata: dict[str, Any],
             images: Sequence[Images]) -> ExportReport:
    """Compare an 8-bit file on images, any other on noise; refuse one that does not agree."""
    size = tuple(metadata['size'])
    if images:
        report = ExportReport(str(file), metadata, *_compare_int8(module, engine, images, size))
    else:
        report = ExportReport(str(file), metadata, {tried: difference(module, engine, random_images(module, tried))
                                                    for tried in _sizes(size, metadata['sides'])})
    if not all(np.isfinite(error) if images else agrees(module, tried, error)
               for tried, error in report.errors.items()):
        raise ExportError(f'{file} is not written: it differs from PyTorch by more than {TOLERANCE}: {report}')
    return report


def _compare_int8(module: ExportedModel, engine: Engine, images: Sequence[Images],
                  size: tuple[int, int]) -> tuple[dict[tuple[int, int], float], float]:
    """The mean difference, and how often the best class is the same."""
    errors, same = [], []
    for group in images:
        with torch.no_grad():
            expected = module(*map(torch.from_numpy, group))[0].numpy()
        found = next(iter(engine(*group).values()))
        errors.append(np.abs(found - expected).max() / np.abs(expected).max())
        same.append((found.argmax(1) == expected.argmax(1)).mean())
    return {size: float(np.mean(errors))}, float(np.mean(same)) if module.has_scores else float('nan')
