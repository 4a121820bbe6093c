"""Accuracy of exported files beside that of their checkpoints, on the digit scenes.

    python tools/maintain/file_accuracy.py run
    python tools/maintain/file_accuracy.py run --heads ATSS DINO
    python tools/maintain/file_accuracy.py measure

`run` trains a small detector with each head, exports it, and tests the checkpoint and the file in
ONNX Runtime and OpenVINO on the held-out scenes. It continues after an interruption, and writes
`file_accuracy.csv` in docs/measurements. `measure` adds the times of the files in float32 and int8,
of one scene on an idle machine. Both print the table of docs/run_files.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from latency.rows import read_rows, write_rows

from mmflatten.cli.common import command, positive
from mmflatten.console import print_progress
from mmflatten.text import align

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / 'docs' / 'measurements' / 'file_accuracy.csv'
FOLDER = ROOT / 'work_dirs' / 'file_accuracy'
DATA = ROOT / 'data' / 'digits'
METRICS = {'coco/bbox_mAP': 'boxes', 'coco/segm_mAP': 'masks'}
REFUSED = 'refused'  # the export refused a file of int8
COLUMNS = (
    'head',
    'epochs',
    'metric',
    'pytorch',
    'onnxruntime',
    'openvino',
    'int8',
    'int8_drift',
    'float32_ms',
    'int8_ms',
)
MISSING = '-'


class Head(NamedTuple):
    """A detector of the table.

    Attributes:
        bases: configs that it inherits.
        epochs: length of the training.
        changes: differences from the model of the config.
        quantised: a file of int8 is tested, too.
    """

    bases: tuple[str, ...]
    epochs: int
    changes: dict[str, Any] = {}
    quantised: bool = True


def _box_head(deviation: float) -> dict[str, Any]:
    stds = [deviation, deviation, 2 * deviation, 2 * deviation]
    return dict(
        type='Shared2FCBBoxHead',
        in_channels=48,
        fc_out_channels=256,
        roi_feat_size=7,
        num_classes=10,
        reg_class_agnostic=True,
        bbox_coder=dict(type='DeltaXYWHBBoxCoder', target_means=[0.0] * 4, target_stds=stds),
        loss_cls=dict(type='CrossEntropyLoss', use_sigmoid=False),
        loss_bbox=dict(type='SmoothL1Loss'),
    )


def _stage(iou: float) -> dict[str, Any]:
    """Return the training settings of a stage, in which boxes of this IoU are objects."""
    return dict(
        assigner=dict(
            type='MaxIoUAssigner',
            pos_iou_thr=iou,
            neg_iou_thr=iou,
            min_pos_iou=iou,
            match_low_quality=False,
            ignore_iof_thr=-1,
        ),
        sampler=dict(type='RandomSampler', num=128, pos_fraction=0.25, add_gt_as_proposals=True),
        mask_size=28,
        pos_weight=-1,
        debug=False,
    )


# Cascade of two stages on the heads of Mask R-CNN.
_CASCADE = dict(
    type='CascadeRCNN',
    roi_head=dict(
        type='CascadeRoIHead',
        num_stages=2,
        stage_loss_weights=[1, 0.5],
        bbox_head=[_box_head(0.1), _box_head(0.05)],
    ),
    train_cfg=dict(rcnn=[_stage(0.5), _stage(0.6)]),
)
_NORM = dict(type='GN', num_groups=8)
_REPPOINTS = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=32, depths=(1, 1, 2, 1), num_heads=(2, 4, 8, 16)),
        attn_types='LLSS',
        img_size=160,
        softmax_window=5,
        drop_path_rate=0.0,
    ),
    neck=dict(in_channels=[64, 128, 256], out_channels=64, num_outs=3, norm_cfg=_NORM),
    bbox_head=dict(
        num_classes=10,
        in_channels=64,
        feat_channels=64,
        point_feat_channels=64,
        corner_channels=32,
        stacked_convs=2,
        point_strides=[8, 16, 32],
        norm_cfg=_NORM,
    ),
    test_cfg=dict(nms_pre=200, max_per_img=20),
)
_REPPOINTS_BASES = (
    '_base_/models/reppoints-v2_bifpn.py',
    '_base_/datasets/digits_coco_det.py',
    '_base_/schedules/digits_15e.py',
    '_base_/default_runtime.py',
)
_DIGITS = 'digits/{}_flatten-swin-nano_{}digits.py'
HEADS = {
    'Mask R-CNN': Head((_DIGITS.format('mask-rcnn', 'fpn_'),), 5),
    'RetinaNet': Head((_DIGITS.format('retinanet', 'fpn_'),), 5),
    'ATSS': Head((_DIGITS.format('atss', 'fpn_'),), 5),
    'DINO': Head((_DIGITS.format('dino-4scale', ''),), 2),
    'RepPoints V2': Head(_REPPOINTS_BASES, 5, _REPPOINTS, quantised=False),
    'Cascade Mask R-CNN': Head((_DIGITS.format('mask-rcnn', 'fpn_'),), 2, _CASCADE),
}


def options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add('action', choices=tuple(ACTIONS), help='train, export and test; or measure times')
    add('--heads', nargs='+', choices=HEADS, default=list(HEADS), metavar='NAME')
    add('--data', type=Path, default=DATA, metavar='DIR', help='scenes of `mmflatten data digits`')
    add('--epochs', type=positive, metavar='N', help='length of the trainings (default: by head)')
    add('--seconds', type=positive, default=10, metavar='S', help='timing of a head (default: 10)')
    add('--table', type=Path, default=TABLE, metavar='CSV', help=f'default: {TABLE.name}')
    add('--folder', type=Path, default=FOLDER, metavar='DIR', help='trainings and files')


def run_heads(args: Namespace) -> None:
    """Add the rows of the heads to the table, each after its tests."""
    for name in args.heads:
        rows = [row for row in read_rows(args.table) if row['head'] != name]
        save(args.table, rows + rows_of(name, args))
    print(render(read_rows(args.table)))


def rows_of(name: str, args: Namespace) -> list[dict[str, Any]]:
    """Return a row for each metric of a head."""
    head = HEADS[name]
    epochs = args.epochs or head.epochs
    folder = (args.folder / name.lower().replace(' ', '-')).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    config = write_config(head, epochs, args.data.absolute(), folder)
    checkpoint = train(config, epochs, folder)
    results = dict(
        pytorch=metrics_of(config, checkpoint),
        onnxruntime=metrics_of(config, export(config, checkpoint, args.data)),
        openvino=metrics_of(config, export(config, checkpoint, args.data), 'openvino'),
    )
    row: dict[str, Any] = dict(head=name, epochs=epochs)
    if head.quantised:
        row.update(int8=REFUSED, int8_drift=REFUSED)
        try:
            int8 = export(config, checkpoint, args.data, '--int8')
        except RuntimeError as error:
            if '--max-drift' not in str(error):
                raise
        else:
            results['int8'] = metrics_of(config, int8)
            row.update(int8_drift=round(drift_of(int8), 4))
    rows = []
    for key, metric in METRICS.items():
        if key not in results['pytorch']:
            continue
        scores = {where: result[key] for where, result in results.items()}
        rows.append({**row, **scores, 'metric': metric})
    if not rows:
        raise ValueError(
            f'--epochs: expected a training after which {name} detects something, got {epochs}.'
            ' Name more.'
        )
    return rows


def write_config(head: Head, epochs: int, data: Path, folder: Path) -> Path:
    """Write the config of a head, on these scenes and with this length of the training."""
    bases = [str(ROOT / 'configs' / base) for base in head.bases]
    warm_up = dict(type='LinearLR', start_factor=0.01, by_epoch=False, begin=0, end=100)
    decay = dict(
        type='CosineAnnealingLR',
        eta_min=1e-5,
        by_epoch=True,
        begin=0,
        end=epochs,
        convert_to_iter_based=True,
    )
    held_out = str(data / 'annotations' / 'instances_val.json')
    values = dict(
        _base_=bases,
        model=head.changes,
        train_cfg=dict(max_epochs=epochs, val_interval=epochs + 1),
        param_scheduler=[warm_up, decay],
        default_hooks=dict(checkpoint=dict(interval=1, max_keep_ckpts=1)),
        train_dataloader=dict(num_workers=1, dataset=dict(data_root=f'{data}/')),
        val_dataloader=dict(dataset=dict(data_root=f'{data}/')),
        test_dataloader=dict(dataset=dict(data_root=f'{data}/')),
        val_evaluator=dict(ann_file=held_out),
        test_evaluator=dict(ann_file=held_out),
    )
    file = folder / 'config.py'
    file.write_text(''.join(f'{name} = {value!r}\n' for name, value in values.items()))
    return file


def train(config: Path, epochs: int, folder: Path) -> Path:
    """Train until the last epoch, from the newest checkpoint. Returns the last."""
    checkpoint = folder / 'train' / f'epoch_{epochs}.pth'
    if not checkpoint.is_file():
        tool('train', config, '--work-dir', checkpoint.parent, '--resume')
    return checkpoint


def export(config: Path, checkpoint: Path, data: Path, *precision: str) -> Path:
    """Export a file with open sizes, compared on the scenes of the training."""
    file = config.with_name(f'{"-".join(("model", *precision))}.onnx')
    if not file.is_file():
        images = data / 'images' / 'training'
        words = ('--dynamic', '--images', images, '--out', file, *precision)
        tool('export', config, checkpoint, *words)
    return file


def metrics_of(config: Path, model: Path, runtime: str | None = None) -> dict[str, float]:
    """Return the metrics of a checkpoint or of a file on the held-out scenes."""
    result = config.with_name(f'{model.stem}-{runtime or "default"}.json')
    if not result.is_file():
        words = ('--runtime', runtime) if runtime else ()
        tool('test', config, model, '--work-dir', config.with_name('test'), '--out', result, *words)
    return json.loads(result.read_text())['metrics']


def drift_of(file: Path) -> float:
    """Return the mean difference of a quantised file, which the export has measured."""
    from mmflatten.export.metadata import read_metadata

    return read_metadata(file)['difference']['mean']


def tool(*words: object) -> None:
    """Run a command of mmflatten.

    Raises:
        RuntimeError: it failed. The message is its last line.
    """
    line = [sys.executable, '-m', 'mmflatten', *map(str, words)]
    print_progress(' '.join(line[2:]))
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f'exit status {done.returncode}']
        raise RuntimeError(lines[-1])


def measure_heads(args: Namespace) -> None:
    """Add the times of the files to the rows of the heads, in turns of float32 and int8."""
    rows = read_rows(args.table)
    for name in args.heads:
        folder = args.folder / name.lower().replace(' ', '-')
        found = [row for row in rows if row['head'] == name and row['int8'] not in ('', REFUSED)]
        if not found:
            continue
        for column, milliseconds in zip(('float32_ms', 'int8_ms'), times_of(folder, args)):
            for row in found:
                row[column] = f'{milliseconds:.1f}'
        save(args.table, rows)
    print(render(rows))


def times_of(folder: Path, args: Namespace) -> list[float]:
    """Return the median milliseconds of the files in float32 and int8, on a held-out scene."""
    from mmflatten.datasets.storage import read_rgb
    from mmflatten.measure.speed.timing import Subject, measure
    from mmflatten.runtime.files import ModelFile

    scene = sorted((args.data / 'images' / 'validation').iterdir())[0]
    pixels = read_rgb(str(scene)).astype(np.float32)
    image = np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])
    subjects = []
    for name in ('model.onnx', 'model---int8.onnx'):
        file = ModelFile(folder / name)
        subjects.append(Subject(name, lambda file=file: file(image)))
    times = measure(subjects, seconds=args.seconds / 2)
    return [1e3 * float(np.median(values)) for values in times]


def render(rows: list[dict[str, str]]) -> str:
    """Return the table in Markdown, with mAP in per cent."""
    header = ('head', 'epochs', 'mAP of', 'PyTorch', 'ONNX Runtime', 'OpenVINO', 'int8')
    header += ('drift of int8', 'ms', 'ms of int8')
    lines = []
    for row in rows:
        scores = [_percent(row[name]) for name in ('pytorch', 'onnxruntime', 'openvino', 'int8')]
        rest = [row[name] or MISSING for name in ('int8_drift', 'float32_ms', 'int8_ms')]
        lines.append((row['head'], row['epochs'], row['metric'], *scores, *rest))
    return align(lines, header, {0, 2}, markdown=True)


def _percent(score: str) -> str:
    if not score:
        return MISSING
    return score if score == REFUSED else f'{100 * float(score):.1f}'


def save(file: Path, rows: list[dict[str, Any]]) -> None:
    """Replace the table by these rows, ordered as `HEADS`."""
    names = list(HEADS)
    ordered = sorted(rows, key=lambda row: names.index(row['head']))
    write_rows(file, ordered, columns=COLUMNS)


ACTIONS = dict(run=run_heads, measure=measure_heads)


@command('file-accuracy', __doc__, options)
def main(args: Namespace) -> None:
    ACTIONS[args.action](args)


if __name__ == '__main__':
    sys.exit(main())
