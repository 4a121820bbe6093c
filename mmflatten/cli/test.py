"""Test a checkpoint with the config's evaluator: accuracy, box and mask mAP, mIoU or end-point error."""
import argparse
from collections.abc import Sequence

from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line


def parser() -> argparse.ArgumentParser:
    from mmflatten.config_files import ConfigOptions
    parser = tool_parser(__doc__, prog='mmflatten test')
    parser.add_argument('config', help='config file')
    parser.add_argument('checkpoint', help='checkpoint file; all keys must match the model')
    parser.add_argument('--work-dir', help='folder for the log (default: work_dirs/<config name>/test)')
    parser.add_argument('--out', metavar='FILE',
                        help='NAME.pkl: predictions, with metrics in NAME.json; NAME.json: metrics only')
    parser.add_argument('--show-dir', help='folder for a drawing of every image')
    parser.add_argument('--tta', action='store_true',
                        help="test-time augmentation: the config's, or else flips, with scales for detection and "
                             'segmentation')
    parser.add_argument('--cfg-options', nargs='+', action=ConfigOptions, metavar='KEY=VALUE',
                        help='override fields of the config, for example test_dataloader.batch_size=4')
    parser.add_argument('--launcher', choices=['none', 'pytorch', 'slurm', 'mpi'], default='none',
                        help='set by dist_test.sh')
    return parser


@command_line
def main(argv: Sequence[str]) -> None:
    args = parser().parse_args(argv)
    # Imported here, so that a missing library gives a one-line error.
    from mmflatten.engine.setup import load_config
    from mmflatten.engine.test import add_tta, test
    cfg = load_config(args.config, args.cfg_options, args.work_dir, args.launcher, subfolder='test')
    if args.tta:
        add_tta(cfg)
    test(cfg, args.checkpoint, out=args.out, show_dir=args.show_dir)
