"""Test a checkpoint: top-1/5, box and mask mAP, mIoU, or end-point error, as the config's evaluator says."""
import argparse
from collections.abc import Sequence

from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line


def parser() -> argparse.ArgumentParser:
    from mmflatten.config_files import ConfigOptions
    made = tool_parser(__doc__, prog='mmflatten test')
    made.add_argument('config', help='config file')
    made.add_argument('checkpoint', help='checkpoint file; every key must fit the model')
    made.add_argument('--work-dir', help='where the log goes; default work_dirs/<config name>/test')
    made.add_argument('--out', metavar='FILE',
                      help='NAME.pkl: predictions, and the metrics in NAME.json; NAME.json: the metrics alone')
    made.add_argument('--show-dir', help='folder for a drawing of every image')
    made.add_argument('--tta', action='store_true',
                      help="test-time augmentation: the config's own, else flips (and scales for det and seg)")
    made.add_argument('--cfg-options', nargs='+', action=ConfigOptions, metavar='KEY=VALUE',
                      help='replace fields of the config, for example test_dataloader.batch_size=4')
    made.add_argument('--launcher', choices=['none', 'pytorch', 'slurm', 'mpi'], default='none',
                      help='set by dist_test.sh')
    return made


@command_line
def main(argv: Sequence[str]) -> None:
    args = parser().parse_args(argv)
    # Imported here, so that a missing library ends with one line that says how to install it.
    from mmflatten.engine.setup import load_config
    from mmflatten.engine.test import test
    from mmflatten.engine.tta import add_tta
    cfg = load_config(args.config, args.cfg_options, args.work_dir, args.launcher, subfolder='test')
    if args.tta:
        add_tta(cfg)
    test(cfg, args.checkpoint, out=args.out, show_dir=args.show_dir)
