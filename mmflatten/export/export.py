"""Export of a trained model, compared with PyTorch before the file is kept."""

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.model import revert_sync_batchnorm
from torch import Tensor, nn

from mmflatten.checkpoints.loading import load_weights, read_checkpoint
from mmflatten.checkpoints.run_files import atomic_write
from mmflatten.config import build_model, require_parts
from mmflatten.engine.setup import load_config
from mmflatten.export.onnx_files import OnnxFile, check_file, random_images, side_range, write
from mmflatten.export.wrappers import ExportedModel, ExportError, wrap
from mmflatten.measure.flops.model_cost import image_shape
from mmflatten.models.backbones.base import image_bands

TOLERANCE = 1e-4  # largest difference, relative to the largest value of the output


def export_model(
    config: str,
    checkpoint: str,
    file: str,
    *,
    dynamic: bool = False,
    size: tuple[int, int] | None = None,
    features: bool = False,
    options: Mapping[str, Any] | None = None,
) -> list[str]:
    """Export a checkpoint and compare the file with PyTorch.

    An existing file is replaced only if the new one agrees. Returns lines about the file for the
    user.

    Args:
        config, checkpoint: files of the model; every key of the checkpoint must fit.
        file: path to write.
        dynamic: leave height and width open; `size` is then only an example.
        size: (H, W) of the images, by default the backbone's `img_size` or the usual size of the
            task.
        features: export the maps of backbone and neck instead of the task's predictions.
        options: dotted keys and values that replace those of the config.

    Raises:
        ExportError: the model cannot be exported, or the file differs from PyTorch.
        CheckpointError: the checkpoint does not fit.
    """
    check_file(file)
    cfg = load_config(config, options)
    require_parts(cfg, 'model')
    model, classes = _load(cfg, checkpoint)
    bands = image_bands(model)
    if bands != 3:
        raise ExportError(
            'model.backbone.in_channels: expected 3 bands, whose norms are in the graph, got'
            f' {bands}.'
            ' Use PyTorch.'
        )
    module = wrap(model, features).eval()
    metadata = dict(
        task=module.task,
        config=Path(cfg.filename).name,
        classes=list(classes),
        size=list(size or image_shape(cfg)),
        sides=list(side_range(module)) if dynamic else None,
        inputs=list(module.inputs),
        outputs=list(module.outputs),
        input='RGB, 0 to 255, float32; normalised in the graph',
        mean=module.mean.flatten().tolist(),
        std=module.std.flatten().tolist(),
    )
    with atomic_write(file) as written:
        write(module, written, metadata)
        exported = OnnxFile(written)
        errors = {}
        for size in _sizes(metadata):
            errors[size] = compare(file, module, exported=exported, size=size)
    sides = 'sides from {} to {}'.format(*metadata['sides']) if dynamic else 'fixed size'
    lines = [
        f'{file}: {module.task}, {"x".join(map(str, metadata["size"]))}, {sides}',
        f'  in: {", ".join(module.inputs)}, RGB 0-255, float32; out: {", ".join(module.outputs)}',
    ]
    for (height, width), error in errors.items():
        lines.append(
            f'  {height}x{width}: differs from PyTorch by {error:.1e} of the largest value'
        )
    return lines


def _load(cfg: Config, checkpoint: str) -> tuple[nn.Module, Sequence[str]]:
    """Return the model with its weights, and the class names if the checkpoint has them."""
    model = revert_sync_batchnorm(build_model(cfg))
    content = read_checkpoint(checkpoint, 'cpu')
    load_weights(model, content, checkpoint)
    meta = content.get('meta')
    if not isinstance(meta, dict):
        return model, ()
    return model, (meta.get('dataset_meta') or {}).get('classes') or ()


def _sizes(metadata: dict[str, Any]) -> list[tuple[int, int]]:
    """Return the sizes of the comparison.

    These are the exported one and, if sizes are open, an odd and a wide size.
    """
    height, width = metadata['size']
    if not metadata['sides']:
        return [(height, width)]
    least = metadata['sides'][0]
    odd_height = max(height * 3 // 4 | 1, least)
    odd_width = max(width * 5 // 4 | 1, least)
    return [(height, width), (odd_height, odd_width), (height, 2 * width)]


def compare(
    name: str,
    module: ExportedModel,
    exported: Callable[..., Mapping[str, np.ndarray]],
    size: tuple[int, int],
) -> float:
    """Return the largest difference between a file and PyTorch over all outputs.

    It is relative to the largest value. Both run on noise.

    Raises:
        ExportError: the difference is above the tolerance and above four times the one between
            PyTorch's float32 and float64, which is large for large scores.
    """
    images = random_images(module, size)
    tensors = [torch.from_numpy(image) for image in images]
    expected = _run(module, tensors)
    error = _difference(exported(*images), expected)
    # A comparison with NaN is false, which must be an error.
    if not error <= TOLERANCE:
        exact = _run(copy.deepcopy(module).double(), [tensor.double() for tensor in tensors])
        if not error <= 4 * _difference(expected, exact):
            raise ExportError(
                f'{name}: expected a difference from PyTorch of at most {TOLERANCE} of the largest'
                f' value at {size[0]}x{size[1]}, got {error:.1e}. Use PyTorch.'
            )
    return error


@torch.no_grad()
def _run(module: ExportedModel, tensors: Sequence[Tensor]) -> dict[str, np.ndarray]:
    outputs = [output.numpy() for output in module(*tensors)]
    return dict(zip(module.outputs, outputs, strict=True))


def _difference(outputs: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> float:
    """Return the largest difference of all outputs, NaN if one has NaN."""
    differences = []
    for name, value in expected.items():
        largest = max(np.abs(value).max(), 1e-12)
        differences.append(np.abs(outputs[name] - value).max() / largest)
    return float(np.max(differences))
