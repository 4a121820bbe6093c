"""Learning rate, weight decay, momentum and EMA momentum of every iteration, without training.

    mmflatten schedule CONFIG
    mmflatten schedule CONFIG --gpus 4 --dataset-size 50000 --out schedule

Writes DIR/schedule.png and DIR/schedule.csv and prints a row for each group of parameters.
"""
from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mmflatten.cli.common import output_folder, positive, tool_parser
from mmflatten.console import command_line, quiet_libraries

if TYPE_CHECKING:
    from mmengine.config import Config

    from mmflatten.recipes.schedule import Schedule

POINTS = 2000  # of a curve, by default


def parser() -> argparse.ArgumentParser:
    from mmflatten.config_files import ConfigOptions
    made = tool_parser(__doc__, prog='mmflatten schedule', formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('config', help='config file')
    made.add_argument('--out', type=output_folder, default='schedule', metavar='DIR',
                      help='folder of figure and table (default: schedule)')
    made.add_argument('--gpus', type=positive, metavar='N',
                      help='GPUs you train on (default: those that the config is written for)')
    made.add_argument('--dataset-size', type=positive, metavar='N',
                      help='training images (default: the known size of the data set, else counted)')
    made.add_argument('--auto-scale-lr', action='store_true', help='scale the learning rate with the total batch size')
    made.add_argument('--every', type=positive, metavar='N',
                      help=f'keep each N-th iteration (default: as many as give {POINTS} points)')
    made.add_argument('--cfg-options', nargs='+', action=ConfigOptions, metavar='KEY=VALUE',
                      help='replace fields of the config, for example train_cfg.max_epochs=100')
    return made


@command_line
def main(argv: Sequence[str]) -> None:
    args = parser().parse_args(argv)
    # Imported here, so that a missing library ends with one line that says how to install it.
    from mmflatten.config_files import read_config, require_parts
    from mmflatten.engine.setup import load_config, set_auto_scale_lr
    from mmflatten.recipes.recipe import gpus_of
    from mmflatten.recipes.schedule import schedule_of
    from mmflatten.recipes.training import Training
    cfg = load_config(args.config, args.cfg_options)
    require_parts(cfg, 'model', 'train_dataloader', 'train_cfg', 'optim_wrapper')
    if args.auto_scale_lr:
        set_auto_scale_lr(cfg)
    gpus = args.gpus or gpus_of(read_config(args.config))  # before --cfg-options change the batch
    with quiet_libraries(logging.ERROR):  # MMEngine warns of each frozen parameter
        training = Training.of(cfg, gpus, args.dataset_size or _count(cfg))
        schedule = schedule_of(training, args.every or max(1, training.iterations // POINTS))
    _write(schedule, args.out)
    length = (f'{training.length} epochs of {training.epoch_length:,} iterations' if training.by_epoch
              else f'{training.iterations:,} iterations')
    print(f'{length}, {gpus} x {cfg.train_dataloader.batch_size} of {training.data.images:,} images '
          f'({training.data.source})\n{schedule.render()}\n\n{args.out}')


def _count(cfg: Config) -> int | None:
    """Images of a data set whose size is neither known nor quickly counted; it must be there."""
    from mmengine.registry import DefaultScope

    from mmflatten.engine.datasets import DatasetError, build_dataset
    from mmflatten.recipes.datasets import training_set
    dataset = cfg.train_dataloader.dataset
    if training_set(dataset).images:
        return None
    try:
        with DefaultScope.overwrite_default_scope(cfg.get('default_scope', 'mmengine')):
            return len(build_dataset(dataset))
    except DatasetError as error:
        raise DatasetError(f'{error}; or tell the number of training images: --dataset-size') from error


def _write(schedule: Schedule, out: Path) -> None:
    """`schedule.csv` and `schedule.png`."""
    from mmflatten.results.drawing import draw_schedule
    panels = {'learning rate': schedule.values['lr'], 'weight decay': schedule.values['weight_decay'],
              'momentum': schedule.values['momentum']}
    if schedule.ema is not None:
        panels['EMA momentum'] = schedule.ema[:, None]
    out.mkdir(parents=True, exist_ok=True)
    schedule.write_csv(out / 'schedule.csv')
    draw_schedule(schedule.iterations, panels, out / 'schedule.png')
