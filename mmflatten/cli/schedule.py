"""Learning rate, weight decay, momentum and EMA momentum of every iteration, without training.

    mmflatten schedule CONFIG
    mmflatten schedule CONFIG --epoch-length 1251 --out schedule

Writes DIR/schedule.png and DIR/schedule.csv and prints a row for each group of parameters.
"""
import argparse
from collections.abc import Sequence

from mmflatten.cli.predict import positive
from mmflatten.engine.cli import command_line, tool_parser

POINTS = 2000  # of a curve, by default


def parser() -> argparse.ArgumentParser:
    from mmflatten.engine.config_files import ConfigOptions
    made = tool_parser(__doc__, prog='mmflatten schedule', formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('config', help='config file')
    made.add_argument('--out', default='schedule', metavar='DIR',
                      help='folder of figure and table (default: schedule)')
    made.add_argument('--epoch-length', type=positive, metavar='N',
                      help='iterations of an epoch on each GPU (default: counted, which needs the training data)')
    made.add_argument('--gpus', type=positive, default=1, metavar='N', help='GPUs of the training (default: 1)')
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
    from pathlib import Path

    from mmflatten.engine.config_files import require_parts
    from mmflatten.engine.schedule import read_schedule
    from mmflatten.engine.setup import load_config, set_auto_scale_lr
    from mmflatten.visualization.curves import draw_schedule
    cfg = load_config(args.config, args.cfg_options)
    require_parts(cfg, 'model', 'train_dataloader', 'train_cfg', 'optim_wrapper')
    if args.auto_scale_lr:
        set_auto_scale_lr(cfg)
    loop, schedule = read_schedule(cfg, args.gpus, args.epoch_length, args.every, POINTS)
    panels = {'learning rate': schedule.values['lr'], 'weight decay': schedule.values['weight_decay'],
              'momentum': schedule.values['momentum']}
    if schedule.ema is not None:
        panels['EMA momentum'] = schedule.ema[:, None]
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    schedule.write_csv(out / 'schedule.csv')
    draw_schedule(schedule.iterations, panels, out / 'schedule.png')
    length = f'{loop.length} epochs of {loop.epoch_length} iterations' if loop.by_epoch else f'{loop.length} iterations'
    print(f'{length}\n{schedule.render()}\n\n{out / "schedule.png"}, {out / "schedule.csv"}')
