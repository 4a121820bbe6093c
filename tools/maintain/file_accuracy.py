"""Accuracy of exported files beside that of their checkpoints, on the digit scenes.

    python tools/maintain/file_accuracy.py
    python tools/maintain/file_accuracy.py --heads ATSS DINO

Trains a small model with each head, exports it, and tests the checkpoint and the file in ONNX
Runtime and OpenVINO on the held-out scenes. A head that would take hours learns a few scenes by
heart and is tested on these. It continues after an interruption, writes `file_accuracy.csv` in
docs/measurements, and prints the table of docs/run_files.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any, NamedTuple

from accuracy_heads import HEADS, NUM_LEARNED, Head, learned_scenes, write_config
from latency.rows import read_rows, write_rows

from mmflatten.cli.common import command, positive
from mmflatten.console import print_progress
from mmflatten.text import align

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / 'docs' / 'measurements' / 'file_accuracy.csv'
FOLDER = ROOT / 'work_dirs' / 'file_accuracy'
DATA = ROOT / 'data' / 'digits'
PANOPTIC = ROOT / 'data' / 'digits_panoptic'
REFUSED = 'refused'  # the export refused a file of int8
COLUMNS = (
    'head',
    'epochs',
    'scenes',
    'metric',
    'pytorch',
    'onnxruntime',
    'openvino',
    'int8',
    'int8_drift',
)
MISSING = '-'


class Metric(NamedTuple):
    """A metric of `mmflatten test`, and what turns its values into per cent."""

    name: str
    factor: float


METRICS = {
    'coco/bbox_mAP': Metric('box mAP', 100.0),
    'coco/segm_mAP': Metric('mask mAP', 100.0),
    'coco_panoptic/PQ': Metric('PQ', 1.0),
    'mIoU': Metric('mIoU', 1.0),
}


def options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add('--heads', nargs='+', choices=HEADS, default=list(HEADS), metavar='NAME')
    add('--data', type=Path, default=DATA, metavar='DIR', help='scenes of `mmflatten data digits`')
    add('--panoptic', type=Path, default=PANOPTIC, metavar='DIR', help='panoptic scenes')
    add('--epochs', type=positive, metavar='N', help='length of the trainings (default: by head)')
    add('--table', type=Path, default=TABLE, metavar='CSV', help=f'default: {TABLE.name}')
    add('--folder', type=Path, default=FOLDER, metavar='DIR', help='trainings and files')


def rows_of(name: str, args: Namespace) -> list[dict[str, Any]]:
    """Return a row for each metric of a head."""
    head = HEADS[name]
    epochs = args.epochs or head.epochs
    folder = (args.folder / name.lower().replace(' ', '-')).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    data = scenes_of(head, args)
    config = write_config(head, epochs, data, folder)
    checkpoint = train(config, epochs, folder)
    results = dict(
        pytorch=metrics_of(config, checkpoint),
        onnxruntime=metrics_of(config, export(config, checkpoint, data)),
        openvino=metrics_of(config, export(config, checkpoint, data), 'openvino'),
    )
    where = f'{NUM_LEARNED} learned' if head.by_heart else 'held out'
    row: dict[str, Any] = dict(
        head=name, epochs=epochs, scenes=where, int8=REFUSED, int8_drift=REFUSED
    )
    try:
        int8 = export(config, checkpoint, data, '--int8')
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
        scores = {}
        for place, result in results.items():
            scores[place] = round(metric.factor * result[key], 2)
        rows.append({**row, **scores, 'metric': metric.name})
    if not rows:
        raise ValueError(
            f'--epochs: expected a training after which {name} detects something, got {epochs}.'
            ' Name more.'
        )
    return rows


def scenes_of(head: Head, args: Namespace) -> Path:
    """Return the folder of the scenes of a head."""
    if head.by_heart:
        return learned_scenes(args.folder / 'learned')
    return args.panoptic if head.scenes == 'panoptic' else args.data


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


def render(rows: list[dict[str, str]]) -> str:
    """Return the table in Markdown."""
    header = ('head', 'epochs', 'scenes', 'metric', 'PyTorch', 'ONNX Runtime', 'OpenVINO', 'int8')
    header += ('drift of int8',)
    lines = []
    for row in rows:
        scores = [_rounded(row[name]) for name in ('pytorch', 'onnxruntime', 'openvino', 'int8')]
        drift = row['int8_drift'] or MISSING
        lines.append((row['head'], row['epochs'], row['scenes'], row['metric'], *scores, drift))
    return align(lines, header, {0, 2, 3}, markdown=True)


def _rounded(score: str) -> str:
    if not score:
        return MISSING
    return score if score == REFUSED else f'{float(score):.1f}'


def save(file: Path, rows: list[dict[str, Any]]) -> None:
    """Replace the table by these rows, ordered as `HEADS`."""
    names = list(HEADS)
    ordered = sorted(rows, key=lambda row: names.index(row['head']))
    write_rows(file, ordered, columns=COLUMNS)


@command('file-accuracy', __doc__, options)
def main(args: Namespace) -> None:
    for name in args.heads:
        found = rows_of(name, args)
        rows = [row for row in read_rows(args.table) if row['head'] != name]
        save(args.table, rows + found)
    print(render(read_rows(args.table)))


if __name__ == '__main__':
    sys.exit(main())
