"""Inference with exported files on the CPU."""
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mmflatten.export.formats import METADATA, SUFFIX
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


def load_engine(file: str | Path, threads: int | None = None, runtime: str = 'onnxruntime') -> Engine:
    """Load an exported file.

    Args:
        threads: number of CPU threads. The runtime chooses it if it is None.
        runtime: `onnxruntime` or `openvino`.

    Raises:
        ExportError: the file is not one of this project.
        FileNotFoundError: the file does not exist.
    """
    path = Path(file)
    if path.suffix != SUFFIX:
        raise ExportError(f'file: expected the suffix {SUFFIX}, got {path}.')
    if not path.is_file():
        raise FileNotFoundError(f'{path} does not exist. Run mmflatten export first.')
    return (_load_onnxruntime if runtime == 'onnxruntime' else _load_openvino)(path, threads or 0)


def _metadata(path: Path, entries: Mapping[str, str]) -> dict[str, Any]:
    if METADATA not in entries:
        raise ExportError(f'{path}: expected the metadata entry {METADATA!r}, which mmflatten export writes.')
    return json.loads(entries[METADATA])


def _load_onnxruntime(path: Path, threads: int) -> Engine:
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=['CPUExecutionProvider'])
    names = [entry.name for entry in session.get_inputs()]
    return Engine(_metadata(path, session.get_modelmeta().custom_metadata_map),
                  lambda images: session.run(None, dict(zip(names, images))))


def _load_openvino(path: Path, threads: int) -> Engine:
    import onnx
    import openvino
    metadata = _metadata(path, {entry.key: entry.value for entry in onnx.load(path).metadata_props})
    # Some processors use bfloat16 by default.
    settings = dict(INFERENCE_PRECISION_HINT='f32', INFERENCE_NUM_THREADS=threads)
    model = openvino.Core().compile_model(str(path), 'CPU', settings)
    return Engine(metadata, lambda images: [np.array(x) for x in model(list(images)).values()])
