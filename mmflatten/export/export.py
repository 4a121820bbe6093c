"""Export of a trained model, compared with PyTorch before the file is kept."""
import copy
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from mmengine.config import Config
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import DefaultScope
from torch import Tensor, nn

from mmflatten.building import build_model
from mmflatten.checkpoints.loading import load_from_local, load_weights
from mmflatten.checkpoints.run_files import atomic_write
from mmflatten.config_files import require_parts
from mmflatten.datasets.storage import read_rgb
from mmflatten.engine.datasets import build_dataset
from mmflatten.engine.setup import load_config
from mmflatten.export.engines import Engine, load_engine
from mmflatten.export.formats import check_file, random_images, side_range, write
from mmflatten.export.wrappers import ExportedModel, ExportError, wrap
from mmflatten.measure.flops.model_cost import image_shape

TOLERANCE = 1e-4  # largest difference, relative to the largest value of the output
HALF_TOLERANCE = 1e-2  # the same for the median in float16, where a few detections appear or vanish


@dataclass(frozen=True)
class ExportReport:
    """An exported file, its metadata, and its difference from PyTorch at each size (see `compare`).

    Attributes:
        boxes: number of compared boxes of a detector.
        images: what they were found in, test images or noise.
    """

    file: str
    metadata: dict[str, Any]
    errors: dict[tuple[int, int], float]
    boxes: int | None = None
    images: str = 'noise'

    def __str__(self) -> str:
        data = self.metadata
        sides = f'sides from {data["sides"][0]} to {data["sides"][1]}' if data['sides'] else 'fixed size'
        lines = [f'{self.file}: {data["task"]}, {"x".join(map(str, data["size"]))}, {sides}',
                 f'  in: {", ".join(data["inputs"])}, RGB 0-255, float32; out: {", ".join(data["outputs"])}']
        of = 'of the largest value' + (' (median; PyTorch in float32)' if data['half'] else '')
        lines += [f'  {height}x{width}: differs from PyTorch by {error:.1e} {of}'
                  for (height, width), error in self.errors.items()]
        if self.boxes is not None:
            lines.append(f'  {self.boxes} boxes were compared on {self.images}. '
                         f'mmflatten test CONFIG {self.file} computes the mAP')
        if self.boxes == 0:
            lines.append(f'  warning: the model finds nothing in {self.images}; only mmflatten test compares the file')
        return '\n'.join(lines)


def export_model(config: str, checkpoint: str, file: str, *, dynamic: bool = False,
                 size: tuple[int, int] | None = None, features: bool = False, half: bool = False,
                 options: Mapping[str, Any] | None = None) -> ExportReport:
    """Export a checkpoint and compare the file with PyTorch. An existing file is replaced only if the new one agrees.

    Args:
        config, checkpoint: files of the model; every key of the checkpoint must fit.
        file: path to write.
        dynamic: leave height and width open; `size` is then only an example.
        size: (H, W) of the images, by default the backbone's `img_size` or the usual size of the task.
        features: export the maps of backbone and neck instead of the task's predictions.
        half: weights and arithmetic in float16. Images, outputs, and a detector's boxes stay in float32.
        options: dotted keys and values that replace those of the config.

    Raises:
        ExportError: the model cannot be exported, or the file differs from PyTorch.
        CheckpointError: the checkpoint does not fit.
    """
    check_file(file)
    cfg = load_config(config, options)
    require_parts(cfg, 'model')
    model, classes = _load(cfg, checkpoint)
    module = wrap(model, features).eval()
    metadata = dict(
        task=module.task, config=Path(cfg.filename).name, classes=list(classes), size=list(size or image_shape(cfg)),
        sides=list(side_range(module)) if dynamic else None, inputs=list(module.inputs), outputs=list(module.outputs),
        input='RGB, 0 to 255, float32; normalised in the graph', mean=module.mean.flatten().tolist(),
        std=module.std.flatten().tolist(), half=half, **module.facts)
    exported = copy.deepcopy(module) if half else module
    if half:
        exported.model.half()
    with atomic_write(file) as written:
        write(exported, written, metadata)
        engine = load_engine(written)
        shown, images = _images(cfg, module, _sizes(metadata))
        errors = {size: compare(file, module, engine, size, half, each) for size, each in images.items()}
        boxes = sum(len(engine(*each)['boxes']) for each in images.values()) if 'boxes' in module.outputs else None
    return ExportReport(str(file), metadata, errors, boxes, shown)


def _load(cfg: Config, checkpoint: str) -> tuple[nn.Module, Sequence[str]]:
    """Return the model with its weights, and the class names if the checkpoint has them."""
    model = revert_sync_batchnorm(build_model(cfg))
    content = load_from_local(checkpoint, 'cpu')
    load_weights(model, content, checkpoint)
    meta = content.get('meta') if isinstance(content.get('meta'), dict) else {}
    return model, (meta.get('dataset_meta') or {}).get('classes') or ()


def _sizes(metadata: dict[str, Any]) -> list[tuple[int, int]]:
    """Return the sizes of the comparison: the exported one and, if sizes are open, an odd and a wide size."""
    height, width = metadata['size']
    if not metadata['sides']:
        return [(height, width)]
    least = metadata['sides'][0]
    odd = max(height * 3 // 4 | 1, least), max(width * 5 // 4 | 1, least)
    return [(height, width), odd, (height, 2 * width)]


def _images(cfg: Config, module: ExportedModel, sizes: Sequence[tuple[int, int]]
            ) -> tuple[str, dict[tuple[int, int], tuple[np.ndarray, ...]]]:
    """Return the images of the comparison, by their sizes, and what they are.

    A trained detector finds nothing in noise. It gets images of the test data, if they can be read.
    """
    if 'boxes' in module.outputs:
        with suppress(Exception), DefaultScope.overwrite_default_scope(cfg.get('default_scope')):
            dataset = build_dataset(copy.deepcopy(cfg.test_dataloader.dataset))
            files = [dataset.get_data_info(number % len(dataset))['img_path'] for number in range(len(sizes))]
            resized = [cv2.resize(read_rgb(file), size[::-1]) for file, size in zip(files, sizes)]
            return 'test images', {size: (np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], np.float32),)
                                   for size, pixels in zip(sizes, resized)}
    return 'noise', {size: random_images(module, size) for size in sizes}


def compare(name: str, module: ExportedModel, engine: Engine, size: tuple[int, int], half: bool = False,
            images: tuple[np.ndarray, ...] | None = None) -> float:
    """Return the largest difference between a file and PyTorch over all outputs, relative to the largest value.

    With `half`, the file is in float16 and the module in float32, and it is the median. `images` defaults to noise.

    Raises ExportError if it is above the tolerance and above four times the difference between PyTorch's float32 and
    float64, which is large for large scores.
    """
    images = images or random_images(module, size)
    tensors = tuple(map(torch.from_numpy, images))
    tolerance, summary = (HALF_TOLERANCE, np.median) if half else (TOLERANCE, np.max)

    def run(module: ExportedModel, tensors: Iterable[Tensor]) -> dict[str, np.ndarray]:
        with torch.no_grad():
            return {name: x.numpy() for name, x in zip(module.outputs, module(*tensors), strict=True)}

    def error_of(outputs: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> float:
        differences = module.differences(outputs, expected)
        return float(summary(differences)) if len(differences) else 0.  # no boxes

    expected = run(module, tensors)
    error = error_of(engine(*images), expected)
    if not error <= tolerance:
        exact = run(copy.deepcopy(module).double(), (tensor.double() for tensor in tensors))
        if not error <= 4 * error_of(expected, exact):
            raise ExportError(f'{name}: expected a difference from PyTorch of at most {tolerance} of the largest '
                              f'value at {size[0]}x{size[1]}, got {error:.1e}. Use PyTorch.')
    return error
