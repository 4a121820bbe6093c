"""Serve a web page to try one or two models: predictions and attention.

    mmflatten app CONFIG CHECKPOINT
    mmflatten app CONFIG CHECKPOINT OTHER_CONFIG OTHER_CHECKPOINT --port 8000

The page is only available on this computer. See lab/docs/app.md.
"""

import threading
from argparse import ArgumentParser, Namespace

from mmflatten.cli.common import add_device, command, integer
from mmflatten.console import prints_to_stderr


def options(parser: ArgumentParser) -> None:
    parser.add_argument(
        'models',
        nargs='+',
        metavar='CONFIG CHECKPOINT',
        help='config file and checkpoint file of each model, for one or two models',
    )
    parser.add_argument(
        '--port',
        type=integer(1, 2**16 - 1),
        metavar='N',
        help='port of the page (default: first free port from 7860)',
    )
    add_device(parser)


@command('app', __doc__, options)
def main(args: Namespace) -> None:
    if len(args.models) not in (2, 4):
        raise ValueError(
            f'CONFIG CHECKPOINT: expected one or two models, got {" ".join(args.models)}.'
        )
    from mmflatten_lab.app.server import serve
    from mmflatten_lab.app.trial import TriedModel

    with prints_to_stderr():
        models = [
            TriedModel(config, checkpoint, args.device)
            for config, checkpoint in zip(args.models[::2], args.models[1::2])
        ]
    if len({model.task.pairs for model in models}) > 1:
        tasks = ' and '.join(f'{model.name}: {model.task.name}' for model in models)
        raise ValueError(f'CONFIG: both models must be for stereo, or none, got {tasks}.')
    with serve(models, args.port) as page:
        print(f'{page.local_url} (press Ctrl-C to stop)', flush=True)
        threading.Event().wait()
