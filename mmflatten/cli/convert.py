"""Convert an official checkpoint to the key names of this project, or back. Unknown keys are errors.

With --head-map, also replace the head of a classifier by one of other classes, or do only that.
"""
import argparse
from collections.abc import Sequence
from pathlib import Path

from mmflatten.checkpoints import FAMILIES
from mmflatten.checkpoints.files import ENTRIES, convert_file, encode
from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line
from mmflatten.engine.checkpoints.files import SHARDED
from mmflatten.engine.checkpoints.saving import atomic_write


def parser() -> argparse.ArgumentParser:
    parser = tool_parser(__doc__, prog='mmflatten convert')
    parser.add_argument('source', metavar='SRC', type=Path, help='checkpoint of the official code, or .safetensors')
    parser.add_argument('destination', metavar='DST', type=Path, help='output file; .safetensors for weights only')
    parser.add_argument('--family', choices=sorted(FAMILIES),
                        help='model family of SRC; optional with --head-map, if SRC has the key names of this project')
    parser.add_argument('--key', help='entry of SRC with the weights (default: the first one present of '
                                      f'{", ".join(ENTRIES)}, or SRC itself)')
    parser.add_argument('--revert', action='store_true', help='convert from this project to the official code')
    parser.add_argument('--head-map', metavar='FILE', type=Path,
                        help="text file: line i is the class of SRC's head that becomes class i, for example the 1000 "
                             'classes of ImageNet-1k among those of ImageNet-22k')
    parser.add_argument('--force', action='store_true', help='overwrite DST')
    parser.add_argument('--run-pickled-code', action='store_true',
                        help='DANGEROUS: unpickle SRC, which runs code from it; for your own files only')
    return parser


def check_paths(source: Path, destination: Path, force: bool) -> None:
    """Raise an error if the source cannot be read or the destination must not be written."""
    if source.is_dir() and source.suffix == SHARDED:
        raise ValueError(f'{source} is a sharded checkpoint. All commands read it as it is; docs/distributed.md shows '
                         'how to write it as one file.')
    if not source.is_file():
        raise FileNotFoundError(f'{source} does not exist or is not a file. Check the path.')
    if destination.is_dir():
        raise ValueError(f'{destination} is a folder. Name a file in it.')
    if destination.exists() and destination.samefile(source):
        raise ValueError(f'{destination} is also the source. Name another file.')
    if destination.exists() and not force:
        raise ValueError(f'{destination} exists. Use --force to overwrite it.')


@command_line
def main(argv: Sequence[str]) -> None:
    options = parser()
    args = options.parse_args(argv)
    check_paths(args.source, args.destination, args.force)
    if args.family is None and (args.revert or args.head_map is None):
        options.error(f'--family is required, one of {", ".join(sorted(FAMILIES))}')
    result, weights = convert_file(args.source, args.family, key=args.key, revert=args.revert,
                                   head_map=args.head_map, run_pickled_code=args.run_pickled_code)
    data = encode(result, args.destination)
    with atomic_write(args.destination) as partial:
        partial.write_bytes(data)
    for note in weights.notes:
        print(f'{args.source}: {note}')
    written = result[FAMILIES[args.family].entry if args.revert else 'state_dict']
    summary = f'{args.destination}: {len(written)} tensors from {len(weights.state_dict)}'
    if args.family:
        summary += f', family {args.family}'
    if args.head_map:
        summary += f', head of the classes in {args.head_map}'
    print(summary)
