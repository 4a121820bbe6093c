"""Export a checkpoint to ONNX, OpenVINO or PyTorch's pt2, and compare the file with PyTorch.

    mmflatten export CONFIG CHECKPOINT --dynamic
    mmflatten export CONFIG CHECKPOINT --format openvino --size 512 683 --out model.xml

See docs/export.md.
"""
import argparse
from argparse import ArgumentParser, Namespace
from pathlib import Path

from mmflatten.cli.common import add_config_options, add_model, command
from mmflatten.console import quiet_libraries


def options(parser: ArgumentParser) -> None:
    add_model(parser, checkpoint='checkpoint file; all keys must match the model')
    parser.add_argument('--format', default='onnx', help='onnx, openvino, pt2 (default: onnx)')
    parser.add_argument('--out', metavar='FILE',
                        help='file to write (default: the checkpoint with the suffix of the format)')
    parser.add_argument('--dynamic', action='store_true', help='leave height and width of the images open')
    parser.add_argument('--size', nargs='+', type=int, metavar='H',
                        help='H, or H W, of the images (default: size in the config)')
    parser.add_argument('--features', action='store_true',
                        help="export the maps of backbone and neck instead of the task's predictions")
    parser.add_argument('--half', action='store_true', help='weights and arithmetic in float16')
    parser.add_argument('--int8', action='store_true', help=argparse.SUPPRESS)
    parser.add_argument('--calibration', help=argparse.SUPPRESS)
    add_config_options(parser, 'model.backbone.with_cp=False')


@command('export', __doc__, options)
def main(args: Namespace) -> None:
    from mmflatten.export.export import export_model
    from mmflatten.export.formats import SUFFIXES, check_format
    from mmflatten.export.wrappers import ExportError
    if args.int8 or args.calibration is not None:
        raise ExportError('--int8 and --calibration were removed. Quantise the exported ONNX file with onnxruntime or '
                          'the OpenVINO file with nncf.')
    if args.size is not None and (len(args.size) > 2 or min(args.size) < 1):
        raise ExportError(f'--size: expected one or two positive integers, got {" ".join(map(str, args.size))}.')
    file = args.out or str(Path(args.checkpoint).with_suffix(SUFFIXES.get(args.format, '')))
    check_format(args.format, file)
    if Path(file).resolve() == Path(args.checkpoint).resolve():
        raise ExportError(f'--out: expected a file other than the checkpoint, got {file}.')
    with quiet_libraries():
        report = export_model(
            args.config, args.checkpoint, file, format=args.format, dynamic=args.dynamic,
            size=args.size and (args.size[0], args.size[-1]), features=args.features, half=args.half,
            options=args.cfg_options)
    print(report)
