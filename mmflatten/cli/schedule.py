"""Learning rate, weight decay, momentum and EMA momentum of every iteration, without training.

    mmflatten schedule CONFIG
    mmflatten schedule CONFIG --gpus 4 --dataset-size 50000 --out schedule

Writes DIR/schedule.png and DIR/schedule.csv and prints a row for each parameter group.
"""
from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mmflatten.cli.check import load_training, recipe_parser
from mmflatten.cli.common import output_folder, positive
from mmflatten.console import command_line, quiet_libraries

if TYPE_CHECKING:
    from mmflatten.recipes.schedule import Schedule

POINTS = 2000  # of a curve, by default


def parser() -> argparse.ArgumentParser:
    made = recipe_parser(__doc__, 'mmflatten schedule')
    made.add_argument('--out', type=output_folder, default='schedule', metavar='DIR',
                      help='output folder (default: schedule)')
    made.add_argument('--auto-scale-lr', action='store_true', help='scale the learning rate with the total batch size')
    made.add_argument('--every', type=positive, metavar='N',
                      help=f'keep every N-th iteration (default: about {POINTS} points)')
    return made


@command_line
def main(argv: Sequence[str]) -> None:
    args = parser().parse_args(argv)
    with quiet_libraries(logging.ERROR):  # MMEngine warns of each frozen parameter
        training = load_training(args, args.auto_scale_lr)
        from mmflatten.recipes.schedule import schedule_of
        schedule = schedule_of(training, args.every or max(1, training.iterations // POINTS))
    _write(schedule, args.out)
    length = f'{training.iterations:,} iterations'
    if training.by_epoch:
        length = f'{training.length} epochs of {training.epoch_length:,} iterations'
    print(f'{length}, {training.gpus} x {training.cfg.train_dataloader.batch_size} of {training.data.images:,} images '
          f'({training.data.source})\n{schedule.render()}\n\n{args.out}')


def _write(schedule: Schedule, out: Path) -> None:
    """Write `schedule.csv` and `schedule.png`."""
    from mmflatten.results.drawing import draw_schedule
    panels = {'learning rate': schedule.values['lr'], 'weight decay': schedule.values['weight_decay'],
              'momentum': schedule.values['momentum']}
    if schedule.ema is not None:
        panels['EMA momentum'] = schedule.ema[:, None]
    out.mkdir(parents=True, exist_ok=True)
    schedule.write_csv(out / 'schedule.csv')
    draw_schedule(schedule.iterations, panels, out / 'schedule.png')
