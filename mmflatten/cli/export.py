"""Export a checkpoint to ONNX, and compare the file with PyTorch.

    mmflatten export CONFIG CHECKPOINT --dynamic
    mmflatten export CONFIG CHECKPOINT --size 512 683 --out model.onnx

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
        '--dynamic', action='store_true', help='leave height and width of the images open'
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
        )
    print(*lines, sep='\n')
