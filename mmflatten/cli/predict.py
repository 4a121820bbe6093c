"""Predict images, folders, globs or videos, or left and right images for stereo.

    mmflatten predict CONFIG CHECKPOINT photo.jpg --out results
    mmflatten predict garment-classifier shoe.png --out results
    mmflatten predict hf://user/model photo.jpg --out results
    mmflatten predict model.onnx photo.jpg --out results
    mmflatten predict CONFIG CHECKPOINT photos/ 'more/*.png' film.mp4 --out results --score 0.5
    mmflatten predict CONFIG CHECKPOINT rtsp://camera/stream 0 --out results --frames 500
    ls *.jpg | mmflatten predict CONFIG CHECKPOINT - --out results --json > results.jsonl

The input 0 is the first camera. A published model (docs/hub.md) is the first word, in place of
CONFIG CHECKPOINT: a model of the package (`mmflatten models --pretrained`), a folder, or an
address. So is a file of `mmflatten export`, which may also follow a CONFIG. See docs/predict.md
for the outputs.
"""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections import deque
from collections.abc import Iterator
from typing import Any, TextIO

from mmflatten.cli.common import (
    add_device,
    add_runtime,
    add_score,
    command,
    output_folder,
    positive,
)
from mmflatten.console import prints_to_stderr
from mmflatten.text import shorten


def options(parser: ArgumentParser) -> None:
    parser.add_argument('config', help='config file, a published model or a file model.onnx')
    parser.add_argument(
        'checkpoint',
        nargs='?',
        help='checkpoint or model.onnx for this config; none for a published model or a file',
    )
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
    add_runtime(parser)
    parser.add_argument(
        '--batch', type=positive, default=1, metavar='N', help='batch size (default: 1)'
    )


# Inputs may stand behind options. Only intermixed parsing then finds an optional checkpoint.
@command('predict', __doc__, options, parse=ArgumentParser.parse_intermixed_args)
def main(args: Namespace) -> None:
    from mmflatten.hub.remote import is_published
    from mmflatten.runtime.files import is_model_file

    published = is_published(args.config)
    is_alone = published or is_model_file(args.config)
    if args.checkpoint is None and not is_alone:
        main.parser().error(
            f'checkpoint: required with a config, got only {args.config} and {args.inputs[0]}'
        )
    if args.checkpoint is not None and is_alone:
        args.inputs.insert(0, args.checkpoint)
    with prints_to_stderr() as lines:
        _predict(args, published, lines)


def _load(args: Namespace, published: bool) -> tuple[Any, Any]:
    """Return the config, and the path of the checkpoint or exported file."""
    from mmflatten.engine.setup import load_config
    from mmflatten.hub.folder import read_published
    from mmflatten.hub.remote import locate
    from mmflatten.runtime.configs import file_config
    from mmflatten.runtime.files import is_model_file

    if published:
        model = read_published(locate(args.config))
        return model.config, model.weights
    if is_model_file(args.config):
        return file_config(args.config), args.config
    return load_config(args.config), args.checkpoint


def _predict(args: Namespace, published: bool, lines: TextIO) -> None:
    from mmengine.utils import ProgressBar

    from mmflatten.predict.inputs import Input, Inputs
    from mmflatten.predict.predictor import Image, PredictionError, Predictor
    from mmflatten.predict.results import ResultFolder
    from mmflatten.tasks import task_of

    # Inputs are checked before the model is built, which takes seconds.
    cfg, checkpoint = _load(args, published)
    task = task_of(cfg)
    inputs = Inputs(args.inputs, pairs=task.pairs, frames=args.frames)
    inputs.require_outside(ResultFolder.replaced(args.out, task))
    predictor = Predictor(cfg, checkpoint, args.device, runtime=args.runtime)
    failures: list[str] = []
    pending: deque[tuple[Input, Image]] = deque()
    done = 0
    empty = 0

    def images() -> Iterator[Image]:
        """Read each image once. A batch is `pending` until its predictions are saved."""
        for item in inputs:
            image = predictor.read(item.image)
            pending.append((item, image))
            yield image

    with ResultFolder(args.out, predictor, args.score) as folder:
        progress = ProgressBar(0 if inputs.endless else len(inputs), file=sys.stderr)
        for sample in predictor.predict(images(), args.batch):
            item, image = pending.popleft()
            try:
                if isinstance(sample, PredictionError):
                    raise sample
                record = folder.add(item, sample, image)
                done += 1
                if record.get('instances') == []:
                    empty += 1
                if args.json:
                    print(json.dumps(record), file=lines, flush=True)
            except PredictionError as error:
                failures.append(_name_failure(item, str(error)))
            progress.update()
    sys.stderr.write(f'\n{done} of {done + len(failures)} predicted: {args.out}\n')
    if empty:
        sys.stderr.write(f'{empty} without instances of --score {args.score:g} or more\n')
    failures += [*map(str, inputs.failures), *folder.failures]
    if failures:
        sys.stderr.write(''.join(f'  {failure}\n' for failure in failures))
        raise ValueError(f'{len(failures)} failures: {shorten(failures, 3)}')


def _name_failure(item: Any, failure: str) -> str:
    """Prepend the name of an image or frame to the error of its pixels."""
    name = item.source if item.video is None else item.name
    return failure if name in failure else f'{name}: {failure}'
