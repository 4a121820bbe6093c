"""Learning rate, weight decay, momentum and EMA momentum of every iteration, without training.

    mmflatten schedule CONFIG
    mmflatten schedule CONFIG --gpus 4 --dataset-size 50000 --out schedule

Writes DIR/schedule.png and DIR/schedule.csv and prints a row for each parameter group.
"""
import logging
from argparse import ArgumentParser, Namespace

from mmflatten.cli import check
from mmflatten.cli.common import add_output, command, positive
from mmflatten.console import quiet_libraries

POINTS = 2000  # of a curve, by default


def options(parser: ArgumentParser) -> None:
    check.options(parser)
    add_output(parser, 'schedule', 'schedule.png and schedule.csv')
    parser.add_argument('--auto-scale-lr', action='store_true',
                        help='scale the learning rate with the total batch size')
    parser.add_argument('--every', type=positive, metavar='N',
                        help=f'keep every N-th iteration (default: about {POINTS} points)')


@command('schedule', __doc__, options)
def main(args: Namespace) -> None:
    with quiet_libraries(logging.ERROR):  # MMEngine warns of each frozen parameter
        training = check.load_training(args, args.auto_scale_lr)
        from mmflatten.recipes.schedule import schedule_of
        from mmflatten.results.drawing import draw_schedule
        schedule = schedule_of(training, args.every or max(1, training.iterations // POINTS))
    panels = {'learning rate': schedule.values['lr'], 'weight decay': schedule.values['weight_decay'],
              'momentum': schedule.values['momentum']}
    if schedule.ema is not None:
        panels['EMA momentum'] = schedule.ema[:, None]
    args.out.mkdir(parents=True, exist_ok=True)
    schedule.write_csv(args.out / 'schedule.csv')
    draw_schedule(schedule.iterations, panels, args.out / 'schedule.png')
    length = f'{training.iterations:,} iterations'
    if training.by_epoch:
        length = f'{training.length} epochs of {training.epoch_length:,} iterations'
    print(f'{length}, {training.gpus} x {training.cfg.train_dataloader.batch_size} of {training.data.images:,} images '
          f'({training.data.source})\n{schedule.render()}\n\n{args.out}')
