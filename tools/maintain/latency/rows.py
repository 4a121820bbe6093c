"""Rows of the latency table: models, heads, sizes, runtimes and precisions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mmflatten.checkpoints.run_files import atomic_write
from mmflatten.untrusted.csv_files import read_csv, write_csv

SIZES = (320, 640, 1024)
# Runtime and precisions, in the order of the columns of the page.
RUNTIMES = {
    'eager': ('float32', 'bfloat16'),
    'compiled': ('float32', 'bfloat16'),
    'onnxruntime': ('float32', 'int8'),
    'openvino': ('float32', 'bfloat16', 'int8'),
}
FILE_RUNTIMES = ('onnxruntime', 'openvino')
HEADS = ('classifier', 'mask-rcnn', 'upernet')
_VIT = {'model.backbone.arch': 'deit3-small'}
_VIT_LINEAR = {
    'model.backbone.attn_types': 'L',
    'model.backbone.linear_attention': {'type': 'LinearAttention'},
}
# Patches of 16 pixels, so that the maps have other strides than those of DINOv2.
_VIT_STRIDES = [4, 8, 16, 32, 64]
_VIT_DETECTOR = {
    **_VIT,
    'model.data_preprocessor.pad_size_divisor': 32,
    'model.rpn_head.anchor_generator.strides': _VIT_STRIDES,
    'model.roi_head.bbox_roi_extractor.featmap_strides': _VIT_STRIDES[:4],
    'model.roi_head.mask_roi_extractor.featmap_strides': _VIT_STRIDES[:4],
}
_DINOV2_CONFIGS = {
    'classifier': 'vit/dinov2-s-frozen_linear-probe_8xb128_in1k',
    'mask-rcnn': 'vit/mask-rcnn_dinov2-s_simple-fpn_1x_coco',
    'upernet': 'vit/upernet_dinov2-s_simple-fpn_8xb2-160k_ade20k-512x512',
}
_SOFTMAX = {'model.backbone.attn_types': 'SSSS'}
_LINEAR = {'model.backbone.attn_types': 'LLLL'}


def _pvt(prefix: str) -> dict[str, str]:
    return {
        'classifier': f'flatten_pvt_v2/{prefix}pvtv2-b2_8xb128_in1k',
        'mask-rcnn': f'flatten_pvt_v2/mask-rcnn_{prefix}pvtv2-b2_fpn_1x_coco',
        'upernet': f'flatten_pvt_v2/upernet_{prefix}pvtv2-b2_8xb2-160k_ade20k-512x512',
    }


def _swin(arch: str) -> dict[str, str]:
    return {
        'classifier': f'flatten_swin/{arch}_8xb128_in1k',
        'mask-rcnn': f'flatten_swin/mask-rcnn_{arch}_fpn_1x_coco',
        'upernet': f'flatten_swin/upernet_{arch}_8xb2-160k_ade20k-512x512',
    }


# Name -> configs by head, and changes by head (`''`: of all heads).
MODELS: dict[str, tuple[dict[str, str], dict[str, dict[str, Any]]]] = {
    'DINOv2-S': (_DINOV2_CONFIGS, {}),
    'ViT-S softmax': (_DINOV2_CONFIGS, {'': _VIT, 'mask-rcnn': _VIT_DETECTOR}),
    'ViT-S linear': (
        _DINOV2_CONFIGS,
        {'': {**_VIT, **_VIT_LINEAR}, 'mask-rcnn': {**_VIT_DETECTOR, **_VIT_LINEAR}},
    ),
    'Swin-T': (_swin('swin-t'), {}),
    'FLatten-Swin-T': (_swin('flatten-swin-t'), {}),
    'PVTv2-B2 softmax': (_pvt(''), {'': _SOFTMAX}),
    'PVTv2-B2 linear': (_pvt('flatten-'), {'': _LINEAR}),
}

# Models that differ in the attention alone: with softmax, with linear attention.
TWINS = (
    ('ViT-S softmax', 'ViT-S linear'),
    ('PVTv2-B2 softmax', 'PVTv2-B2 linear'),
    ('Swin-T', 'FLatten-Swin-T'),
)


@dataclass(frozen=True)
class Cell:
    """One row before it is measured."""

    model: str
    head: str
    size: int
    runtime: str
    precision: str


def all_cells(
    models: Sequence[str] = tuple(MODELS),
    heads: Sequence[str] = HEADS,
    sizes: Sequence[int] = SIZES,
    runtimes: Sequence[str] = tuple(RUNTIMES),
) -> list[Cell]:
    """Return the cells of the table, those of a model and a head one after another."""
    cells = []
    for model, head, size, runtime in itertools.product(models, heads, sizes, runtimes):
        for precision in RUNTIMES[runtime]:
            cells.append(Cell(model, head, size, runtime, precision))
    return cells


def cost(cell: Cell) -> tuple[bool, int, int]:
    """Return a key that sorts cells by the time they take, roughly.

    A compiled row takes minutes. The order of the cells with equal keys stays.
    """
    return cell.runtime == 'compiled', HEADS.index(cell.head), cell.size


def files_of(cell: Cell) -> tuple[str, ...]:
    """Return the names of the prepared files that a cell needs."""
    results = f'{cell.size}.npz'
    return (results, f'{cell.precision}.onnx') if cell.runtime in FILE_RUNTIMES else (results,)


def is_prepared(folder: Path, cell: Cell) -> bool:
    """Return True if the files of a cell are there. Each is written beside, then renamed."""
    return all((folder / name).is_file() for name in files_of(cell))


# Columns of the CSV.
RESULTS = (
    'median_ms',
    'q1_ms',
    'q3_ms',
    'rounds',
    'memory_mib',
    'file_mb',
    'drift',
    'detections',
    'error',
    'processor',
    'threads',
    'versions',
    'boot',  # id of the start of the machine: rows with the same were measured on one machine
)
COLUMNS = (*Cell.__dataclass_fields__, *RESULTS)
# Columns of the table of profiles: a row is one kind of operator.
PROFILE_COLUMNS = (*Cell.__dataclass_fields__, 'operator', 'percent')


def read_rows(file: Path) -> list[dict[str, str]]:
    """Return the measured rows; none if there is no file yet."""
    if not file.is_file():
        return []
    return [dict(row) for row in read_csv(file)]


def write_rows(
    file: Path, rows: Sequence[dict[str, Any]], columns: Sequence[str] = COLUMNS
) -> None:
    """Replace the file by these rows."""
    lines = [[row.get(name, '') for name in columns] for row in rows]
    with atomic_write(file) as partial:
        write_csv(partial, columns, lines)


def cell_of(row: dict[str, str]) -> Cell:
    names = Cell.__dataclass_fields__
    values = {name: row[name] for name in names}
    return Cell(**{**values, 'size': int(row['size'])})


def row_of(cell: Cell, results: dict[str, Any]) -> dict[str, Any]:
    return asdict(cell) | results
