"""Writing of the formats, by way of `torch.export`."""
from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram

from mmflatten.export.wrappers import ExportedModel, ExportError

SUFFIXES = {'onnx': '.onnx', 'openvino': '.xml', 'pt2': '.pt2', 'torchscript': '.pt'}
PACKAGES = {'onnx': ('onnx', 'onnxscript', 'onnxruntime'), 'openvino': ('onnx', 'onnxscript', 'openvino'),
            'pt2': (), 'torchscript': ()}
INT8_PACKAGES = {'onnx': (), 'openvino': ('nncf',)}
METADATA = 'mmflatten'  # the entry of an ONNX file's metadata; those of the others stand in `metadata_file`
LARGEST_SIDE = 4096


def check_format(name: str, file: str | Path, int8: bool = False) -> None:
    """Refuse an unknown format, a file of another suffix, one that would replace a foreign one, or a missing package.

    Raises:
        ExportError: one of these; with the pip command for what is missing.
    """
    if name not in SUFFIXES:
        raise ExportError(f'format ({name!r}) must be one of {", ".join(SUFFIXES)}')
    if Path(file).suffix != SUFFIXES[name]:
        raise ExportError(f'file ({file}) must end with {SUFFIXES[name]} for format {name}')
    if not Path(file).absolute().parent.is_dir():
        raise ExportError(f'file ({file}): the folder {Path(file).parent} does not exist; make it first')
    beside = metadata_file(file)
    if name != 'onnx' and beside.exists() and read_metadata(beside) is None:
        raise ExportError(f'file ({file}): {beside} would be replaced and was not written by an export; move it away')
    if int8 and name not in INT8_PACKAGES:
        raise ExportError(f'int8 is for the formats {" and ".join(INT8_PACKAGES)}, not for {name}')
    packages = (*PACKAGES[name], *(INT8_PACKAGES[name] if int8 else ()))
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise ExportError(f'format {name} requires {", ".join(missing)}: pip install {" ".join(packages)}')


def side_range(module: ExportedModel) -> tuple[int, int]:
    """The sides of an image that an open graph takes: the coarsest map must have two rows and two columns."""
    return module.stride + 1, LARGEST_SIDE


def trace(module: ExportedModel, inputs: tuple[Tensor, ...], dynamic: bool) -> ExportedProgram:
    """The graph of a model; `dynamic` leaves the height and the width of the images open.

    Raises:
        ExportError: something in the model settles the size.
    """
    import torch.fx.experimental._config as symbols

    least, most = side_range(module)
    dims = {2: Dim('height', min=least, max=most), 3: Dim('width', min=least, max=most)} if dynamic else None
    try:
        # As torch.onnx does: no branch of PyTorch itself shall ask whether an open size is 1.
        with torch.no_grad(), symbols.patch(backed_size_oblivious=dynamic):
            return torch.export.export(module, inputs, strict=False,
                                       dynamic_shapes=(dims,) * len(inputs) if dynamic else None)
    except (torch._dynamo.exc.UserError, torch.fx.experimental.symbolic_shapes.ConstraintViolationError) as error:
        raise ExportError(f'{type(module.model).__name__} cannot be exported{" with open sizes" * dynamic}: '
                          f'{" ".join(str(error).split())[:400]}') from error


def write_onnx(program: ExportedProgram, file: str | Path, module: ExportedModel, metadata: dict[str, Any]) -> None:
    """Write an ONNX file with its metadata.

    Raises:
        ExportError: an operator of the graph has no ONNX form, or a Fourier transform none that runs at open sizes; the
            message names it.
    """
    if metadata['sides'] is not None and any('fft' in str(node.target) for node in program.graph.nodes):
        raise ExportError(f'{type(module.model).__name__} has Fourier transforms (circulant attention), which ONNX '
                          'Runtime cannot do at open sizes; leave out --dynamic, or take --format pt2')
    try:
        with torch.no_grad():  # else decompositions of weights over open sizes fail
            result = torch.onnx.export(program, dynamo=True, input_names=list(module.inputs),
                                       output_names=list(module.outputs), verbose=False)
    except torch.onnx.OnnxExporterError as error:
        cause: BaseException = error
        while cause.__cause__ is not None and str(cause.__cause__):
            cause = cause.__cause__
        raise ExportError(f'{type(module.model).__name__} has no ONNX form: {" ".join(str(cause).split())[:400]}'
                          ) from error
    result.model.metadata_props[METADATA] = json.dumps(metadata)
    result.save(str(file))


def write_openvino(program: ExportedProgram, file: str | Path, module: ExportedModel, metadata: dict[str, Any]) -> None:
    """Write an OpenVINO file in float32, by way of ONNX."""
    import openvino
    with tempfile.TemporaryDirectory() as folder:
        onnx_file = Path(folder) / 'model.onnx'
        write_onnx(program, onnx_file, module, metadata)
        openvino.save_model(openvino.Core().read_model(onnx_file), file, compress_to_fp16=False)
    write_beside(file, metadata)


def write_pt2(program: ExportedProgram, file: str | Path, module: ExportedModel, metadata: dict[str, Any]) -> None:
    """Write PyTorch's own format."""
    torch.export.save(program, str(file))
    write_beside(file, metadata)


def write_torchscript(module: ExportedModel, inputs: tuple[Tensor, ...], file: str | Path,
                      metadata: dict[str, Any]) -> None:
    """Trace a model and write it: for images of this one size."""
    with torch.no_grad():
        torch.jit.trace(module, inputs, check_trace=False).save(str(file))
    write_beside(file, metadata)


def write_beside(file: str | Path, metadata: dict[str, Any]) -> None:
    """Write the metadata of a file whose format holds none."""
    metadata_file(file).write_text(json.dumps(metadata, indent=1) + '\n', encoding='utf-8')


def metadata_file(file: str | Path) -> Path:
    """`NAME.pt2.json` beside `NAME.pt2`."""
    return Path(f'{file}.json')


def read_metadata(file: Path) -> dict[str, Any] | None:
    """What `write_beside` wrote; None where there is no file, or another."""
    try:
        content = json.loads(file.read_text(encoding='utf-8'))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and {'task', 'sides', 'outputs'} <= content.keys() else None


WRITERS: dict[str, Callable[[ExportedProgram, Any, ExportedModel, dict[str, Any]], None]] = {
    'onnx': write_onnx, 'openvino': write_openvino, 'pt2': write_pt2}
