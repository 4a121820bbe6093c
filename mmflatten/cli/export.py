"""Export a checkpoint to ONNX, and compare the file with PyTorch.

    mmflatten export CONFIG CHECKPOINT --dynamic
    mmflatten export CONFIG CHECKPOINT --size 512 683 --out model.onnx
    mmflatten export CONFIG CHECKPOINT --dynamic --images photos

ONNX Runtime and OpenVINO read the file. See docs/export.md.
"""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from mmflatten.cli.common import add_config_options, add_model, command
from mmflatten.console import quiet_libraries


def options(parser: ArgumentParser) -> None:
    add_model(parser, checkpoint='checkpoint file; all keys must match the model')
    parser.add_argument(
        '--out',
        metavar='FILE',
        help='file to write (default: the checkpoint with the suffix .onnx)',
    )
    parser.add_argument(
        '--dynamic', action='store_true', help='leave height, width and number of the images open'
    )
    parser.add_argument(
        '--size',
        nargs='+',
        type=int,
        metavar='H',
        help='H, or H W, of the images (default: size in the config)',
    )
    parser.add_argument(
        '--features',
        action='store_true',
        help="export the maps of backbone and neck instead of the task's predictions",
    )
    parser.add_argument(
        '--images',
        nargs='+',
        default=(),
        metavar='PATH',
        help='images or folders for the comparison, which else uses noise alone, and for --int8',
    )
    precision = parser.add_mutually_exclusive_group()
    precision.add_argument(
        '--int8', action='store_true', help='quantise layers with weights, calibrated by --images'
    )
    precision.add_argument(
        '--bfloat16',
        action='store_true',
        help='file for OpenVINO with bfloat16, if the processor has it',
    )
    parser.add_argument(
        '--max-drift',
        type=float,
        default=0.05,
        metavar='X',
        help='largest mean difference from PyTorch of --int8 and --bfloat16 (default: %(default)s)',
    )
    add_config_options(parser, 'model.backbone.with_cp=False')


@command('export', __doc__, options)
def main(args: Namespace) -> None:
    from mmflatten.export.export import export_model
    from mmflatten.export.onnx_files import SUFFIX
    from mmflatten.export.wrappers import ExportError

    if args.size is not None and (len(args.size) > 2 or min(args.size) < 1):
        raise ExportError(
            f'--size: expected one or two positive integers, got {" ".join(map(str, args.size))}.'
        )
    file = args.out or str(Path(args.checkpoint).with_suffix(SUFFIX))
    # `resolve` fails for a link to itself
    if os.path.realpath(file) == os.path.realpath(args.checkpoint):
        raise ExportError(f'--out: expected a file other than the checkpoint, got {file}.')
    with quiet_libraries():
        lines = export_model(
            args.config,
            args.checkpoint,
            file,
            dynamic=args.dynamic,
            options=args.cfg_options,
            size=args.size and (args.size[0], args.size[-1]),
            features=args.features,
            images=args.images,
            precision=_precision(args),
            max_drift=args.max_drift,
        )
    print(*lines, sep='\n')


def _precision(args: Namespace) -> str:
    if args.int8:
        return 'int8'
    return 'bfloat16' if args.bfloat16 else 'float32'
