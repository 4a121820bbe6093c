"""Running of exported files on the CPU."""
from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mmflatten.export.formats import METADATA, SUFFIXES, metadata_file, read_metadata
from mmflatten.export.wrappers import ExportError


@dataclass(frozen=True)
class Engine:
    """A loaded file, called with RGB images `(1, 3, H, W)` of 0 to 255, float32; returns the results by name.

    Attributes:
        metadata: task, classes, size, range of sizes, normalisation and, for detectors, `test_cfg`.
        run: arrays to arrays, in the order of `metadata['outputs']`.
    """

    metadata: dict[str, Any]
    run: Callable[[tuple[np.ndarray, ...]], list[np.ndarray]]

    def __call__(self, *images: np.ndarray) -> dict[str, np.ndarray]:
        height, width = images[0].shape[-2:]
        least, most = self.metadata['sides'] or (0, 0)
        if self.metadata['sides'] is None and [height, width] != self.metadata['size']:
            raise ExportError(f'image ({height}x{width}) must have the size that was exported, '
                              f'{"x".join(map(str, self.metadata["size"]))}; --dynamic leaves it open')
        if self.metadata['sides'] and not (least <= min(height, width) and max(height, width) <= most):
            raise ExportError(f'image ({height}x{width}): each side must lie between {least} and {most}')
        return dict(zip(self.metadata['outputs'], self.run(images), strict=True))


def load_engine(file: str | Path, threads: int | None = None) -> Engine:
    """Load an exported file, whose suffix tells the format.

    Args:
        file: load only files of your own or of people you trust.
        threads: CPU threads; the runtime's own choice by default. For pt2 and TorchScript those of PyTorch.

    Raises:
        ExportError: another suffix, or a file without metadata of this project.
        FileNotFoundError: there is no such file.
    """
    path = Path(file)
    loader = {'.onnx': _onnx, '.xml': _openvino, '.pt2': _pt2, '.pt': _torchscript}.get(path.suffix)
    if loader is None:
        raise ExportError(f'{path} must end with one of {", ".join(SUFFIXES.values())}')
    if not path.is_file():
        raise FileNotFoundError(f'{path} does not exist; export it first')
    return loader(path, threads)


def _onnx(path: Path, threads: int | None) -> Engine:
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if threads:
        options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=['CPUExecutionProvider'])
    names = [entry.name for entry in session.get_inputs()]
    metadata = session.get_modelmeta().custom_metadata_map.get(METADATA)
    if metadata is None:
        raise ExportError(f'{path} has no metadata {METADATA!r}; it was not exported by this project')
    return Engine(json.loads(metadata), lambda images: session.run(None, dict(zip(names, images))))


def _openvino(path: Path, threads: int | None) -> Engine:
    import openvino
    # Some processors would compute in bfloat16 otherwise.
    settings = {'INFERENCE_PRECISION_HINT': 'f32', **({'INFERENCE_NUM_THREADS': threads} if threads else {})}
    model = openvino.Core().compile_model(str(path), 'CPU', settings)
    return Engine(_beside(path), lambda images: [np.array(x) for x in model(list(images)).values()])


def _pt2(path: Path, threads: int | None) -> Engine:
    return _torch_engine(torch.export.load(str(path)).module(), path, threads)


def _torchscript(path: Path, threads: int | None) -> Engine:
    return _torch_engine(torch.jit.load(str(path)), path, threads)


def _torch_engine(module: Callable, path: Path, threads: int | None) -> Engine:
    if threads:
        torch.set_num_threads(threads)

    @torch.inference_mode()
    def run(images: tuple[np.ndarray, ...]) -> list[np.ndarray]:
        return [x.numpy() for x in module(*map(torch.from_numpy, images))]

    return Engine(_beside(path), run)


def _beside(path: Path) -> dict[str, Any]:
    metadata = read_metadata(metadata_file(path)) or read_metadata(path.with_suffix('.json'))  # the older name
    if metadata is None:
        raise ExportError(f'{metadata_file(path)} is missing or damaged; it belongs to {path}')
    return metadata
