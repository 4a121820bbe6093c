"""Check a recipe before training: length, batch, rates, weight decay, checkpoints and common mistakes.

    mmflatten check configs/flatten_swin/flatten-swin-t_8xb128_in1k.py --gpus 4
    mmflatten check CONFIG --cfg-options train_dataloader.batch_size=64 --dataset-size 50000

Needs no data, weights or GPU. Exits with status 1 if there is a warning.
"""
from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mmflatten.cli.common import positive, tool_parser
from mmflatten.console import command_line, quiet_libraries

if TYPE_CHECKING:
    from mmflatten.recipes.training import Training


def recipe_parser(description: str, command: str) -> argparse.ArgumentParser:
    """Make a parser with the options that `load_training` reads."""
    from mmflatten.config_files import ConfigOptions
    made = tool_parser(description, prog=command, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('config', help='config file')
    made.add_argument('--gpus', type=positive, metavar='N', help='number of GPUs (default: that of the config)')
    made.add_argument('--dataset-size', type=positive, metavar='N',
                      help='number of training images (default: the known size of the data set, or counted)')
    made.add_argument('--cfg-options', nargs='+', action=ConfigOptions, metavar='KEY=VALUE',
                      help='override config fields, for example train_dataloader.batch_size=4')
    return made


def load_training(arguments: argparse.Namespace, auto_scale_lr: bool = False) -> Training:
    """Build the training of the command line's config."""
    # Imported here, so that a missing library ends with one line that says how to install it.
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


def parser() -> argparse.ArgumentParser:
    return recipe_parser(__doc__, 'mmflatten check')


@command_line
def main(argv: Sequence[str]) -> int:
    arguments = parser().parse_args(argv)
    with quiet_libraries(logging.ERROR):  # MMEngine warns of each frozen parameter
        training = load_training(arguments)
        from mmflatten.recipes.checks import warnings_of
        from mmflatten.recipes.report import render_report
        warnings = warnings_of(training)
        print(render_report(training, warnings))
    if arguments.gpus is None:
        print(f'(--gpus: {training.gpus}, from the config)')
    return 1 if warnings else 0
