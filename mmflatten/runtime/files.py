"""Exported files, run by ONNX Runtime or OpenVINO on the CPU."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mmflatten.console import error_text
from mmflatten.export.metadata import read_metadata
from mmflatten.export.onnx_files import SUFFIX
from mmflatten.export.openvino_core import openvino_core
from mmflatten.export.wrappers import ExportError
from mmflatten.runtime import ONNX_RUNTIME, OPENVINO, RUNTIMES
from mmflatten.untrusted.exported import ExportedFacts
from mmflatten.untrusted.published import HubError, checked


def is_model_file(name: object) -> bool:
    """Return True for the name of an exported file."""
    return isinstance(name, (str, Path)) and Path(name).suffix == SUFFIX


def read_facts(file: str | Path) -> ExportedFacts:
    """Read and check the metadata of an exported file.

    Raises:
        ExportError: the file was not written by this version of `mmflatten export`, or a field is
            missing or out of its bounds.
    """
    _require_package('onnx')
    try:
        return checked(ExportedFacts, read_metadata(file), str(file), fix='Export the model again.')
    except HubError as error:
        raise ExportError(str(error)) from error


class ModelFile:
    """An exported file in a runtime.

    Called with RGB images `(B, 3, H, W)`, float32 from 0 to 255, one array for each input, it
    returns arrays by name. A file with `facts.bands` takes all bands `(B, C, H, W)` as they are in
    an image.

    Args:
        file: file of `mmflatten export`.
        runtime: `onnxruntime` or `openvino`. Default: ONNX Runtime, and OpenVINO for files of
            bfloat16.
        threads: number of CPU threads, by default as many as PyTorch uses.

    Attributes:
        facts: what the metadata state.
        runtime: the runtime in use.

    Raises:
        ExportError: the file cannot be used, the runtime is missing, or it cannot run the file.
    """

    def __init__(
        self, file: str | Path, runtime: str | None = None, threads: int | None = None
    ) -> None:
        self.file = str(file)
        self.facts = read_facts(file)
        self.runtime = _runtime_for(self.file, self.facts.precision, runtime)
        threads = threads or torch.get_num_threads()
        try:
            if self.runtime == OPENVINO:
                self._engine = _openvino_engine(self.file, self.facts.precision, threads)
            else:
                self._engine = _onnxruntime_engine(self.file, threads)
        except ExportError:
            raise
        except Exception as error:  # ONNX Runtime's errors have no other base class
            raise ExportError(
                f'{file}: {self.runtime} cannot read it: {error_text(error)[:300]}. Export the'
                ' model again.'
            ) from error

    def __call__(self, *images: np.ndarray) -> dict[str, np.ndarray]:
        """Run the file.

        Raises:
            ExportError: it does not take the number, type or size of the images.
        """
        self.require_images(images)
        outputs = self._engine(images)
        if len(outputs) != len(self.facts.outputs):
            raise ExportError(
                f'{self.file}: outputs: expected {", ".join(self.facts.outputs)}, got'
                f' {len(outputs)} arrays. Export the model again.'
            )
        return dict(zip(self.facts.outputs, outputs))

    def require_images(self, images: Sequence[np.ndarray]) -> None:
        """Raise ExportError if the file does not take the images."""
        names = self.facts.inputs
        if len(images) != len(names):
            raise ExportError(
                f'{self.file}: expected {len(names)} inputs ({", ".join(names)}), got'
                f' {len(images)}. Pass one array for each.'
            )
        for name, image in zip(names, images):
            channels = len(self.facts.mean)
            is_batch = image.ndim == 4 and image.shape[1] == channels
            if not is_batch or image.dtype != np.float32:
                raise ExportError(
                    f'{name}: expected shape (B, {channels}, H, W) and dtype float32, got shape'
                    f' {image.shape} and dtype {image.dtype}. Convert it.'
                )
            if image.shape != images[0].shape:
                raise ExportError(
                    f'{name}: expected the shape of {names[0]}, {images[0].shape}, got'
                    f' {image.shape}. Use images of one size.'
                )
        self._require_batch(len(images[0]))
        self._require_size(images[0].shape[2:])

    def _require_batch(self, batch: int) -> None:
        least, most = self.facts.batch or (1, 1)
        if least <= batch <= most:
            return
        expected, fix = f'{least} to {most} images', 'Use smaller batches.'
        if self.facts.batch is None:
            expected = '1 image'
            fix = 'Pass one image at a time, or export the model with --dynamic.'
        raise ExportError(f'batch: {self.file} takes {expected}, got {batch}. {fix}')

    def _require_size(self, size: Sequence[int]) -> None:
        height, width = size
        if self.facts.sides is None:
            if tuple(size) != self.facts.size:
                raise ExportError(
                    f'size: {self.file} takes images of {_size_text(self.facts.size)} pixels, got'
                    f' {_size_text(size)}. Resize them, or export the model with --dynamic.'
                )
            return
        least, most = self.facts.sides
        if not (least <= height <= most and least <= width <= most):
            raise ExportError(
                f'size: {self.file} takes sides of {least} to {most} pixels, got'
                f' {_size_text(size)}. Resize the image.'
            )


def _size_text(size: Sequence[int]) -> str:
    return f'{size[0]} x {size[1]}'


def _runtime_for(file: str, precision: str, runtime: str | None) -> str:
    """Return the runtime to use, by default that of the file's precision."""
    default = OPENVINO if precision == 'bfloat16' else ONNX_RUNTIME
    chosen = runtime or default
    if chosen not in RUNTIMES:
        raise ExportError(
            f'runtime: expected one of {", ".join(RUNTIMES)}, got {chosen}. Correct it.'
        )
    if precision == 'bfloat16' and chosen != OPENVINO:
        raise ExportError(
            f'runtime: {file} is a file of bfloat16, which requires {OPENVINO}, got {chosen}. Use'
            f' {OPENVINO}, or export the model in float32.'
        )
    _require_package(chosen)
    return chosen


def _require_package(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        raise ExportError(f'{name}: required to run exported files. Run pip install {name}.')


def _onnxruntime_engine(file: str, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(file, options, providers=['CPUExecutionProvider'])
    names = [entry.name for entry in session.get_inputs()]

    def run(images: Sequence[np.ndarray]) -> list[np.ndarray]:
        return session.run(None, dict(zip(names, images)))

    return run


def _openvino_engine(file: str, precision: str, threads: int) -> Any:
    core = openvino_core()
    hint = 'f32'  # otherwise OpenVINO uses bfloat16 on processors that have it
    if precision == 'bfloat16':
        abilities = core.get_property('CPU', 'OPTIMIZATION_CAPABILITIES')
        if 'BF16' not in abilities:
            raise ExportError(
                f'precision: {file} requires a processor with bfloat16, got one with'
                f' {", ".join(abilities)}. Export the model in float32 or int8.'
            )
        hint = 'bf16'
    settings = dict(INFERENCE_PRECISION_HINT=hint, INFERENCE_NUM_THREADS=threads)
    model = core.compile_model(file, 'CPU', settings)

    def run(images: Sequence[np.ndarray]) -> list[np.ndarray]:
        # The results are views of memory that the next call overwrites.
        return [np.array(value) for value in model(list(images)).values()]

    return run
