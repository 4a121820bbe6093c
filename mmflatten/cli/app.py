"""A page to try one or two models on a picture: what they find, where they attend, what they cost.

    mmflatten app CONFIG CHECKPOINT
    mmflatten app CONFIG CHECKPOINT OTHER_CONFIG OTHER_CHECKPOINT --port 8000

The page is for this computer alone: nothing is sent elsewhere. See docs/app.md.
"""
import argparse
import signal
import threading
from collections.abc import Sequence
from types import FrameType

from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line, own_output

LAST_PORT = 2**16 - 1
ENDINGS = (signal.SIGTERM, signal.SIGHUP)


def parser() -> argparse.ArgumentParser:
    made = tool_parser(__doc__, prog='mmflatten app', formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('models', nargs='+', metavar='CONFIG CHECKPOINT',
                      help='config file and checkpoint file of one model or of two; every key must fit the model')
    made.add_argument('--port', type=port, metavar='N', help='port of the page (default: a free one from 7860 on)')
    made.add_argument('--device', help='cpu, cuda or cuda:N (default: a GPU if there is one)')
    return made


def port(text: str) -> int:
    """A number of a port, for argparse."""
    if not text.isdecimal() or not 0 < int(text) <= LAST_PORT:
        raise argparse.ArgumentTypeError(f'must be a whole number from 1 to {LAST_PORT}, received {text}')
    return int(text)


@command_line
def main(argv: Sequence[str]) -> None:
    args = parser().parse_args(argv)
    if len(args.models) not in (2, 4):
        raise ValueError(f'CONFIG CHECKPOINT ({" ".join(args.models)}) must be those of one model or of two')
    # Imported here, so that a missing library ends with one line that says how to install it.
    from mmflatten.app.server import launch
    from mmflatten.app.trial import TriedModel
    with own_output():
        models = [TriedModel(config, checkpoint, args.device)
                  for config, checkpoint in zip(args.models[::2], args.models[1::2])]
    if len({model.task.pairs for model in models}) > 1:
        tasks = ' and '.join(f'{model.name}: {model.task.name}' for model in models)
        raise ValueError(f'two models must take the same pictures ({tasks}); stereo takes a pair')
    for ending in ENDINGS:
        if signal.getsignal(ending) == signal.SIG_DFL:  # under nohup it stays ignored
            signal.signal(ending, _interrupt)
    page = launch(models, args.port)
    print(f'{page.local_url} (Ctrl-C ends it)', flush=True)
    try:
        threading.Event().wait()
    finally:
        page.close(verbose=False)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End as Ctrl-C does, once: a closing terminal sends its signal twice, and uploads are still to be deleted."""
    for ending in ENDINGS:
        signal.signal(ending, signal.SIG_IGN)
    raise KeyboardInterrupt
