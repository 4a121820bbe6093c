"""Predict from images, folders, globs or videos; for stereo from a left and a right one.

    mmflatten predict CONFIG CHECKPOINT photo.jpg --out found
    mmflatten predict CONFIG CHECKPOINT photos/ 'more/*.png' film.mp4 --out found --score 0.5
    ls *.jpg | mmflatten predict CONFIG CHECKPOINT - --out found --json > found.jsonl

See docs/predict.md for what comes out.
"""
import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import TextIO

from mmflatten.cli.common import output_folder, positive, share, tool_parser
from mmflatten.console import command_line, own_output


def parser() -> argparse.ArgumentParser:
    made = tool_parser(__doc__, prog='mmflatten predict', formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('config', help='config file')
    made.add_argument('checkpoint', help='checkpoint file; every key must fit the model')
    made.add_argument('inputs', nargs='+', metavar='INPUT',
                      help='image, folder, glob or video; - reads them from the standard input, one a line; for stereo '
                      'a left and a right image or folder')
    made.add_argument('--out', required=True, type=output_folder, metavar='DIR',
                      help='folder for drawings and predictions')
    made.add_argument('--json', action='store_true', help='also print a line of JSON for each image')
    made.add_argument('--score', type=share, default=0.3, metavar='S',
                      help='leave out instances with a lower score (default: 0.3)')
    made.add_argument('--device', help='cpu, cuda or cuda:N (default: a GPU if there is one)')
    made.add_argument('--engine', choices=['eager', 'compile', 'onnxruntime', 'openvino', 'auto'], default='eager',
                      help='what runs the backbone (default: eager); auto takes OpenVINO, else ONNX Runtime, if '
                      'installed, and pays for many pictures, as it takes half a minute to start')
    made.add_argument('--batch', type=positive, default=1, metavar='N', help='images at a time (default: 1)')
    return made


@command_line
def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    with own_output() as lines:
        return _predict(args, lines)


def _predict(args: argparse.Namespace, lines: TextIO) -> int:
    # Imported here, so that a missing library ends with one line that says how to install it.
    from mmengine.utils import ProgressBar

    from mmflatten.checkpoints.rules import shorten
    from mmflatten.engine.setup import load_config
    from mmflatten.predict.inputs import Input, Inputs
    from mmflatten.predict.predictor import PredictionError, Predictor
    from mmflatten.predict.results import FOLDERS, ResultFolder
    from mmflatten.tasks import task_of
    cfg = load_config(args.config)
    inputs = Inputs(args.inputs, pairs=task_of(cfg).pairs)
    inputs.require_outside(args.out / name for name in FOLDERS)
    predictor = Predictor(cfg, args.checkpoint, args.device, args.engine)
    failures: list[str] = []
    taken: list[Input] = []

    def images() -> Iterator:
        for item in inputs:
            taken.append(item)
            yield item.image

    done = empty = 0
    with ResultFolder(args.out, predictor, args.score) as folder:
        progress = ProgressBar(len(inputs), file=sys.stderr)
        for sample in predictor.predict(images(), args.batch):
            item = taken.pop(0)
            try:
                if isinstance(sample, PredictionError):
                    raise sample
                record = folder.add(item, sample)
                done += 1
                empty += record.get('instances') == []
                if args.json:
                    print(json.dumps(record), file=lines, flush=True)
            except PredictionError as error:
                failures.append(str(error) if item.video is None else f'{item.name}: {error}')
            progress.update()
        sys.stderr.write('\n')
    sys.stderr.write(f'{done} of {done + len(failures)} predicted: {args.out}\n')
    failures += inputs.cut
    if empty:
        sys.stderr.write(f'{empty} without an instance of --score {args.score:g} or more\n')
    if failures:
        sys.stderr.write(''.join(f'  {failure}\n' for failure in failures))
        raise ValueError(f'{len(failures)} could not be predicted: {shorten(failures, 3)}')
    return 0
