"""Exported files to time beside models."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from mmflatten.export.wrappers import ExportError
from mmflatten.measure.speed.models import RunSettings, parse_spec
from mmflatten.measure.speed.timing import Subject
from mmflatten.runtime.files import ModelFile, is_model_file, read_facts


def is_file_spec(spec: str) -> bool:
    """Return True for a file with arguments, such as `model.onnx:runtime=openvino`."""
    return is_model_file(spec.partition(':')[0])


def size_of_file(spec: str) -> tuple[int, int]:
    """Return the (H, W) that a file was exported at."""
    return read_facts(spec.partition(':')[0]).size


def file_subject(spec: str, settings: RunSettings) -> Subject:
    """Open a file and prepare it for timing on noise.

    Args:
        spec: path of the file, perhaps with a runtime, such as `model.onnx:runtime=openvino`.
        settings: batch and size of the images. Files are only run forward, on the CPU, in their
            own precision.

    Raises:
        ExportError: the file cannot be used, or not with the settings.
    """
    _require_inference(spec, settings)
    name, arguments = parse_spec(spec)
    unknown = sorted(arguments.keys() - {'runtime'})
    if unknown:
        raise ExportError(f'{spec}: expected the argument runtime, got {", ".join(unknown)}.')
    file = ModelFile(name, **arguments)
    images = noise(file, settings.batch, settings.size)
    file.require_images(images)
    return Subject(
        name=f'{name}, {file.runtime}',
        call=partial(file, *images),
        batch=settings.batch,
        params=count_stored_values(name),
        dtype=file.facts.precision,
        in_pytorch=False,
    )


def noise(file: ModelFile, batch: int, size: tuple[int, int]) -> tuple[np.ndarray, ...]:
    """Return noise for each input of a file, always the same."""
    generator = np.random.default_rng(0)
    shape = (batch, len(file.facts.mean), *size)
    return tuple(generator.uniform(0, 255, shape).astype(np.float32) for _ in file.facts.inputs)


def count_stored_values(file: str) -> int:
    """Return the number of values in the stored tensors of a file: parameters and constants."""
    import onnx

    model: Any = onnx.load(file, load_external_data=False)
    return sum(math.prod(tensor.dims) for tensor in model.graph.initializer)


def _require_inference(spec: str, settings: RunSettings) -> None:
    wrong = {
        '--train': settings.train,
        '--compile': settings.compile is not None,
        '--device': settings.device != 'cpu',
        '--dtype': settings.dtype != 'fp32',
    }
    for option, is_wrong in wrong.items():
        if is_wrong:
            raise ExportError(
                f'{option}: exported files are run forward on the CPU, in their own precision, got'
                f' {spec}. Omit the option or the file.'
            )
