"""ONNX files: written by `torch.export`, and run by ONNX Runtime on the CPU."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import Dim, ExportedProgram

from mmflatten.console import error_text
from mmflatten.export.wrappers import ExportedModel, ExportError

SUFFIX = '.onnx'
PACKAGES = ('onnx', 'onnxscript', 'onnxruntime')
METADATA = 'mmflatten'  # key in the metadata of the file
LARGEST_SIDE = 4096
LARGEST_BATCH = 256
# Bytes of weights. PyTorch stores more beside the file, which holds at most 2 GiB.
MOST_BYTES = 1536 * 2**20


class OnnxFile:
    """An exported file.

    Called with images as `ExportedModel` takes them, it returns arrays by name.

    Attributes:
        metadata: facts about the file, see docs/export.md.
    """

    def __init__(self, file: str | Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(
            str(file), options, providers=['CPUExecutionProvider']
        )
        text = self.session.get_modelmeta().custom_metadata_map[METADATA]
        self.metadata: dict[str, Any] = json.loads(text)

    def __call__(self, *images: np.ndarray) -> dict[str, np.ndarray]:
        names = [entry.name for entry in self.session.get_inputs()]
        outputs = self.session.run(None, dict(zip(names, images)))
        return dict(zip(self.metadata['outputs'], outputs, strict=True))


def check_file(file: str | Path) -> None:
    """Raise ExportError if a file cannot be written, or a package is missing."""
    if Path(file).suffix != SUFFIX:
        raise ExportError(f'file: expected the suffix {SUFFIX}, got {file}.')
    if not Path(file).absolute().parent.is_dir():
        raise ExportError(f'file: the folder {Path(file).parent} does not exist. Create it first.')
    missing = [package for package in PACKAGES if importlib.util.find_spec(package) is None]
    if missing:
        raise ExportError(
            f'export requires {", ".join(missing)}. Run pip install {" ".join(PACKAGES)}.'
        )


def side_range(module: ExportedModel) -> tuple[int, int]:
    """Return the smallest and largest side of an image with open sizes.

    The coarsest map needs two rows and two columns.
    """
    return module.stride + 1, LARGEST_SIDE


def batch_range(module: ExportedModel) -> tuple[int, int] | None:
    """Return the smallest and largest batch of a file with open sizes, None if it is always 1."""
    return (1, LARGEST_BATCH) if module.opens_batch else None


def random_images(
    module: ExportedModel, size: tuple[int, int], batch: int = 1
) -> tuple[np.ndarray, ...]:
    """Return `batch` noise images for each input of the model, always the same."""
    generator = np.random.default_rng(0)
    low, high = (bound.double().numpy() for bound in module.value_range())
    shape = (batch, len(low), *size)
    return tuple(generator.uniform(low, high, shape).astype(np.float32) for _ in module.inputs)


def trace(module: ExportedModel, size: tuple[int, int], dynamic: bool) -> ExportedProgram:
    """Return the graph of a model; `dynamic` leaves the sizes of images and batch open."""
    import torch.fx.experimental._config as symbols

    shapes = None
    batch = 1
    if dynamic:
        least, most = side_range(module)
        sides = {2: Dim('height', min=least, max=most), 3: Dim('width', min=least, max=most)}
        if module.opens_batch:
            batch = 2  # PyTorch would take a batch of 1 for a fixed one
            sides[0] = Dim('batch', min=1, max=LARGEST_BATCH)
        shapes = tuple(sides for _ in module.inputs)
    inputs = tuple(map(torch.from_numpy, random_images(module, size, batch)))
    try:
        # As in torch.onnx: PyTorch's own branches must not test if an open size is 1.
        with torch.no_grad(), symbols.patch(backed_size_oblivious=dynamic):
            return torch.export.export(module, inputs, strict=False, dynamic_shapes=shapes)
    except (
        torch._dynamo.exc.UserError,
        torch.fx.experimental.symbolic_shapes.ConstraintViolationError,
    ) as error:
        sizes = 'open sizes' if dynamic else 'a fixed size'
        raise ExportError(
            f'{type(module.model).__name__}: torch.export failed with {sizes}:'
            f' {error_text(error)[:400]}'
        ) from error


def write(module: ExportedModel, file: str | Path, metadata: dict[str, Any]) -> None:
    """Trace a model at `metadata['size']` and write it as ONNX.

    Raises ExportError if the model is too large for one file or fixes the size, or ONNX does not
    support an operator.
    """
    from onnx_ir.passes.common import ClearMetadataAndDocStringPass

    _require_one_file(module)
    dynamic = metadata['sides'] is not None
    program = trace(module, metadata['size'], dynamic)
    if dynamic and any('fft' in str(node.target) for node in program.graph.nodes):
        raise ExportError(
            '--dynamic: ONNX Runtime does not support Fourier transforms (circulant attention) at'
            f' open sizes, got {type(module.model).__name__}. Omit --dynamic.'
        )
    try:
        with torch.no_grad():  # with gradients, decompositions of weights over open sizes fail
            result = torch.onnx.export(
                program,
                dynamo=True,
                input_names=list(module.inputs),
                output_names=list(module.outputs),
                verbose=False,
                custom_translation_table=module.translations(),
            )
    except torch.onnx.OnnxExporterError as error:
        cause: BaseException = error
        while cause.__cause__ is not None and str(cause.__cause__):
            cause = cause.__cause__
        raise ExportError(
            f'{type(module.model).__name__}: torch.onnx failed: {error_text(cause)[:400]}'
        ) from error
    # The exporter adds lines and paths of the source code to each operator.
    ClearMetadataAndDocStringPass()(result.model)
    result.model.metadata_props[METADATA] = json.dumps(metadata)
    result.save(str(file))


def _require_one_file(module: ExportedModel) -> None:
    number = sum(value.nbytes for value in module.state_dict().values())
    if number > MOST_BYTES:
        raise ExportError(
            f'model: expected at most {MOST_BYTES / 2**30:.1f} GiB of weights, which fit into one'
            f' ONNX file, got {number / 2**30:.1f} GiB. Use the checkpoint, or a smaller model.'
        )
