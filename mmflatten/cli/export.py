"""Export a checkpoint to ONNX, OpenVINO, PyTorch's pt2 or TorchScript, and compare the file with PyTorch.

    mmflatten export CONFIG CHECKPOINT --dynamic
    mmflatten export CONFIG CHECKPOINT --format openvino --int8 --calibration photos/

See docs/export.md.
"""
import argparse
from collections.abc import Sequence
from pathlib import Path

from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line, quiet_libraries

FORMATS = ('onnx', 'openvino', 'pt2', 'torchscript')


def parser() -> argparse.ArgumentParser:
    from mmflatten.config_files import ConfigOptions
    made = tool_parser(__doc__, prog='mmflatten export', formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('config', help='config file')
    made.add_argument('checkpoint', help='checkpoint file; every key must fit the model')
    made.add_argument('--format', default='onnx', help=f'{", ".join(FORMATS)} (default: onnx)')
    made.add_argument('--out', metavar='FILE',
                      help='file to write (default: the checkpoint with the suffix of the format)')
    made.add_argument('--dynamic', action='store_true', help='leave height and width of the images open')
    made.add_argument('--size', nargs='+', type=int, metavar='H',
                      help="H, or H W, of the images (default: the config's)")
    made.add_argument('--features', action='store_true',
                      help='the maps of backbone and neck, not what the task predicts')
    made.add_argument('--int8', action='store_true', help='quantise to 8 bits (onnx, openvino)')
    made.add_argument('--calibration', metavar='DIR',
                      help="images for --int8 (default: the config's validation data)")
    made.add_argument('--cfg-options', nargs='+', action=ConfigOptions, metavar='KEY=VALUE',
                      help='replace fields of the config')
    return made


@command_line
def main(argv: Sequence[str]) -> None:
    args = parser().parse_args(argv)
    # Imported here, so that a missing library ends with one line that says how to install it.
    from mmflatten.export.export import export_model
    from mmflatten.export.formats import SUFFIXES, check_format
    from mmflatten.export.wrappers import ExportError
    if args.size is not None and (len(args.size) > 2 or min(args.size) < 1):
        raise ExportError(f'--size {" ".join(map(str, args.size))}: give H, or H W')
    file = args.out or str(Path(args.checkpoint).with_suffix(SUFFIXES.get(args.format, '')))
    check_format(args.format, file, args.int8)
    if Path(file).resolve() == Path(args.checkpoint).resolve():
        raise ExportError(f'--out ({file}) is the checkpoint itself; name another file')
    with quiet_libraries():
        report = export_model(
            args.config, args.checkpoint, file, format=args.format, dynamic=args.dynamic, int8=args.int8,
            size=args.size and (args.size[0], args.size[-1]), features=args.features, calibration=args.calibration,
            options=args.cfg_options)
    print(report)
