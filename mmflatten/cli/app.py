"""Serve a web page to try one or two models: predictions, attention and cost.

    mmflatten app CONFIG CHECKPOINT
    mmflatten app CONFIG CHECKPOINT OTHER_CONFIG OTHER_CHECKPOINT --port 8000

The page is only available on this computer. See docs/app.md.
"""
import argparse
import signal
import threading
from collections.abc import Sequence
from types import FrameType

from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line, own_output

LAST_PORT = 2**16 - 1
STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def parser() -> argparse.ArgumentParser:
    parser = tool_parser(__doc__, prog='mmflatten app', formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('models', nargs='+', metavar='CONFIG CHECKPOINT',
                        help='config file and checkpoint file of each model, for one or two models')
    parser.add_argument('--port', type=port, metavar='N', help='port of the page (default: first free port from 7860)')
    parser.add_argument('--device', help='cpu, cuda or cuda:N (default: a GPU if available)')
    return parser


def port(text: str) -> int:
    """Parse a port number for argparse."""
    if not text.isdecimal() or not 0 < int(text) <= LAST_PORT:
        raise argparse.ArgumentTypeError(f'expected an integer from 1 to {LAST_PORT}, got {text}')
    return int(text)


@command_line
def main(argv: Sequence[str]) -> None:
    args = parser().parse_args(argv)
    if len(args.models) not in (2, 4):
        raise ValueError(f'CONFIG CHECKPOINT: expected one or two models, got {" ".join(args.models)}.')
    # Imported here, so that a missing library gives a one-line error.
    from mmflatten.app.page import launch
    from mmflatten.app.trial import TriedModel
    with own_output():
        models = [TriedModel(config, checkpoint, args.device)
                  for config, checkpoint in zip(args.models[::2], args.models[1::2])]
    if len({model.task.pairs for model in models}) > 1:
        tasks = ' and '.join(f'{model.name}: {model.task.name}' for model in models)
        raise ValueError(f'CONFIG: both models must be for stereo, or none, got {tasks}.')
    for number in STOP_SIGNALS:
        if signal.getsignal(number) == signal.SIG_DFL:  # SIGHUP is ignored under nohup
            signal.signal(number, _interrupt)
    page = launch(models, args.port)
    print(f'{page.local_url} (press Ctrl-C to stop)', flush=True)
    try:
        threading.Event().wait()
    finally:
        page.close(verbose=False)


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Stop as with Ctrl-C. Later signals are ignored, because a closing terminal sends two, and cleanup takes time."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
