"""Quantisation of exported files to 8 bits after training."""
from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.config import Config
from mmengine.registry import DATASETS, DefaultScope
from torch.export import ExportedProgram

from mmflatten.export.formats import METADATA, write_beside, write_onnx
from mmflatten.export.wrappers import ExportedModel, ExportError
from mmflatten.locate import IMAGE_SUFFIXES
from mmflatten.tasks import task_of

Images = tuple[np.ndarray, ...]  # those of one call


def calibration_images(cfg: Config, folder: str | None, size: tuple[int, int], number: int) -> list[Images]:
    """RGB images `(1, 3, H, W)` at one size, spread over a folder or over the config's validation data.

    Raises:
        ExportError: the folder has none, or one that cannot be read.
    """
    if folder is not None:
        if task_of(cfg).pairs:
            raise ExportError(f'--calibration {folder}: a stereo model takes pairs; without it the config gives them')
        from mmflatten.datasets.storage import read_rgb
        files = sorted(file for file in Path(folder).rglob('*')
                       if file.suffix.lower() in IMAGE_SUFFIXES and not file.name.startswith('.') and file.is_file())
        if not files:
            raise ExportError(f'--calibration {folder} has no image ({", ".join(IMAGE_SUFFIXES)})')
        images = []
        for file in _spread(files, number):
            try:
                image = read_rgb(str(file))
            except ValueError as error:
                raise ExportError(f'--calibration {folder}: {file} cannot be decoded; take it out of the folder') \
                    from error
            images.append((_resize(torch.from_numpy(image).permute(2, 0, 1), size),))
        return images
    if cfg.get('val_dataloader') is None:
        raise ExportError(f'config {cfg.filename} has no val_dataloader to calibrate with; name --calibration DIR')
    with DefaultScope.overwrite_default_scope(cfg.get('default_scope', 'mmengine')):
        dataset = DATASETS.build(cfg.val_dataloader.dataset)
    dataset.full_init()
    images = []
    for index in _spread(range(len(dataset)), number):
        inputs = dataset[index]['inputs']
        images.append(tuple(_resize(image.flip(0), size) for image in (  # mmcv reads BGR
            inputs.values() if isinstance(inputs, dict) else (inputs,))))
    return images


def _spread(items: Sequence, number: int) -> list:
    return [items[index] for index in np.linspace(0, len(items) - 1, min(number, len(items))).astype(int)]


def _resize(image_3HW: torch.Tensor, size: tuple[int, int]) -> np.ndarray:
    return F.interpolate(image_3HW[None].float(), size, mode='bilinear', antialias=True).clamp(0, 255).numpy()


def write_int8(program: ExportedProgram, file: str | Path, format: str, module: ExportedModel,
               metadata: dict[str, Any], images: Sequence[Images]) -> None:
    """Quantise weights and activations of convolutions and products, calibrated with `images`, and write the file."""
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / 'float.onnx'
        write_onnx(program, whole, module, metadata)
        if format == 'onnx':
            _quantize_onnx(whole, file, module, metadata, images)
        else:
            import nncf
            import openvino
            data = nncf.Dataset([list(group) for group in images])
            model = nncf.quantize(openvino.Core().read_model(whole), data, subset_size=len(images),
                                  model_type=nncf.ModelType.TRANSFORMER)
            openvino.save_model(model, file, compress_to_fp16=False)
            write_beside(file, metadata)


def _quantize_onnx(whole: Path, file: str | Path, module: ExportedModel, metadata: dict[str, Any],
                   images: Sequence[Images]) -> None:
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    class Reader(CalibrationDataReader):
        groups = iter(images)

        def get_next(self) -> dict[str, np.ndarray] | None:
            group = next(self.groups, None)
            return None if group is None else dict(zip(module.inputs, group))

    quantize_static(whole, file, Reader(), per_channel=True, op_types_to_quantize=['Conv', 'MatMul', 'Gemm'])
    model = onnx.load(file)
    if METADATA not in {entry.key for entry in model.metadata_props}:
        onnx.helper.set_model_props(model, {METADATA: json.dumps(metadata)})
        onnx.save(model, file)
