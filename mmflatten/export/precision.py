"""Files of reduced precision: int8 by ONNX Runtime's static quantisation, bfloat16 in OpenVINO."""

import importlib.util
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mmflatten.export.comparison import Case, Engine, run
from mmflatten.export.onnx_files import METADATA
from mmflatten.export.openvino_core import openvino_core
from mmflatten.export.wrappers import ExportedModel, ExportError

MAX_DRIFT = 0.05  # default limit of the mean error
NUM_CALIBRATION_IMAGES = 128
_QUANTISED = ('Conv', 'Gemm', 'MatMul')
# Inputs that carry boxes, scores or indices instead of features.
_PREDICTIONS = {
    'ArgMax': (0,),
    'NonMaxSuppression': (0, 1, 2, 3, 4),
    'NonZero': (0,),
    'RoiAlign': (1, 2),
    'TopK': (0, 1),
}


def split_cases(cases: Sequence[Case], num_compared: int) -> tuple[list[Case], list[Case]]:
    """Split images into those for calibration and those for the comparison.

    Every fourth image is compared. With fewer than four images both are all of them.
    """
    if len(cases) < 4:
        return list(cases), list(cases)
    compared = list(cases[::4])[:num_compared]
    calibration = [case for number, case in enumerate(cases) if number % 4]
    return calibration[:NUM_CALIBRATION_IMAGES], compared


def quantise(
    source: str | Path,
    target: str | Path,
    cases: Sequence[Case],
    metadata: Mapping[str, Any],
) -> int:
    """Quantise the layers of a file with weights to int8, with ranges from calibration images.

    ONNX Runtime first simplifies the graph, as its guide recommends: it folds constants, and norms
    into convolutions, which could not be joined after the quantisation.

    Returns the number of layers that stay in float32, see `float_layers`.
    """
    import onnx
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with tempfile.TemporaryDirectory() as folder:
        simplified = Path(folder) / 'simplified.onnx'
        # The exporter has written the shapes, symbols included.
        quant_pre_process(str(source), str(simplified), skip_symbolic_shape=True)
        model = onnx.load(str(simplified))
    kept = float_layers(model)
    quantize_static(
        model,
        str(target),
        _Reader(cases, list(metadata['inputs'])),
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=list(_QUANTISED),
        nodes_to_exclude=kept,
        per_channel=True,
        # Without VNNI instructions, sums of products with weights of 8 bits overflow.
        reduce_range=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        # What follows a projection (norms, feature maps, softmax) gets its float sums.
        extra_options=dict(OpTypesToExcludeOutputQuantization=['MatMul', 'Gemm']),
    )
    write_metadata(target, metadata)
    return len(kept)


def float_layers(model: Any) -> list[str]:
    """Return the names of products and convolutions of an ONNX model that stay in float32.

    - Products of two activations: attention's scores, sums and normalisers. The range of a sum
      over the tokens depends on their number, so that a range measured on images of one size is
      wrong for others; and rounding a normaliser scales whole rows of the result.
    - The last layers of each head, which predict scores, boxes or masks: 256 levels over the range
      of a logit or of a regressed shift are visible in the result, and these layers are small.

    Norms, softmax, activation functions, the decoding of boxes, suppression and RoIAlign are of
    other operators, of which none is quantised.
    """
    stored = {tensor.name for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type in ('Constant', 'Transpose') and all(name in stored for name in node.input):
            stored.update(node.output)
    layers = [node for node in model.graph.node if node.op_type in _QUANTISED]
    with_weights = [node for node in layers if node.input[1] in stored]
    is_followed = _followed(model, with_weights)
    kept = []
    for node in layers:
        if node.input[1] not in stored or node.name not in is_followed:
            kept.append(node.name)
    return kept


def _followed(model: Any, layers: Sequence[Any]) -> set[str]:
    """Return the names of layers whose output reaches another layer, as features."""
    layer_names = {node.name for node in layers}
    reaching: set[str] = set()  # tensors that reach a layer
    followed = set()
    for node in reversed(model.graph.node):  # consumers before producers
        reaches = node.name in layer_names or any(name in reaching for name in node.output)
        if node.name in layer_names and any(name in reaching for name in node.output):
            followed.add(node.name)
        if not reaches:
            continue
        predictions = _PREDICTIONS.get(node.op_type, ())
        reaching.update(name for i, name in enumerate(node.input) if i not in predictions)
    return followed


class _Reader:
    """Calibration images, as `CalibrationDataReader` of ONNX Runtime."""

    def __init__(self, cases: Sequence[Case], names: Sequence[str]) -> None:
        self.names = names
        self.cases = iter(cases)

    def get_next(self) -> dict[str, np.ndarray] | None:
        case = next(self.cases, None)
        return None if case is None else dict(zip(self.names, case.images, strict=True))


def write_metadata(file: str | Path, metadata: Mapping[str, Any]) -> None:
    """Replace the metadata of a file."""
    import onnx

    model = onnx.load(str(file))
    entries = {entry.key: entry.value for entry in model.metadata_props}
    entries[METADATA] = json.dumps(metadata)
    onnx.helper.set_model_props(model, entries)
    onnx.save(model, str(file))


def drift(
    file: str, module: ExportedModel, exported: Engine, cases: Sequence[Case], limit: float
) -> float:
    """Return the mean error of a file on images, by the comparison of `ExportedModel.errors`.

    Raises:
        ExportError: it is above the limit.
    """
    errors = [module.errors(exported(*case.images), run(module, case)) for case in cases]
    joined = np.concatenate(errors)
    mean = float(joined.mean()) if joined.size else 0.0
    # A comparison with NaN is false, which must be an error.
    if not mean <= limit:
        raise ExportError(
            f'--max-drift: {file} differs from PyTorch by {mean:.2g} on average, which is above'
            f' {limit:g}. Name more and typical images with --images, raise --max-drift, or use'
            ' float32.'
        )
    return mean


def bfloat16_engine(file: str | Path, outputs: Sequence[str]) -> Engine:
    """Return a function that runs a file in OpenVINO with bfloat16.

    Raises:
        ExportError: OpenVINO is missing, or the processor has no bfloat16.
    """
    if importlib.util.find_spec('openvino') is None:
        raise ExportError('--bfloat16: requires openvino. Run pip install openvino.')
    core = openvino_core()
    abilities = core.get_property('CPU', 'OPTIMIZATION_CAPABILITIES')
    if 'BF16' not in abilities:
        raise ExportError(
            '--bfloat16: expected a processor with bfloat16, got one with'
            f' {", ".join(abilities)}. Use float32 or --int8.'
        )
    model = core.compile_model(str(file), 'CPU', dict(INFERENCE_PRECISION_HINT='bf16'))

    def engine(*images: np.ndarray) -> dict[str, np.ndarray]:
        values = [np.array(value) for value in model(list(images)).values()]
        return dict(zip(outputs, values, strict=True))

    return engine
