"""Preparation of the files of a model, and the measurement of one row in a process of its own."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from latency.rows import MODELS, SIZES, Cell, all_cells, is_prepared
from mmflatten.checkpoints.run_files import atomic_write
from mmflatten.config import build_model
from mmflatten.datasets.scenes.build import SceneOptions, build_scenes
from mmflatten.datasets.storage import read_rgb
from mmflatten.engine.setup import load_config
from mmflatten.export.comparison import Case, run
from mmflatten.export.metadata import describe
from mmflatten.export.onnx_files import write
from mmflatten.export.precision import quantise, write_metadata
from mmflatten.export.wrappers import ExportedModel, wrap
from mmflatten.measure.speed.machine import cpuinfo
from mmflatten.measure.speed.models import RunSettings, make_call
from mmflatten.measure.speed.timing import Subject, measure
from mmflatten.runtime.files import ModelFile

ROOT = Path(__file__).resolve().parents[3]
CALIBRATION_SIZE = 640
CALIBRATION_IMAGES = 8
# Random weights give each class of 80 a probability of about 1/80, which is below the threshold of
# Mask R-CNN. With this deviation a few classes of each region are above it, and 100 boxes remain.
CLASS_DEVIATION = 0.1
STATUS = Path('/proc/self/status')
RESET_PEAK = Path('/proc/self/clear_refs')
BOOT_ID = Path('/proc/sys/kernel/random/boot_id')


def build(model: str, head: str) -> tuple[Any, ExportedModel]:
    """Build a model with random weights, always the same. Returns its config and module."""
    configs, changes = MODELS[model]
    options: dict[str, Any] = {'model.backbone.init_cfg': None}
    options.update(changes.get('', {}))
    options.update(changes.get(head, {}))
    cfg = load_config(str(ROOT / 'configs' / f'{configs[head]}.py'), options)
    torch.manual_seed(0)
    network = build_model(cfg)
    network.init_weights()
    if head == 'mask-rcnn':
        nn.init.normal_(network.roi_head.bbox_head.fc_cls.weight, std=CLASS_DEVIATION)
    return cfg, wrap(network.eval()).eval()


def prepare(model: str, head: str, folder: Path) -> None:
    """Write what the rows of a model and a head share, unless it is there.

    These are `float32.onnx`, `int8.onnx` and `bfloat16.onnx` with open sizes, and PyTorch's results
    on the image of each size, `SIZE.npz`. Each is written on its own, so that the next call
    continues an interrupted one; `int8.onnx`, which takes longest, is the last.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if all(is_prepared(folder, cell) for cell in all_cells([model], [head])):
        return
    cfg, module = build(model, head)
    for size in SIZES:
        with missing_file(folder / f'{size}.npz') as partial:
            if partial is not None:
                np.savez(partial, **run(module, Case('', (image_of(folder, size),))))
    metadata = describe(module, cfg, {}, size=(SIZES[0], SIZES[0]), dynamic=True)
    source = folder / 'float32.onnx'
    with missing_file(source) as partial:
        if partial is not None:
            write(module, partial, metadata)
    with missing_file(folder / 'bfloat16.onnx') as partial:
        if partial is not None:
            partial.write_bytes(source.read_bytes())
            write_metadata(partial, dict(metadata, precision='bfloat16'))
    with missing_file(folder / 'int8.onnx') as partial:
        if partial is not None:
            images = calibration_images(folder)
            quantise(source, partial, images, dict(metadata, precision='int8'))


@contextlib.contextmanager
def missing_file(file: Path) -> Iterator[Path | None]:
    """Yield the path to write a file to, None if the file is there."""
    if file.is_file():
        yield None
        return
    with atomic_write(file) as partial:
        yield partial


def image_of(folder: Path, size: int) -> np.ndarray:
    """Return a digit scene as an image `(1, 3, size, size)`, 0 to 255."""
    return _scenes(folder, size, 1)[0]


def calibration_images(folder: Path) -> list[Case]:
    images = _scenes(folder, CALIBRATION_SIZE, CALIBRATION_IMAGES)
    return [Case('', (image,)) for image in images]


def _scenes(folder: Path, size: int, number: int) -> list[np.ndarray]:
    root = folder.parent / f'scenes-{size}-{number}'
    if not root.is_dir():
        build_scenes(root, SceneOptions(train=number, val=1, size=size, seed=0))
    files = sorted((root / 'images' / 'training').iterdir())
    images = []
    for file in files[:number]:
        pixels = read_rgb(str(file)).astype(np.float32)
        images.append(np.ascontiguousarray(pixels.transpose(2, 0, 1)[None]))
    return images


def measure_cell(cell: Cell, folder: Path, threads: int, seconds: float) -> dict[str, Any]:
    """Measure one row. The process must be a new one, because its memory is measured."""
    torch.set_num_threads(threads)
    image = image_of(folder, cell.size)
    before = memory('VmRSS')
    call, size_mb = _subject(cell, folder, image, threads)
    outputs = call()
    call()
    RESET_PEAK.write_text('5')
    call()
    peak = memory('VmHWM')
    (times,) = measure([Subject(cell.model, call)], seconds=seconds)
    q1, median, q3 = np.quantile(times, (0.25, 0.5, 0.75)) * 1e3
    return dict(
        median_ms=round(median, 2),
        q1_ms=round(q1, 2),
        q3_ms=round(q3, 2),
        rounds=len(times),
        memory_mib=round((peak - before) / 1024, 1),
        file_mb=round(size_mb, 1),
        drift=drift_of(cell, folder, outputs),
        detections=int((outputs['labels'] >= 0).sum()) if 'labels' in outputs else '',
        processor=cpuinfo().get('model name', 'unknown'),
        threads=threads,
        versions=versions(),
        boot=BOOT_ID.read_text()[:8],
    )


def _subject(
    cell: Cell, folder: Path, image: np.ndarray, threads: int
) -> tuple[Callable[[], Mapping[str, np.ndarray]], float]:
    """Return a call of the model, and the size of its file or weights in MB."""
    if cell.runtime in ('onnxruntime', 'openvino'):
        path = folder / f'{cell.precision}.onnx'
        file = ModelFile(path, cell.runtime, threads)
        return lambda: file(image), path.stat().st_size / 1e6
    _, module = build(cell.model, cell.head)
    settings = RunSettings(
        batch=1,
        size=(cell.size, cell.size),
        dtype='bf16' if cell.precision == 'bfloat16' else 'fp32',
        compile='inductor' if cell.runtime == 'compiled' else None,
    )
    if settings.compile is not None:
        import torch._inductor.config as inductor

        inductor.freezing = True  # as in `mmflatten benchmark`
    call = make_call(
        model=module, forward=module, inputs=torch.from_numpy(image), settings=settings
    )

    def outputs() -> dict[str, np.ndarray]:
        values = [_array(value) for value in call()]
        return dict(zip(module.outputs, values, strict=True))

    size = sum(value.numel() * value.element_size() for value in module.state_dict().values())
    return outputs, size / 1e6


def _array(value: torch.Tensor) -> np.ndarray:
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()


def drift_of(cell: Cell, folder: Path, outputs: Mapping[str, np.ndarray]) -> float:
    """Return the mean difference from PyTorch's float32, by the comparison of the export."""
    _, module = build(cell.model, cell.head)
    with np.load(folder / f'{cell.size}.npz') as expected:
        errors = module.errors(outputs, dict(expected))
    return float(f'{errors.mean():.3g}') if errors.size else 0.0


def memory(field: str) -> int:
    """Return a field of `/proc/self/status` in KiB, such as the resident memory `VmRSS`."""
    for line in STATUS.read_text().splitlines():
        if line.startswith(f'{field}:'):
            return int(line.split()[1])
    raise ValueError(f'{STATUS}: expected the field {field}, got none.')


def versions() -> str:
    packages = ('torch', 'onnxruntime', 'openvino')
    return ', '.join(f'{package} {version(package)}' for package in packages)


def main() -> None:
    """Run one request, JSON in the first argument, and print the result as the last line."""
    request = json.loads(sys.argv[1])
    folder = Path(request['folder'])
    if request['cell'] is None:
        prepare(request['model'], request['head'], folder)
        result: dict[str, Any] = {}
    else:
        cell = Cell(**request['cell'])
        result = measure_cell(cell, folder, request['threads'], request['seconds'])
    print(json.dumps(result))


if __name__ == '__main__':
    main()
