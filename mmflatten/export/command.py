"""The command line of the export."""
import argparse
from pathlib import Path

from mmflatten.export.formats import SUFFIXES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of an export."""
    from mmflatten.engine.config_files import ConfigOptions

    add = parser.add_argument
    add('config', help='config file')
    add('checkpoint', help='checkpoint file; every key must fit the model')
    add('--format', default='onnx', help=f'{", ".join(SUFFIXES)} (default: onnx)')
    add('--out', metavar='FILE', help='file to write (default: the checkpoint with the suffix of the format)')
    add('--dynamic', action='store_true', help='leave height and width of the images open')
    add('--size', nargs='+', type=int, metavar='H', help="H, or H W, of the images (default: the config's)")
    add('--features', action='store_true', help='the maps of backbone and neck, not what the task predicts')
    add('--int8', action='store_true', help='quantise to 8 bits (onnx, openvino)')
    add('--calibration', metavar='DIR', help="images for --int8 (default: the config's validation data)")
    add('--cfg-options', nargs='+', action=ConfigOptions, metavar='KEY=VALUE', help='replace fields of the config')


def run(args: argparse.Namespace) -> str:
    """Export; returns the report in words."""
    from mmflatten.export.export import export_model
    from mmflatten.export.formats import check_format
    from mmflatten.export.wrappers import ExportError

    if args.size is not None and (len(args.size) > 2 or min(args.size) < 1):
        raise ExportError(f'--size {" ".join(map(str, args.size))}: give H, or H W')
    file = args.out or str(Path(args.checkpoint).with_suffix(SUFFIXES.get(args.format, '')))
    check_format(args.format, file, args.int8)
    if Path(file).resolve() == Path(args.checkpoint).resolve():
        raise ExportError(f'--out ({file}) is the checkpoint itself; name another file')
    report = export_model(
        args.config, args.checkpoint, file, format=args.format, dynamic=args.dynamic, int8=args.int8,
        size=args.size and (args.size[0], args.size[-1]), features=args.features, calibration=args.calibration,
        options=args.cfg_options)
    return str(report)
