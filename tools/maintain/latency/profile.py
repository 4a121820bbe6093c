"""Shares of the time that a runtime spends in each kind of operator, by the runtime's profiler."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from latency.cell import image_of
from mmflatten.export.openvino_core import openvino_core

NUM_CALLS = 3
NUM_WARM = 2


def profile(file: Path, image: np.ndarray, runtime: str, threads: int) -> dict[str, float]:
    """Return the share of each kind of operator in the time of a call, the largest first."""
    times = _onnxruntime if runtime == 'onnxruntime' else _openvino
    total = times(str(file), image, threads)
    whole = sum(total.values())
    return {kind: time / whole for kind, time in total.most_common()}


def _onnxruntime(file: str, image: np.ndarray, threads: int) -> Counter[str]:
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / 'profile')
        session = onnxruntime.InferenceSession(file, options, providers=['CPUExecutionProvider'])
        for _ in range(NUM_WARM + NUM_CALLS):
            session.run(None, {session.get_inputs()[0].name: image})
        events = json.loads(Path(session.end_profiling()).read_text())
    # An event of each operator in each call, in order.
    kernels = [event for event in events if event['name'].endswith('_kernel_time')]
    total: Counter[str] = Counter()
    for event in kernels[len(kernels) * NUM_WARM // (NUM_WARM + NUM_CALLS) :]:
        total[event['args']['op_name']] += event['dur']
    return total


def _openvino(file: str, image: np.ndarray, threads: int) -> Counter[str]:
    settings = dict(INFERENCE_PRECISION_HINT='f32', INFERENCE_NUM_THREADS=threads, PERF_COUNT='YES')
    request = openvino_core().compile_model(file, 'CPU', settings).create_infer_request()
    total: Counter[str] = Counter()
    for number in range(NUM_WARM + NUM_CALLS):
        request.infer([image])
        if number < NUM_WARM:
            continue
        for entry in request.profiling_info:
            total[entry.node_type] += entry.real_time.total_seconds()
    return total


def main() -> None:
    """Run one request, JSON in the first argument, and print the shares as the last line."""
    request: dict[str, Any] = json.loads(sys.argv[1])
    folder = Path(request['folder'])
    cell = request['cell']
    image = image_of(folder, cell['size'])
    file = folder / f'{cell["precision"]}.onnx'
    print(json.dumps(profile(file, image, cell['runtime'], request['threads'])))


if __name__ == '__main__':
    main()
