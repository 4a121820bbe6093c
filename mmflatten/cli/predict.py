"""Predict images, folders, globs or videos, or left and right images for stereo.

    mmflatten predict CONFIG CHECKPOINT photo.jpg --out results
    mmflatten predict garment-classifier shoe.png --out results
    mmflatten predict hf://user/model photo.jpg --out results
    mmflatten predict CONFIG CHECKPOINT photos/ 'more/*.png' film.mp4 --out results --score 0.5
    mmflatten predict CONFIG CHECKPOINT rtsp://camera/stream 0 --out results --frames 500    # 0: the first camera
    ls *.jpg | mmflatten predict CONFIG CHECKPOINT - --out results --json > results.jsonl

A published model (docs/hub.md) is the first word, in place of CONFIG CHECKPOINT: a model of the
package (`mmflatten models --pretrained`), a folder, or an address. See docs/predict.md for the
outputs.
"""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from mmflatten.cli.common import add_device, add_model, add_score, command, output_folder, positive
from mmflatten.console import prints_to_stderr
from mmflatten.text import shorten


def options(parser: ArgumentParser) -> None:
    add_model(parser, 'config file, or a published model, which needs no checkpoint')
    parser.add_argument(
        'inputs',
        nargs='+',
        metavar='INPUT',
        help=(
            'image, folder, glob, video, stream (rtsp, rtmp, http) or number of a camera; - reads '
            'one input per line from standard input; for stereo a left and a right image or folder'
        ),
    )
    parser.add_argument(
        '--out',
        required=True,
        type=output_folder,
        metavar='DIR',
        help='folder for drawings and predictions',
    )
    parser.add_argument('--json', action='store_true', help='also print one line of JSON per image')
    parser.add_argument(
        '--frames',
        type=positive,
        metavar='N',
        help='stop each video, stream or camera after N frames; Ctrl-C also ends a stream',
    )
    add_score(parser, 'skip instances with a lower score')
    add_device(parser)
    parser.add_argument(
        '--batch', type=positive, default=1, metavar='N', help='batch size (default: 1)'
    )


def _with_checkpoint(argv: Sequence[str]) -> list[str]:
    """Repeat the name of a published model, which has no separate checkpoint."""
    from mmflatten.hub.remote import is_published

    return [*argv[:1], *argv] if argv and is_published(argv[0]) else list(argv)


@command('predict', __doc__, options, _with_checkpoint)
def main(args: Namespace) -> None:
    with prints_to_stderr() as lines:
        _predict(args, lines)


def _load(args: Namespace) -> tuple[Any, Any]:
    """Return the config, and the path of the checkpoint."""
    from mmflatten.engine.setup import load_config
    from mmflatten.hub.folder import read_published
    from mmflatten.hub.remote import is_published, locate

    if is_published(args.config):
        published = read_published(locate(args.config))
        return published.config, published.weights
    return load_config(args.config), args.checkpoint


def _predict(args: Namespace, lines: TextIO) -> None:
    from mmengine.utils import ProgressBar

    from mmflatten.predict.inputs import Input, Inputs
    from mmflatten.predict.predictor import PredictionError, Predictor
    from mmflatten.predict.results import ResultFolder
    from mmflatten.tasks import task_of

    cfg, checkpoint = _load(args)
    inputs = Inputs(args.inputs, pairs=task_of(cfg).pairs, frames=args.frames)
    inputs.require_outside(ResultFolder.replaced(args.out, task_of(cfg)))
    predictor = Predictor(cfg, checkpoint, args.device)
    failures: list[str] = []
    pending: list[Input] = []
    done = empty = 0

    def images() -> Iterator:
        for item in inputs:
            pending.append(item)
            yield item.image

    with ResultFolder(args.out, predictor, args.score) as folder:
        progress = ProgressBar(0 if inputs.endless else len(inputs), file=sys.stderr)
        for sample in predictor.predict(images(), args.batch):
            item = pending.pop(0)
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
    few = f'{empty} without instances of --score {args.score:g} or more\n' if empty else ''
    sys.stderr.write(f'\n{done} of {done + len(failures)} predicted: {args.out}\n{few}')
    if failures := [*failures, *map(str, inputs.failures), *folder.failures]:
        sys.stderr.write(''.join(f'  {failure}\n' for failure in failures))
        raise ValueError(f'{len(failures)} failures: {shorten(failures, 3)}')
