"""Learning rate, weight decay and momentum of every iteration, without training.

    mmflatten schedule CONFIG
    mmflatten schedule CONFIG --gpus 4 --dataset-size 50000 --out schedule

Writes DIR/schedule.png and DIR/schedule.csv and prints a row for each parameter group.
"""
import logging
from argparse import ArgumentParser, Namespace

from mmflatten.cli import check
from mmflatten.cli.common import add_output, command, positive
from mmflatten.console import quiet_libraries


def options(parser: ArgumentParser) -> None:
    check.options(parser)
    add_output(parser, 'schedule', 'schedule.png and schedule.csv')
    parser.add_argument('--auto-scale-lr', action='store_true',
                        help='scale the learning rate with the total batch size')
    parser.add_argument('--every', type=positive, metavar='N',
                        help='keep every N-th iteration (default: about 2000 points)')


@command('schedule', __doc__, options)
def main(args: Namespace) -> None:
    with quiet_libraries(logging.ERROR):  # MMEngine warns of each frozen parameter
        training = check.load_training(args, args.auto_scale_lr)
        from mmflatten.engine.recipe.schedule import schedule_of
        from mmflatten.results.drawing import save_png
        from mmflatten.results.figures import Lines
        schedule = schedule_of(training, args.every)
    args.out.mkdir(parents=True, exist_ok=True)
    schedule.write_csv(args.out / 'schedule.csv')
    save_png(args.out / 'schedule.png', {kind.replace('_', ' '): Lines(
        {f'group {number}': (schedule.iterations, column) for number, column in enumerate(values.T, 1)}, 'iteration',
        limits=(0, None)) for kind, values in schedule.values.items()})
    print(f'{training.describe_length()}, {training.gpus} x {training.cfg.train_dataloader.batch_size} of '
          f'{training.data.images:,} images\n{schedule.render()}\n\n{args.out}')
