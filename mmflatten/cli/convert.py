"""Convert an official checkpoint to the key names of this project, or back.

Unknown keys are errors. With --head-map, also replace the head of a classifier by one of other
classes, or do only that.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from mmflatten.checkpoints import FAMILIES
from mmflatten.checkpoints.converted_files import AUTO, ENTRIES, convert_file, encode
from mmflatten.checkpoints.run_files import atomic_write
from mmflatten.cli.common import command
from mmflatten.untrusted.files import problem_of


def options(parser: ArgumentParser) -> None:
    parser.add_argument(
        'source', metavar='SRC', type=Path, help='checkpoint of the official code, or .safetensors'
    )
    parser.add_argument(
        'destination', metavar='DST', type=Path, help='output file; .safetensors for weights only'
    )
    parser.add_argument(
        '--family',
        choices=[AUTO, *sorted(FAMILIES)],
        help=(
            'model family of SRC; auto is the one whose names and shapes SRC has; optional with '
            '--head-map, if SRC has the key names of this project'
        ),
    )
    parser.add_argument(
        '--key',
        help=(
            'entry of SRC with the weights (default: the first one present of '
            f'{", ".join(ENTRIES)}, or SRC itself)'
        ),
    )
    parser.add_argument(
        '--revert', action='store_true', help='convert from this project to the official code'
    )
    parser.add_argument(
        '--head-map',
        metavar='FILE',
        type=Path,
        help=(
            "text file: line i is the class of SRC's head that becomes class i, for example the"
            ' 1000 classes of ImageNet-1k among those of ImageNet-22k'
        ),
    )
    parser.add_argument('--force', action='store_true', help='overwrite DST')


@command('convert', __doc__, options)
def main(args: Namespace) -> None:
    _check_paths(args)
    _check_family(args)
    result, weights = convert_file(
        args.source, args.family, key=args.key, revert=args.revert, head_map=args.head_map
    )
    data = encode(result, args.destination)
    with atomic_write(args.destination) as partial:
        partial.write_bytes(data)
    for note in weights.notes:
        print(f'{args.source}: {note}')
    written = result[FAMILIES[args.family].entry if args.revert else 'state_dict']
    summary = f'{args.destination}: {len(written)} tensors from {len(weights.state_dict)}'
    if result['meta']['family']:
        summary += f', family {result["meta"]["family"]}'
    if args.head_map:
        summary += f', head of the classes in {args.head_map}'
    print(summary)
    print(f'{args.source}: sha256 {result["meta"]["source_sha256"]}')


def _check_paths(args: Namespace) -> None:
    """Raise an error if SRC is missing, or writing DST would delete a file."""
    source, destination = args.source, args.destination
    problem = problem_of(source, sys.maxsize)
    if problem is not None:
        raise FileNotFoundError(f'{source} {problem}. Check the path.')
    if destination.is_dir():
        raise ValueError(f'{destination} is a folder. Name a file in it.')
    if destination.exists() and destination.samefile(source):
        raise ValueError(f'{destination} is also the source. Name another file.')
    head_map = args.head_map
    # `resolve` fails for a link to itself
    if head_map is not None and os.path.realpath(destination) == os.path.realpath(head_map):
        raise ValueError(f'{destination} is also the --head-map. Name another file.')
    if destination.exists() and not args.force:
        raise ValueError(f'{destination} exists. Use --force to overwrite it.')


def _check_family(args: Namespace) -> None:
    """Exit with the status of a wrong option if the family is missing or unknown."""
    names = ', '.join(sorted(FAMILIES))
    if args.family is None and (args.revert or args.head_map is None):
        main.parser().error(f'--family is required: one of {names}')
    if args.family == AUTO and args.revert:
        main.parser().error(f'--family: auto cannot be combined with --revert. Use one of {names}')
