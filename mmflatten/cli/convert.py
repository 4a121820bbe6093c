"""Convert an official checkpoint to the key names of this project, or back. Unknown keys are errors.

With --head-map, also replace the head of a classifier by one of other classes, or do only that.
"""
import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path

from mmflatten.checkpoints import FAMILIES
from mmflatten.checkpoints.converted_files import ENTRIES, FOUND, TIMM, convert_file, encode
from mmflatten.checkpoints.run_files import atomic_write
from mmflatten.cli.common import command


def options(parser: ArgumentParser) -> None:
    parser.add_argument('source', metavar='SRC', type=Path, help='checkpoint of the official code, or '
                        '.safetensors; with --family timm also the name of a model in timm, whose weights it downloads')
    parser.add_argument('destination', metavar='DST', type=Path, help='output file; .safetensors for weights only')
    parser.add_argument('--family', choices=[*FOUND, *sorted(FAMILIES)],
                        help='model family of SRC, or auto (or timm) to find it by the names in SRC; optional with '
                             '--head-map, if SRC has the key names of this project')
    parser.add_argument('--key', help='entry of SRC with the weights (default: the first one present of '
                                      f'{", ".join(ENTRIES)}, or SRC itself)')
    parser.add_argument('--revert', action='store_true', help='convert from this project to the official code')
    parser.add_argument('--head-map', metavar='FILE', type=Path,
                        help="text file: line i is the class of SRC's head that becomes class i, for example the 1000 "
                             'classes of ImageNet-1k among those of ImageNet-22k')
    parser.add_argument('--force', action='store_true', help='overwrite DST')


@command('convert', __doc__, options)
def main(args: Namespace) -> None:
    source, destination = args.source, args.destination
    named = args.family == TIMM and not source.exists()
    if not named and not source.is_file():
        raise FileNotFoundError(f'{source} does not exist or is not a file. Check the path.')
    if destination.is_dir():
        raise ValueError(f'{destination} is a folder. Name a file in it.')
    if not named and destination.exists() and destination.samefile(source):
        raise ValueError(f'{destination} is also the source. Name another file.')
    if destination.exists() and not args.force:
        raise ValueError(f'{destination} exists. Use --force to overwrite it.')
    if args.family is None and (args.revert or args.head_map is None):
        main.parser().error(f'--family is required: auto, or one of {", ".join(sorted(FAMILIES))}')
    if args.revert and args.family in FOUND:
        raise ValueError(f'--family: expected a family with --revert, got {args.family}. Name it.')
    with tempfile.TemporaryDirectory() as folder:
        path = from_timm(str(source), Path(folder)) if named else source
        result, weights = convert_file(path, args.family, key=args.key, revert=args.revert, head_map=args.head_map)
    data = encode(result, destination)
    with atomic_write(destination) as partial:
        partial.write_bytes(data)
    for note in weights.notes:
        print(f'{source}: {note}')
    written = result[FAMILIES[args.family].entry if args.revert else 'state_dict']
    summary = f'{destination}: {len(written)} tensors from {len(weights.state_dict)}'
    if result['meta']['family']:
        summary += f', family {result["meta"]["family"]}'
    if args.head_map:
        summary += f', head of the classes in {args.head_map}'
    print(summary)


def from_timm(name: str, folder: Path) -> Path:
    """Write the pretrained weights of a model of timm, which downloads them if it has not yet, to a file in `folder`.

    Raises:
        FileNotFoundError: timm has no such model.
    """
    import timm
    from safetensors.torch import save_file

    if not timm.is_model(name):
        raise FileNotFoundError(f'SRC: expected a file or the name of a model in timm, got {name}. '
                                'timm.list_models(pretrained=True) has the names.')
    path = folder / f'{name}.safetensors'
    save_file(timm.create_model(name, pretrained=True).state_dict(), path)
    return path
