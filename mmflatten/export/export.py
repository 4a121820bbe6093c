"""Export of a trained model, compared with PyTorch before the file is kept."""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    """Export a checkpoint and compare the file with PyTorch. An existing file is replaced only if
    the new one agrees.

    Returns lines about the file for the user.

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
        errors = {size: compare(file, module, exported, size) for size in _sizes(metadata)}
    sides = (
        f'sides from {metadata["sides"][0]} to {metadata["sides"][1]}' if dynamic else 'fixed size'
    )
    lines = [
        f'{file}: {module.task}, {"x".join(map(str, metadata["size"]))}, {sides}',
        f'  in: {", ".join(module.inputs)}, RGB 0-255, float32; out: {", ".join(module.outputs)}',
    ]
    return lines + [
        f'  {height}x{width}: differs from PyTorch by {error:.1e} of the largest value'
        for (height, width), error in errors.items()
    ]


def _load(cfg: Config, checkpoint: str) -> tuple[nn.Module, Sequence[str]]:
    """Return the model with its weights, and the class names if the checkpoint has them."""
    model = revert_sync_batchnorm(build_model(cfg))
    content = read_checkpoint(checkpoint, 'cpu')
    load_weights(model, content, checkpoint)
    meta = content.get('meta') if isinstance(content.get('meta'), dict) else {}
    return model, (meta.get('dataset_meta') or {}).get('classes') or ()


def _sizes(metadata: dict[str, Any]) -> list[tuple[int, int]]:
    """Return the sizes of the comparison: the exported one and, if sizes are open, an odd and a
    wide size.
    """
    height, width = metadata['size']
    if not metadata['sides']:
        return [(height, width)]
    least = metadata['sides'][0]
    odd = max(height * 3 // 4 | 1, least), max(width * 5 // 4 | 1, least)
    return [(height, width), odd, (height, 2 * width)]


def compare(
    name: str,
    module: ExportedModel,
    exported: Callable[..., Mapping[str, np.ndarray]],
    size: tuple[int, int],
) -> float:
    """Return the largest difference between a file and PyTorch over all outputs, relative to the
    largest value.

    Both run on noise. Raises ExportError if the difference is above the tolerance and above four
    times the one between PyTorch's float32 and float64, which is large for large scores.
    """
    images = random_images(module, size)
    tensors = tuple(map(torch.from_numpy, images))

    def run(module: ExportedModel, tensors: Iterable[Tensor]) -> dict[str, np.ndarray]:
        with torch.no_grad():
            return {
                name: x.numpy() for name, x in zip(module.outputs, module(*tensors), strict=True)
            }

    def error_of(outputs: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> float:
        return float(
            np.max(
                [
                    np.abs(outputs[name] - value).max() / max(np.abs(value).max(), 1e-12)
                    for name, value in expected.items()
                ]
            )
        )

    expected = run(module, tensors)
    error = error_of(exported(*images), expected)
    if not error <= TOLERANCE:
        exact = run(copy.deepcopy(module).double(), (tensor.double() for tensor in tensors))
        if not error <= 4 * error_of(expected, exact):
            raise ExportError(
                f'{name}: expected a difference from PyTorch of at most {TOLERANCE} of the largest '
                f'value at {size[0]}x{size[1]}, got {error:.1e}. Use PyTorch.'
            )
    return error
