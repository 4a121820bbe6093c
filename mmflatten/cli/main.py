"""The `mmflatten` command.

Installed packages add commands by entry points of the group `mmflatten.commands`. The name is the
command, the object a function of `argv` with an attribute `parser`, as
`mmflatten.cli.common.command` makes it.
"""

import argparse
import difflib
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points

from mmflatten.console import command_line
from mmflatten.deprecation import current_name
from mmflatten.requirements import INSTALL_LAB
from mmflatten.version import __version__

GROUP = 'mmflatten.commands'

COMMANDS = {
    'train': 'train a classifier, detector, segmentor or stereo model',
    'test': 'metrics of a checkpoint, optionally with predictions and drawings',
    'init': 'check your own data and write a config for them',
    'check': 'a recipe before training: length, learning rates, weight decay, common errors',
    'predict': 'predict from your own images or videos',
    'publish': 'write a folder that shares a model: weights, config as data, card',
    'export': 'export a checkpoint to ONNX',
    'analyze': 'errors of a tested model: classes, confusion matrix, worst images',
    'attention': 'attention maps of an image, for each layer and head',
    'report': 'offline HTML report on one or more trainings',
    'models': 'list all models with a config',
    'convert': 'convert official, timm and safetensors weights to this project, and back',
    'data': 'generate a data set without downloads',
    'flops': 'parameters and FLOPs of configs, compared with the papers',
    'benchmark': 'compare speed and memory of models or attentions',
    'doctor': 'check the installation and suggest fixes',
}
# Other names of commands, after the scripts of `tools/` and of OpenMMLab.
ALIASES = {
    'check-recipe': 'check',
    'convert-checkpoint': 'convert',
    'get-flops': 'flops',
}
LAB = {
    'study': 'run a grid of trainings from one file, with statistics and report',
    'fingerprint': 'what one attention can do, beside all others',
    'linearize': 'give blocks of a trained model another attention',
    'app': 'a web page to try one or two models: predictions, attention, cost',
    'garments': 'build scenes from the garments of Fashion-MNIST',
}


def parser() -> argparse.ArgumentParser:
    """Make the parser of `mmflatten`, with the list of commands in its help.

    The commands are not imported.
    """
    installed = _installed()
    others = {name: f'of {entry.dist.name}' for name, entry in installed.items() if name not in LAB}
    width = max(map(len, [*COMMANDS, *LAB, *others]))
    where = 'installed' if LAB.keys() <= installed.keys() else INSTALL_LAB
    sections = [
        f'commands:\n{_list(COMMANDS, width)}',
        f'research commands of mmflatten-lab ({where}):\n{_list(LAB, width)}',
    ]
    if others:
        sections.append(f'commands of other packages:\n{_list(others, width)}')
    sections.append('See mmflatten COMMAND --help for the options of a command.')
    parser = argparse.ArgumentParser(
        prog='mmflatten',
        usage='mmflatten COMMAND ...',
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description='Efficient attentions in vision backbones.',
        epilog='\n\n'.join(sections),
    )
    parser.add_argument('command', nargs='?', metavar='COMMAND', help=argparse.SUPPRESS)
    parser.add_argument('--version', action='version', version=__version__)
    return parser


def _list(commands: Mapping[str, str], width: int) -> str:
    return '\n'.join(f'  {name:{width}}  {summary}' for name, summary in commands.items())


def _installed() -> dict[str, EntryPoint]:
    """Return the commands of other installed packages, without those named as one of mmflatten."""
    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in COMMANDS}


def _load(name: str) -> Callable[[Sequence[str]], int] | None:
    """Import a command; None if it is unknown. The module has the name of the command.

    Raises:
        ImportError: the command belongs to the lab, which is not installed.
    """
    name = current_name('command', name)
    name = ALIASES.get(name, name)
    if name in COMMANDS:
        return importlib.import_module(f'mmflatten.cli.{name.replace("-", "_")}').main
    entry = _installed().get(name)
    if entry is None and name in LAB:
        raise ImportError(
            f'mmflatten {name} is a command of mmflatten-lab. Install it: {INSTALL_LAB}'
        )
    return None if entry is None else entry.load()


def script(*words: str) -> Callable[[Sequence[str] | None], int]:
    """Return the main function of a script of `tools/`, which runs `mmflatten WORDS ...`.

    The command is imported when it runs, because the environment that `main` sets must precede the
    import of PyTorch.
    """

    def run(argv: Sequence[str] | None = None) -> int:
        return main([*words, *(sys.argv[1:] if argv is None else argv)])

    return run


@command_line
def main(argv: Sequence[str]) -> int:
    run = _load(argv[0]) if argv else None
    if run is not None:
        return run(argv[1:])
    if argv and not argv[0].startswith('-'):
        names = [*COMMANDS, *ALIASES, *LAB, *_installed()]
        similar = difflib.get_close_matches(argv[0], names, n=1, cutoff=0.5)
        hint = (
            f'Did you mean {similar[0]}?' if similar else '`mmflatten --help` lists all commands.'
        )
        parser().error(f'unknown command {argv[0]}. {hint}')
    parser().parse_args(argv)  # exits with help, version or an error
    parser().print_help()
    return 2
