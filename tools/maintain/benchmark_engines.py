"""Measure the latency of tiny classifiers with each backbone in four CPU runtimes.

    python tools/maintain/benchmark_engines.py --threads 2 --size 224

The runtimes are eager PyTorch, torch.compile with frozen weights (requires a C++ compiler), ONNX Runtime and OpenVINO,
with batch size 1, float32 and random weights. docs/export.md has the results.
"""
import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line
from mmflatten.measure.speed.machine import describe_machine, keep_freed_memory, seconds_of_others
from mmflatten.measure.speed.models import ZOO, build_model
from mmflatten.measure.speed.timing import Subject, measure
from mmflatten.text import align

ENGINES = ('eager', 'compile', 'onnxruntime', 'openvino')


def subjects_of(spec: str, size: int, threads: int, folder: Path) -> list[Subject]:
    """Prepare a model in every runtime. Raises ValueError if the outputs differ."""
    import onnxruntime
    import openvino
    from torch._inductor import config as inductor

    torch.manual_seed(0)
    model, image = build_model(spec, (size, size)).eval(), torch.randn(1, 3, size, size)
    file, array = str(folder / 'model.onnx'), image.numpy()
    with torch.no_grad():
        torch.onnx.export(torch.export.export(model, (image,)), dynamo=True, verbose=False).save(file)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(file, options, providers=['CPUExecutionProvider'])
    vino = openvino.Core().compile_model(file, 'CPU', {
        'INFERENCE_PRECISION_HINT': 'f32', 'INFERENCE_NUM_THREADS': threads})
    compiled = torch.compile(model)
    name = session.get_inputs()[0].name

    def in_torch(function: Callable) -> Callable[[], np.ndarray]:
        def call() -> np.ndarray:
            with torch.no_grad(), inductor.patch(freezing=True):
                return function(image).numpy()
        return call

    calls = (in_torch(model), in_torch(compiled), lambda: session.run(None, {name: array})[0],
             lambda: vino(array)[0])
    expected = calls[0]()
    for engine, call in zip(ENGINES[1:], calls[1:]):
        error = np.abs(call() - expected).max() / np.abs(expected).max()
        if not error < 1e-4:
            raise ValueError(f'{engine}: expected the output of eager PyTorch, got a relative error of {error:.1e} '
                             f'with {spec}.')
    return [Subject(engine, call) for engine, call in zip(ENGINES, calls)]


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('names', nargs='*', default=list(ZOO), help=f'one or more of {", ".join(ZOO)} (default: all)')
    parser.add_argument('--threads', type=int, default=2, help='CPU threads (default: 2)')
    parser.add_argument('--size', type=int, default=224, help='image side in pixels (default: 224)')
    parser.add_argument('--seconds', type=float, default=5., help='seconds per model and runtime (default: 5)')
    arguments = parser.parse_args(argv)
    unknown = [name for name in arguments.names if name not in ZOO]
    if unknown:
        parser.error(f'names: expected {", ".join(ZOO)}, got {", ".join(unknown)}')
    return arguments


@command_line
def main(argv: Sequence[str]) -> None:
    arguments = parse_arguments(argv)
    torch.set_num_threads(arguments.threads)
    allocator = keep_freed_memory()
    rows, start, before = [], time.monotonic(), seconds_of_others()
    for name in arguments.names:
        with tempfile.TemporaryDirectory() as folder:
            subjects = subjects_of(ZOO[name], arguments.size, arguments.threads, Path(folder))
            times = np.array(measure(subjects, seconds=arguments.seconds))
        torch.compiler.reset()
        medians, ratios = np.median(times, axis=1), np.median(times[0] / times, axis=1)
        rows.append((name, *(f'{1e3 * median:.1f} ({ratio:.2f})' for median, ratio in zip(medians, ratios))))
        print(align([rows[-1]], ('model', *ENGINES), {0}), file=sys.stderr, flush=True)
    others = (seconds_of_others() - before) / (time.monotonic() - start)
    machine = {**describe_machine('cpu'), 'allocator': allocator, 'CPUs used by others': f'{others:.2f}'}
    print(*(f'{key}: {value}' for key, value in machine.items()), sep='\n')
    print(f'\nmedian ms per image; in brackets, median speed relative to eager in the same round\n\n'
          f'{align(rows, ("model", *ENGINES), {0}, markdown=True)}')


if __name__ == '__main__':
    sys.exit(main())
