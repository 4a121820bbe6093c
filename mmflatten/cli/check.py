"""Check a recipe before training: length, batch, rates, weight decay, checkpoints and common mistakes.

    mmflatten check configs/flatten_swin/flatten-swin-t_8xb128_in1k.py --gpus 4
    mmflatten check CONFIG --cfg-options train_dataloader.batch_size=64 --dataset-size 50000

Needs no data, weights or GPU. Exits with status 1 if there is a warning.
"""
import logging
from argparse import ArgumentParser, Namespace
from typing import Any

from mmflatten.cli.common import add_config_options, command, positive
from mmflatten.console import quiet_libraries


def options(parser: ArgumentParser) -> None:
    """Add the options that `load_training` reads."""
    parser.add_argument('config', help='config file')
    parser.add_argument('--gpus', type=positive, metavar='N', help='number of GPUs (default: that of the config)')
    parser.add_argument('--dataset-size', type=positive, metavar='N',
                        help='number of training images (default: the known size of the data set, or counted)')
    add_config_options(parser, 'train_dataloader.batch_size=4')


def load_training(arguments: Namespace, auto_scale_lr: bool = False) -> Any:
    """Build the `Training` of the command line's config."""
    from mmflatten.config_files import read_config, require_parts
    from mmflatten.engine.setup import load_config, set_auto_scale_lr
    from mmflatten.recipes.settings import gpus_of
    from mmflatten.recipes.training import Training
    cfg = load_config(arguments.config, arguments.cfg_options)
    require_parts(cfg, 'model', 'train_dataloader', 'train_cfg', 'optim_wrapper')
    if auto_scale_lr:
        set_auto_scale_lr(cfg)
    gpus = arguments.gpus or gpus_of(read_config(arguments.config))  # before --cfg-options change the batch
    return Training(cfg, gpus, arguments.dataset_size)


@command('check', __doc__, options)
def main(args: Namespace) -> int:
    with quiet_libraries(logging.ERROR):  # MMEngine warns of each frozen parameter
        training = load_training(args)
        from mmflatten.recipes.checks import warnings_of
        from mmflatten.recipes.report import render_report
        warnings = warnings_of(training)
        print(render_report(training, warnings))
    if args.gpus is None:
        print(f'(--gpus: {training.gpus}, from the config)')
    return 1 if warnings else 0
