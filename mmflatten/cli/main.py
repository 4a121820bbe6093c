"""The `mmflatten` command."""
import argparse
import importlib
import sys
from collections.abc import Sequence

from mmflatten.console import command_line
from mmflatten.version import __version__

COMMANDS = {
    'train': 'train a classifier, detector, segmentor or stereo model',
    'test': 'metrics of a checkpoint, with predictions and drawings on request',
    'init': 'check your own data and write a config for them',
    'browse': 'what the model sees of its data after augmentation',
    'check': 'a recipe before it is trained: length, rates, decay, and the usual slips',
    'schedule': 'learning rate, weight decay and momentum over a training, before it begins',
    'predict': 'predict from your own images or videos',
    'export': 'a checkpoint as ONNX, OpenVINO or pt2',
    'analyze': 'where a tested model is right and wrong: classes, confusions, worst images',
    'attention': 'where a model attends on a picture, layer by layer and head by head',
    'app': 'a page to try one or two models: predictions, attention and cost',
    'cam': 'which pixels speak for a class, a box or a region: class activation maps',
    'receptive-field': 'which pixels the middle of a map depends on, stage by stage',
    'curves': 'losses and metrics of trainings, each merged over its resumed runs',
    'report': 'one offline HTML page on one training or several',
    'models': 'the models that there is a config for, by name',
    'convert': 'official, timm and safetensors weights to this project, and back',
    'data': 'make a data set that needs no download',
    'flops': 'parameters and FLOPs of configs, beside what the papers print',
    'benchmark': 'speed and memory of models or attentions, side by side',
    'study': 'a grid of trainings from one file: runs, table, statistics, report',
    'doctor': 'what is installed, what is wrong with it, and what fixes it',
}
SHELLS = ('bash', 'zsh', 'tcsh')


def parser() -> argparse.ArgumentParser:
    """The parser of `mmflatten` itself, which knows the commands by name."""
    width = max(map(len, COMMANDS))
    lines = '\n'.join(f'  {name:{width}}  {what}' for name, what in COMMANDS.items())
    made = argparse.ArgumentParser(
        prog='mmflatten', usage='mmflatten COMMAND ...', formatter_class=argparse.RawDescriptionHelpFormatter,
        description='Efficient attentions in vision backbones.',
        epilog=f'commands:\n{lines}\n\nmmflatten COMMAND --help explains a command.')
    made.add_argument('command', metavar='COMMAND', choices=COMMANDS, help=argparse.SUPPRESS)
    made.add_argument('--version', action='version', version=__version__)
    made.add_argument('--print-completion', action=_PrintCompletion, choices=SHELLS,
                      help='print what makes a shell complete commands, options and files')
    return made


class _PrintCompletion(argparse.Action):
    """Print the completion script of all commands and end."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, shell: str,
                 option_string: str | None = None) -> None:
        import shtab
        whole = argparse.ArgumentParser(prog='mmflatten')
        commands = whole.add_subparsers()
        for name, what in COMMANDS.items():
            commands.add_parser(name, help=what, parents=[_module(name).parser()], add_help=False)
        sys.stdout.write(shtab.complete(whole, shell))
        parser.exit()


def _module(command: str) -> object:
    return importlib.import_module(f'mmflatten.cli.{command.replace("-", "_")}')


@command_line
def main(argv: Sequence[str]) -> int:
    arguments = list(argv)
    if not arguments:
        parser().print_help()
        return 2
    if arguments[0] not in COMMANDS:
        parser().parse_args(arguments)  # ends here, with help, version or an error
    return _module(arguments[0]).main(arguments[1:])
