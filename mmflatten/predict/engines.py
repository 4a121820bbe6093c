"""Other runtimes for a model's backbone, where most of the time goes; the rest of the model stays PyTorch's."""
from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

from mmflatten.export.engines import Engine, load_engine
from mmflatten.export.export import agrees, difference, random_images
from mmflatten.export.formats import SUFFIXES, WRITERS, side_range, trace
from mmflatten.export.wrappers import ExportedBackbone, ExportError

ENGINES = ('eager', 'compile', 'onnxruntime', 'openvino', 'auto')
_FORMATS = dict(onnxruntime='onnx', openvino='openvino')
_EXAMPLE = 64  # side of the image that the graph is traced with; any other may follow


class EngineBackbone(nn.Module):
    """A backbone that runs in another runtime, image after image, on the CPU and without gradients."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, ...]:
        images = [list(self.engine(image[None].numpy()).values()) for image in x_BCHW]
        return tuple(torch.cat([torch.from_numpy(maps[level]) for maps in images]) for level in range(len(images[0])))


def installed(device: str) -> str:
    """What `auto` means: on a CPU OpenVINO, else ONNX Runtime, where installed.

    Both take every size as it comes; docs/export.md has the times.
    """
    if device != 'cpu':
        return 'eager'
    return next((name for name in ('openvino', 'onnxruntime') if importlib.util.find_spec(name)), 'eager')


def use_engine(model: nn.Module, engine: str, device: str) -> None:
    """Let the backbone of a model run elsewhere; the results are compared with PyTorch's first.

    Args:
        engine: one of `ENGINES`; `compile` is `torch.compile`, anew for each of the first sizes, then eager.

    Raises:
        ExportError: the model has no backbone, the runtime is missing or no CPU is used, or the results differ.
        ValueError: there is no such engine.
    """
    if engine not in ENGINES:
        raise ValueError(f'engine ({engine}) must be one of {", ".join(ENGINES)}')
    if engine == 'auto':
        engine = installed(device) if hasattr(model, 'backbone') else 'eager'
    if engine == 'eager':
        return
    if not hasattr(model, 'backbone'):
        raise ExportError(f'engine ({engine}) runs the backbone, and {type(model).__name__} has none; take eager')
    if engine == 'compile':
        # Open sizes: code that PyTorch 2.12 made of FLattenSwin for a CPU corrupted the heap ("double free").
        model.backbone = torch.compile(model.backbone, dynamic=False)
        return
    if device != 'cpu':
        raise ExportError(f'engine ({engine}) runs on the CPU, not on {device}; take compile or eager')
    missing = [name for name in ('onnx', 'onnxscript', engine) if importlib.util.find_spec(name) is None]
    if missing:
        raise ExportError(f'engine ({engine}) requires {", ".join(missing)}: pip install {" ".join(missing)}')
    model.backbone = EngineBackbone(_converted(ExportedBackbone(model).eval(), engine))


def _converted(module: ExportedBackbone, engine: str) -> Engine:
    size = (max(_EXAMPLE, side_range(module)[0]),) * 2
    metadata = dict(task=module.task, size=list(size), sides=list(side_range(module)), outputs=list(module.outputs))
    images = random_images(module, size)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f'backbone{SUFFIXES[_FORMATS[engine]]}')
        WRITERS[_FORMATS[engine]](trace(module, tuple(map(torch.from_numpy, images)), True), file, module, metadata)
        loaded = load_engine(file, torch.get_num_threads())
    error = difference(module, loaded, images)
    if not agrees(module, size, error):
        raise ExportError(f'engine ({engine}) differs from PyTorch by {error:.1e} of the largest value; take eager')
    return loaded
