"""The `mmflatten` command."""
import argparse
import difflib
import importlib
from collections.abc import Callable, Sequence

from mmflatten.console import command_line
from mmflatten.version import __version__

COMMANDS = {
    'train': 'train a classifier, detector, segmentor or stereo model',
    'test': 'metrics of a checkpoint, optionally with predictions and drawings',
    'init': 'check your own data and write a config for them',
    'check': 'a recipe before training: length, learning rates, weight decay, common errors',
    'schedule': 'learning rate, weight decay and momentum of a training, before it starts',
    'predict': 'predict from your own images or videos',
    'publish': 'write a folder that shares a model: weights, config as data, card',
    'export': 'export a checkpoint to ONNX',
    'analyze': 'errors of a tested model: classes, confusion matrix, worst images',
    'attention': 'attention maps of an image, for each layer and head',
    'app': 'a web page to try one or two models: predictions, attention, cost',
    'cam': 'class activation maps of classes, boxes and regions',
    'receptive-field': 'effective receptive fields of each stage',
    'curves': 'losses and metrics of trainings, merged over resumed runs',
    'report': 'offline HTML report on one or more trainings',
    'models': 'list all models with a config',
    'convert': 'convert official, timm and safetensors weights to this project, and back',
    'data': 'generate a data set without downloads',
    'flops': 'parameters and FLOPs of configs, compared with the papers',
    'benchmark': 'compare speed and memory of models or attentions',
    'linearize': 'give blocks of a trained model another attention',
    'fingerprint': 'what one attention can do and what it costs, beside all others',
    'study': 'run a grid of trainings from one file, with statistics and report',
    'doctor': 'check the installation and suggest fixes',
}


def parser() -> argparse.ArgumentParser:
    """Make the parser of `mmflatten`, which only knows the names of the commands."""
    width = max(map(len, COMMANDS))
    lines = '\n'.join(f'  {name:{width}}  {summary}' for name, summary in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog='mmflatten', usage='mmflatten COMMAND ...', formatter_class=argparse.RawDescriptionHelpFormatter,
        description='Efficient attentions in vision backbones.',
        epilog=f'commands:\n{lines}\n\nSee mmflatten COMMAND --help for the options of a command.')
    parser.add_argument('command', nargs='?', metavar='COMMAND', help=argparse.SUPPRESS)
    parser.add_argument('--version', action='version', version=__version__)
    parser.add_argument('--print-completion', choices=('bash', 'zsh', 'tcsh'),
                        help='print a completion script for commands, options and files')
    return parser


def _main(name: str) -> Callable[[Sequence[str]], int]:
    return importlib.import_module(f'mmflatten.cli.{name.replace("-", "_")}').main


@command_line
def main(argv: Sequence[str]) -> int:
    if argv and argv[0] in COMMANDS:
        return _main(argv[0])(argv[1:])
    if argv and not argv[0].startswith('-'):
        similar = difflib.get_close_matches(argv[0], COMMANDS, 1, .5)
        parser().error(f'unknown command {argv[0]}. ' + (f'Did you mean {similar[0]}?' if similar else
                                                         '`mmflatten --help` lists all commands.'))
    shell = parser().parse_args(argv).print_completion  # exits with help, version or an error
    if shell is None:
        parser().print_help()
        return 2
    import shtab
    whole = argparse.ArgumentParser(prog='mmflatten')
    commands = whole.add_subparsers()
    for name, summary in COMMANDS.items():
        commands.add_parser(name, help=summary, parents=[_main(name).parser()], add_help=False)
    print(shtab.complete(whole, shell), end='')
    return 0
