"""Writers of the export formats, all based on `torch.export`."""
import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import Dim, ExportedProgram

from mmflatten.console import error_text
from mmflatten.export.wrappers import ExportedModel, ExportError

SUFFIXES = {'onnx': '.onnx', 'openvino': '.xml', 'pt2': '.pt2'}
PACKAGES = {'onnx': ('onnx', 'onnxscript', 'onnxruntime'), 'openvino': ('onnx', 'onnxscript', 'openvino'), 'pt2': ()}
METADATA = 'mmflatten'  # key in the metadata of an ONNX file; the other formats use `metadata_file`
LARGEST_SIDE = 4096


def check_format(name: str, file: str | Path) -> None:
    """Raise ExportError if a format is unknown or lacks a package, or if the file cannot be written."""
    if name == 'torchscript':
        raise ExportError('format: torchscript was removed because PyTorch has deprecated it. Use pt2 (torch.export).')
    if name not in SUFFIXES:
        raise ExportError(f'format: expected one of {", ".join(SUFFIXES)}, got {name!r}.')
    if Path(file).suffix != SUFFIXES[name]:
        raise ExportError(f'file: expected the suffix {SUFFIXES[name]} for format {name}, got {file}.')
    if not Path(file).absolute().parent.is_dir():
        raise ExportError(f'file: the folder {Path(file).parent} does not exist. Create it first.')
    metadata = metadata_file(file)
    if name != 'onnx' and metadata.exists() and read_metadata(metadata) is None:
        raise ExportError(f'file: {metadata} was not written by an export and would be replaced. Move it away.')
    require_packages(f'format: {name}', name)


def require_packages(what: str, format: str) -> None:
    """Raise ExportError, whose message begins with `what`, if packages of a format are missing."""
    missing = [package for package in PACKAGES[format] if importlib.util.find_spec(package) is None]
    if missing:
        raise ExportError(f'{what} requires {", ".join(missing)}. Run pip install {" ".join(PACKAGES[format])}.')


def side_range(module: ExportedModel) -> tuple[int, int]:
    """Smallest and largest side of an image with open sizes; the coarsest map needs two rows and two columns."""
    return module.stride + 1, LARGEST_SIDE


def random_images(module: ExportedModel, size: tuple[int, int]) -> tuple[np.ndarray, ...]:
    """Return one noise image for each input of the model, always the same."""
    generator = np.random.default_rng(0)
    return tuple(generator.uniform(0, 255, (1, 3, *size)).astype(np.float32) for _ in module.inputs)


def trace(module: ExportedModel, size: tuple[int, int], dynamic: bool) -> ExportedProgram:
    """Return the graph of a model; `dynamic` leaves the height and the width of the images open."""
    import torch.fx.experimental._config as symbols

    least, most = side_range(module)
    dims = {2: Dim('height', min=least, max=most), 3: Dim('width', min=least, max=most)} if dynamic else None
    inputs = tuple(map(torch.from_numpy, random_images(module, size)))
    try:
        # As in torch.onnx: PyTorch's own branches must not test if an open size is 1.
        with torch.no_grad(), symbols.patch(backed_size_oblivious=dynamic):
            return torch.export.export(module, inputs, strict=False,
                                       dynamic_shapes=(dims,) * len(inputs) if dynamic else None)
    except (torch._dynamo.exc.UserError, torch.fx.experimental.symbolic_shapes.ConstraintViolationError) as error:
        sizes = 'open sizes' if dynamic else 'a fixed size'
        raise ExportError(f'{type(module.model).__name__}: torch.export failed with {sizes}: {error_text(error)[:400]}'
                          ) from error


def write(module: ExportedModel, file: str | Path, metadata: dict[str, Any]) -> None:
    """Trace a model at `metadata['size']` and write it in the format of the file's suffix.

    Raises ExportError if the model fixes the size, or the format does not support an operator.
    """
    file = Path(file)
    program = trace(module, metadata['size'], metadata['sides'] is not None)
    if file.suffix == SUFFIXES['onnx']:
        _write_onnx(program, file, module, metadata)
        return
    if file.suffix == SUFFIXES['pt2']:
        torch.export.save(program, str(file))
    else:
        import openvino
        with tempfile.TemporaryDirectory() as folder:
            onnx_file = Path(folder, 'model.onnx')
            _write_onnx(program, onnx_file, module, metadata)
            openvino.save_model(openvino.Core().read_model(onnx_file), file, compress_to_fp16=False)
    metadata_file(file).write_text(json.dumps(metadata, indent=1) + '\n', encoding='utf-8')


def _write_onnx(program: ExportedProgram, file: Path, module: ExportedModel, metadata: dict[str, Any]) -> None:
    if metadata['sides'] is not None and any('fft' in str(node.target) for node in program.graph.nodes):
        raise ExportError('--dynamic: ONNX Runtime does not support Fourier transforms (circulant attention) at open '
                          f'sizes, got {type(module.model).__name__}. Omit --dynamic, or use --format pt2.')
    try:
        with torch.no_grad():  # with gradients, decompositions of weights over open sizes fail
            result = torch.onnx.export(program, dynamo=True, input_names=list(module.inputs),
                                       output_names=list(module.outputs), verbose=False)
    except torch.onnx.OnnxExporterError as error:
        cause: BaseException = error
        while cause.__cause__ is not None and str(cause.__cause__):
            cause = cause.__cause__
        raise ExportError(f'{type(module.model).__name__}: torch.onnx failed: {error_text(cause)[:400]}') from error
    result.model.metadata_props[METADATA] = json.dumps(metadata)
    result.save(str(file))


def metadata_file(file: str | Path) -> Path:
    """Return `NAME.pt2.json` for `NAME.pt2`."""
    return Path(f'{file}.json')


def read_metadata(file: Path) -> dict[str, Any] | None:
    """Read the metadata file of an export; None if it is missing or another file."""
    try:
        content = json.loads(file.read_text(encoding='utf-8'))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and {'task', 'sides', 'outputs'} <= content.keys() else None
