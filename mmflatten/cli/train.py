"""Train a classifier, detector, segmentor or stereo model from a config."""

import os
from argparse import ArgumentParser, Namespace

from mmflatten.cli.common import add_config_options, add_launcher, command, folder_name, seed

CONFIG_DTYPE = 'config'


def options(parser: ArgumentParser) -> None:
    parser.add_argument('config', help='config file')
    parser.add_argument(
        '--work-dir',
        type=folder_name,
        help='folder for logs and checkpoints (default: work_dirs/<config name>)',
    )
    parser.add_argument(
        '--resume',
        nargs='?',
        const='newest',
        metavar='CKPT',
        help='resume from this checkpoint, or without a value from the newest one in the work dir',
    )
    parser.add_argument(
        '--amp',
        nargs='?',
        const=CONFIG_DTYPE,
        choices=[CONFIG_DTYPE, 'float16', 'bfloat16'],
        help=(
            "mixed precision (default type: the config's, or else float16 on GPUs, bfloat16 on"
            ' CPUs)'
        ),
    )
    parser.add_argument(
        '--auto-scale-lr',
        action='store_true',
        help='scale the learning rate with the total batch: linearly, for Adam by its square root',
    )
    parser.add_argument(
        '--no-validate', action='store_true', help='do not validate during training'
    )
    parser.add_argument(
        '--seed', type=seed, help='random seed of Python, NumPy, PyTorch, samplers and loaders'
    )
    parser.add_argument(
        '--deterministic',
        action='store_true',
        help=(
            'deterministic algorithms only: on a CPU, two runs with one --seed are equal bit'
            ' for bit'
        ),
    )
    parser.add_argument(
        '--compile',
        nargs='?',
        const='inductor',
        choices=['inductor', 'aot_eager', 'graphs'],
        help=(
            "compile the backbone's blocks (default: inductor; aot_eager finds errors) or CUDA"
            ' graphs'
        ),
    )
    add_config_options(parser, 'train_dataloader.batch_size=4')
    add_launcher(parser, 'dist_train.sh and slurm_train.sh')


@command('train', __doc__, options)
def main(args: Namespace) -> None:
    from mmflatten.config import config_file

    config = config_file(args.config)  # a wrong name is an error before PyTorch is imported

    from mmflatten.engine import setup

    cfg = setup.load_config(
        config,
        options=args.cfg_options,
        work_dir=args.work_dir,
        launcher=args.launcher,
    )
    if args.amp is not None:
        setup.set_amp(cfg, None if args.amp == CONFIG_DTYPE else args.amp)
    if args.auto_scale_lr:
        setup.set_auto_scale_lr(cfg)
    if args.no_validate:
        cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
    if args.seed is not None:
        cfg.randomness = {**cfg.get('randomness', {}), 'seed': args.seed}
    if args.deterministic:
        os.environ.setdefault('CUBLAS_WORKSPACE_CONFIG', ':4096:8')  # read by cuBLAS when it starts
        # An operator without a deterministic algorithm raises RuntimeError.
        cfg.randomness = {**cfg.get('randomness', {}), 'deterministic': True}
    if args.compile is not None:
        setup.set_compile(cfg, args.compile)
    setup.set_resume(cfg, args.resume)
    setup.train(cfg, command=['mmflatten', 'train', *args.argv])
