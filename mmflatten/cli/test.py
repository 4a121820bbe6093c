"""Test a checkpoint, or a file of `mmflatten export`, with the evaluator of the config.

The metrics are accuracy, box and mask mAP, PQ, mIoU or end-point error.
"""

from argparse import ArgumentParser, Namespace

from mmflatten.cli.common import (
    add_config_options,
    add_launcher,
    add_model,
    add_runtime,
    command,
    folder_name,
)


def options(parser: ArgumentParser) -> None:
    add_model(parser, checkpoint='checkpoint, whose keys must all match the model, or model.onnx')
    parser.add_argument(
        '--work-dir',
        type=folder_name,
        help='folder for the log (default: work_dirs/<config name>/test)',
    )
    parser.add_argument(
        '--out',
        metavar='FILE',
        help='NAME.pkl: predictions, with metrics in NAME.json; NAME.json: metrics only',
    )
    parser.add_argument('--show-dir', type=folder_name, help='folder for a drawing of every image')
    parser.add_argument(
        '--tta',
        action='store_true',
        help=(
            "test-time augmentation: the config's tta_model and tta_pipeline, or else flips, with"
            ' scales for segmentation; detectors have no default'
        ),
    )
    add_config_options(parser, 'test_dataloader.batch_size=4')
    add_runtime(parser)
    add_launcher(parser, 'dist_test.sh and slurm_test.sh')


@command('test', __doc__, options)
def main(args: Namespace) -> None:
    from mmflatten.config import config_file

    config = config_file(args.config)  # a wrong name is an error before PyTorch is imported

    from mmflatten.engine.setup import load_config
    from mmflatten.engine.test import add_tta, test
    from mmflatten.runtime.configs import use_model

    cfg = load_config(
        config,
        options=args.cfg_options,
        work_dir=args.work_dir,
        launcher=args.launcher,
        subfolder='test',
    )
    is_file = use_model(cfg, args.checkpoint, args.runtime)
    if args.tta:
        add_tta(cfg)
    test(cfg, args.checkpoint, out=args.out, show_dir=args.show_dir, has_weights=not is_file)
