"""Inference with exported files on the CPU."""
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mmflatten.export.formats import METADATA, SUFFIXES, metadata_file, read_metadata
from mmflatten.export.wrappers import ExportError

Run = Callable[[tuple[np.ndarray, ...]], list[np.ndarray]]


@dataclass(frozen=True)
class Engine:
    """A loaded file. Call it with RGB images `(1, 3, H, W)`, float32 from 0 to 255; it returns arrays by name.

    Attributes:
        metadata: task, classes, size, range of sizes, normalisation, precision and the facts of the task.
        run: function from input arrays to output arrays, in the order of `metadata['outputs']`.
    """

    metadata: dict[str, Any]
    run: Run

    def __call__(self, *images: np.ndarray) -> dict[str, np.ndarray]:
        height, width = images[0].shape[-2:]
        sides, size = self.metadata['sides'], self.metadata['size']
        if sides is None and [height, width] != size:
            raise ExportError(f'image: expected {size[0]}x{size[1]}, the exported size, got {height}x{width}. '
                              'Export with --dynamic for other sizes.')
        if sides and not (sides[0] <= min(height, width) and max(height, width) <= sides[1]):
            raise ExportError(f'image: expected sides from {sides[0]} to {sides[1]}, got {height}x{width}.')
        return dict(zip(self.metadata['outputs'], self.run(images), strict=True))


def load_engine(file: str | Path, threads: int | None = None) -> Engine:
    """Load an exported file that you trust. The suffix determines the format.

    The runtime chooses the number of CPU threads if it is None. For pt2 it sets PyTorch's threads.

    Raises:
        ExportError: the suffix is unknown, or the file has no metadata of this project.
        FileNotFoundError: the file does not exist.
    """
    path = Path(file)
    if path.suffix not in SUFFIXES.values():
        raise ExportError(f'file: expected a suffix {", ".join(SUFFIXES.values())}, got {path}.')
    if not path.is_file():
        raise FileNotFoundError(f'{path} does not exist. Run mmflatten export first.')
    if path.suffix == SUFFIXES['onnx']:
        return _load_onnx(path, threads)
    # The second name is that of earlier versions.
    metadata = read_metadata(metadata_file(path)) or read_metadata(path.with_suffix('.json'))
    if metadata is None:
        raise ExportError(f'{metadata_file(path)}: missing or damaged. It belongs to {path}; export again.')
    load = _load_pt2 if path.suffix == SUFFIXES['pt2'] else _load_openvino
    return Engine(metadata, load(path, threads))


def _load_onnx(path: Path, threads: int | None) -> Engine:
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads or 0  # 0: chosen by the runtime
    session = onnxruntime.InferenceSession(str(path), options, providers=['CPUExecutionProvider'])
    names = [entry.name for entry in session.get_inputs()]
    metadata = session.get_modelmeta().custom_metadata_map.get(METADATA)
    if metadata is None:
        raise ExportError(f'{path}: expected the metadata entry {METADATA!r}, which mmflatten export writes.')
    return Engine(json.loads(metadata), lambda images: session.run(None, dict(zip(names, images))))


def _load_openvino(path: Path, threads: int | None) -> Run:
    import openvino
    # Some processors use bfloat16 by default. 0 threads: chosen by the runtime.
    settings = dict(INFERENCE_PRECISION_HINT='f32', INFERENCE_NUM_THREADS=threads or 0)
    model = openvino.Core().compile_model(str(path), 'CPU', settings)
    return lambda images: [np.array(x) for x in model(list(images)).values()]


def _load_pt2(path: Path, threads: int | None) -> Run:
    import torchvision  # noqa: F401  registers the operators of detectors
    module = torch.export.load(str(path)).module()
    if threads:
        torch.set_num_threads(threads)

    @torch.inference_mode()
    def run(images: tuple[np.ndarray, ...]) -> list[np.ndarray]:
        return [x.numpy() for x in module(*map(torch.from_numpy, images))]

    return run
