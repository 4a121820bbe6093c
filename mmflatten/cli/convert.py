"""Convert an official checkpoint to the names of this project, or back. Strict: every key must have its place.

With --head-map, also give a classifier a head of other classes, or do only that. A folder NAME.sharded, which a
training on several processes wrote in pieces, becomes one file.
"""
import argparse
from collections.abc import Sequence
from pathlib import Path

from mmflatten.checkpoints import FAMILIES
from mmflatten.checkpoints.files import ENTRIES, SAFETENSORS, convert_file, encode
from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line
from mmflatten.engine.checkpoints.files import written_aside
from mmflatten.engine.checkpoints.pieces import SHARDED
from mmflatten.engine.checkpoints.reading import load_from_local


def parser() -> argparse.ArgumentParser:
    made = tool_parser(__doc__, prog='mmflatten convert')
    made.add_argument('source', metavar='SRC', type=Path,
                      help='checkpoint of the official code, or .safetensors, or .sharded')
    made.add_argument('destination', metavar='DST', type=Path, help='file to write; .safetensors for weights alone')
    made.add_argument('--family', choices=sorted(FAMILIES),
                      help='which key table; without it, for --head-map, SRC is of this project and keeps its names')
    made.add_argument('--key', help='entry of SRC that holds the weights (default: the first that is there of '
                                    f'{", ".join(ENTRIES)}, or SRC itself)')
    made.add_argument('--revert', action='store_true', help='SRC is of this project, DST for the official code')
    made.add_argument('--head-map', metavar='FILE', type=Path,
                      help="text file: line i has the class of SRC's head that becomes class i, such as the 1000 of "
                           'ImageNet-1k among those of ImageNet-22k')
    made.add_argument('--force', action='store_true', help='replace DST')
    made.add_argument('--run-pickled-code', action='store_true',
                      help='DANGEROUS: run code that SRC chooses, in order to unpickle it; for files of your own')
    return made


def check_paths(source: Path, destination: Path, force: bool) -> None:
    """Refuse what would fail or destroy something later."""
    if not source.is_file() and source.suffix != SHARDED:
        raise FileNotFoundError(f'{source} does not exist or is no file; check the path')
    if destination.is_dir():
        raise ValueError(f'{destination} is a folder; name a file in it')
    if destination.exists() and destination.samefile(source):
        raise ValueError(f'{destination} is the source itself; name another file')
    if destination.exists() and not force:
        raise ValueError(f'{destination} exists; --force replaces it')


def put_together(source: Path, destination: Path, force: bool) -> None:
    """Write a checkpoint in pieces as one file; safetensors get its weights alone, others all of the training."""
    check_paths(source, destination, force)
    content = load_from_local(str(source))
    if destination.suffix == SAFETENSORS:
        content = dict(state_dict=content['state_dict'], meta={})
    data = encode(content, destination)
    with written_aside(destination) as aside:
        aside.write_bytes(data)
    print(f'{destination}: {len(content["state_dict"])} tensors of the model, from {source}')


@command_line
def main(argv: Sequence[str]) -> None:
    made = parser()
    args = made.parse_args(argv)
    if args.source.suffix == SHARDED:
        if args.family or args.head_map:
            made.error(f'{args.source} is in pieces; make one file of it first, without --family and --head-map')
        put_together(args.source, args.destination, args.force)
        return
    if args.family is None and (args.revert or args.head_map is None):
        made.error(f'--family is required, one of {", ".join(sorted(FAMILIES))}')
    check_paths(args.source, args.destination, args.force)
    result, weights = convert_file(args.source, args.family, key=args.key, revert=args.revert,
                                   head_map=args.head_map, run_pickled_code=args.run_pickled_code)
    data = encode(result, args.destination)
    with written_aside(args.destination) as aside:
        aside.write_bytes(data)
    for note in weights.notes:
        print(f'{args.source}: {note}')
    written = result[FAMILIES[args.family].entry if args.revert else 'state_dict']
    print(f'{args.destination}: {len(written)} tensors from {len(weights.state_dict)}'
          + (f', family {args.family}' if args.family else '')
          + (f', head of the classes in {args.head_map}' if args.head_map else ''))
