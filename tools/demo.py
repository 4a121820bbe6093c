"""Train FLatten-Swin with Mask R-CNN on the digit scenes, test it and draw its predictions.

Takes minutes on a CPU.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
from mmengine.config import Config
from mmengine.fileio import load

from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line
from mmflatten.requirements import LIBRARIES, check_task, inspect
from mmflatten.results.curves import curve, read_runs
from mmflatten.results.drawing import save_png
from mmflatten.version import __version__

ROOT = Path(__file__).resolve().parents[1]
CONFIG = 'configs/digits/mask-rcnn_flatten-swin-nano_fpn_digits.py'
METRICS = {
    'coco/bbox_mAP': 'bbox mAP',
    'coco/bbox_mAP_50': 'bbox AP50',
    'coco/segm_mAP': 'segm mAP',
    'coco/segm_mAP_50': 'segm AP50',
}
SUMMARY = """
bbox mAP {bbox:.3f}, segm mAP {segm:.3f} on {scenes} held-out scenes, {minutes:.1f} minutes
  {folder}/summary.json     metrics
  {folder}/predictions/     {drawings} scenes: truth on the left, prediction on the right
  {folder}/curves.png       loss and mAP during the training
  {folder}/report.html      a page with all of this: open it in a browser"""


@command_line
def main(argv: Sequence[str]) -> None:
    args = parse_args(argv)
    check_task('mmdet')
    from mmflatten.results.page.page import write_report  # these import mmdet, so after the check
    from mmflatten.results.reading import read_results

    work_dir = Path(args.work_dir)
    require_masks(args.config)
    empty(work_dir, args.config)

    # Training and test, as a user runs them.
    results = work_dir / 'results.pkl'
    options = ['--cfg-options', *args.cfg_options] if args.cfg_options else []
    seconds = {'train': run_tool('train.py', args.config, '--work-dir', str(work_dir), *options)}
    checkpoint = (work_dir / 'last_checkpoint').read_text().strip()
    outputs = ('--work-dir', str(work_dir / 'test'), '--out', str(results))
    seconds['test'] = run_tool('test.py', args.config, checkpoint, *outputs, *options)

    # Drawings and curves.
    predictions = read_results(results)
    drawings = draw(predictions, work_dir / 'predictions')
    records = read_runs([work_dir])
    curves = {'loss': curve('loss', records)}
    for key, name in METRICS.items():
        curves[name] = curve(key, records)
    save_png(work_dir / 'curves.png', curves)

    # Summary and report. The training writes its config, with the options, to its work dir.
    cfg = Config.fromfile(work_dir / Path(args.config).name)
    metrics = load(results.with_suffix('.json'))['metrics']
    scores = {name.replace(' ', '_'): round(metrics[key], 4) for key, name in METRICS.items()}
    versions = {name: inspect(library).version for name, library in LIBRARIES.items()}
    summary = {
        'config': args.config,
        'checkpoint': checkpoint,
        **scores,
        'seconds': {name: round(value, 1) for name, value in seconds.items()},
        'images': {
            'train': count_images(cfg.train_dataloader.dataset),
            'test': len(predictions.entries),
        },
        'versions': {'mmflatten': __version__, **versions},
    }
    (work_dir / 'summary.json').write_text(json.dumps(summary, indent=2) + '\n')
    write_report([work_dir], work_dir / 'report.html')
    print(
        SUMMARY.format(
            bbox=summary['bbox_mAP'],
            segm=summary['segm_mAP'],
            scenes=len(predictions.entries),
            minutes=sum(seconds.values()) / 60,
            folder=work_dir,
            drawings=len(drawings),
        )
    )


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = tool_parser(__doc__)
    parser.add_argument('--config', default=CONFIG)
    parser.add_argument(
        '--work-dir',
        default='work_dirs/demo',
        help='folder for the results; an earlier demo in it is deleted (default: %(default)s)',
    )
    parser.add_argument(
        '--cfg-options', nargs='+', metavar='KEY=VALUE', help='as in tools/train.py'
    )
    return parser.parse_args(argv)


def require_masks(config: str) -> None:
    """Raise ValueError before the training if a config does not predict boxes and masks."""
    from mmflatten.config import read_config  # imports PyTorch

    metric = read_config(config).get('test_evaluator', {}).get('metric')
    metrics = [metric] if isinstance(metric, str) else metric or []
    if not {'bbox', 'segm'} <= set(metrics):
        raise ValueError(
            f"--config ({config}): test_evaluator.metric: expected ['bbox', 'segm'], got"
            f' {metric!r}. Use the config of a model that predicts boxes and masks.'
        )


def empty(work_dir: Path, config: str) -> None:
    """Delete an earlier demo in `work_dir`.

    Raises:
        ValueError: the folder has other contents.
    """
    if not work_dir.exists():
        return
    # A training first writes a copy of its config, and a completed demo has a summary.
    names = (Path(config).name, Path(CONFIG).name, 'summary.json')
    is_demo = any((work_dir / name).is_file() for name in names)
    is_empty = work_dir.is_dir() and not any(work_dir.iterdir())
    if not is_demo and not is_empty:
        raise ValueError(
            f'--work-dir: {work_dir} contains files that are not of a demo and would be deleted.'
            ' Name another folder.'
        )
    shutil.rmtree(work_dir)


def run_tool(name: str, *arguments: str) -> float:
    """Run a tool of this folder in a new process, and return its seconds."""
    print(f'\n$ python tools/{name} {" ".join(arguments)}', flush=True)
    start = time.perf_counter()
    status = subprocess.run([sys.executable, str(ROOT / 'tools' / name), *arguments]).returncode
    if status:
        raise ChildProcessError(
            f'tools/{name} failed with exit status {status}. See its message above.'
        )
    return time.perf_counter() - start


def draw(results: Any, out_dir: Path, number: int = 12, side: int = 480) -> list[Path]:
    """Draw the first predictions of `Results`, beside the truth on the left.

    Small images are enlarged, up to `side` pixels, so that their labels can be read.
    """
    from mmflatten.datasets.storage import read_rgb
    from mmflatten.engine.predictions import draw_sample
    from mmflatten.results.writing import metainfo_of

    visualizer = results.task.visualizer(metainfo_of(results))
    files = []
    out_dir.mkdir(parents=True, exist_ok=True)
    for entry in results.entries[:number]:
        image = read_rgb(entry['img_path'])
        sample = results.task.restore(entry)
        factor = max(1, side // max(image.shape[:2]))
        for instances in (sample.gt_instances, sample.pred_instances):
            instances.bboxes = instances.bboxes * factor
            for dim in (1, 2):  # height and width
                instances.masks = instances.masks.repeat_interleave(factor, dim)
        files.append(out_dir / f'{Path(entry["img_path"]).stem}.png')
        enlarged = cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_CUBIC)
        draw_sample(visualizer, enlarged, sample, str(files[-1]))
    return files


def count_images(dataset: dict) -> int:
    """Count the images of an annotation file."""
    annotations = Path(dataset.data_root) / dataset.ann_file
    return len(json.loads(annotations.read_text())['images'])


if __name__ == '__main__':
    sys.exit(main())
