"""Give blocks of a trained model another attention: swap it in, align each block, then distil the
whole.

    mmflatten linearize CONFIG CHECKPOINT --attention FocusedLinearAttention
    mmflatten linearize CONFIG CHECKPOINT --attention AgentAttention --blocks auto \\
        --size 800 1280 --budget 0.7

The result is an ordinary config with its checkpoint. The same command resumes. See
lab/docs/linearize.md.
"""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from mmflatten.cli.common import (
    add_config_options,
    add_launcher,
    add_model,
    command,
    output_folder,
    positive,
)

STEPS = ('align', 'distil')


def options(parser: ArgumentParser) -> None:
    add_model(parser, 'config of the trained model', 'its checkpoint')
    parser.add_argument(
        '--attention',
        required=True,
        metavar='MIXER',
        help=(
            'class with arguments, such as '
            'FocusedLinearAttention:kernel_size=3, or the path by which Python imports yours'
        ),
    )
    parser.add_argument(
        '--blocks', type=blocks, default='all', help='all (default), auto, or numbers: 0,1,5'
    )
    parser.add_argument(
        '--size',
        type=positive,
        nargs=2,
        metavar=('H', 'W'),
        help='with auto: size of the images at which time is measured',
    )
    parser.add_argument(
        '--budget', type=share, help='with auto: time of the backbone, as a share of now'
    )
    parser.add_argument(
        '--images',
        type=folder,
        metavar='FOLDER',
        help='learn from these images without labels (default: the training data of the config)',
    )
    parser.add_argument(
        '--epochs',
        type=above_zero,
        default=1.0,
        metavar='N',
        help='passes over the images in each step, for example 0.5 (default: 1)',
    )
    parser.add_argument(
        '--steps',
        nargs='*',
        choices=STEPS,
        default=list(STEPS),
        help='steps after the swap (default: align distil)',
    )
    parser.add_argument(
        '--out',
        type=output_folder,
        default=None,
        metavar='DIR',
        help='folder of the result (default: work_dirs/linearized/<config name>)',
    )
    parser.add_argument(
        '--amp',
        nargs='?',
        const='config',
        choices=['config', 'float16', 'bfloat16'],
        help='mixed precision, as in `mmflatten train`',
    )
    add_config_options(parser, 'optim_wrapper.optimizer.lr=1e-3')
    add_launcher(parser, 'torchrun and srun')


def blocks(text: str) -> str | list[int]:
    if text in ('all', 'auto'):
        return text
    numbers = text.split(',')
    if not all(number.strip().isdecimal() for number in numbers):
        raise ArgumentTypeError(f'expected all, auto or numbers such as 0,1,5, got {text}')
    return sorted({int(number) for number in numbers})


def above_zero(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise ArgumentTypeError(f'expected a number above 0, got {text}')
    return value


def share(text: str) -> float:
    value = above_zero(text)
    if value >= 1:
        raise ArgumentTypeError(f'expected a number between 0 and 1, got {text}')
    return value


def folder(text: str) -> str:
    if not Path(text).is_dir():
        raise ArgumentTypeError(f'expected a folder, got {text}')
    return text


@command('linearize', __doc__, options)
def main(args: Namespace) -> None:
    from mmengine.dist import init_dist, is_distributed, is_main_process

    from mmflatten.console import print_progress
    from mmflatten.engine.setup import load_config
    from mmflatten.measure.speed.operators import mixer_config
    from mmflatten_lab.linearize.step_configs import Settings
    from mmflatten_lab.linearize.steps import Linearization

    if (args.blocks == 'auto') != (args.size is not None and args.budget is not None):
        main.parser().error('--size and --budget belong to --blocks auto, which needs both')
    out = args.out or Path('work_dirs', 'linearized', Path(args.config).stem)
    cfg = load_config(args.config, launcher=args.launcher, work_dir=str(out))
    if args.launcher != 'none' and not is_distributed():
        init_dist(args.launcher, **cfg.env_cfg.dist_cfg)
    attention = mixer_config(args.attention)
    settings = Settings(
        config=args.config,
        checkpoint=args.checkpoint,
        attention=attention,
        blocks=args.blocks,
        size=args.size,
        budget=args.budget,
        images=args.images,
        epochs=args.epochs,
        steps=args.steps,
        options=args.cfg_options or {},
        amp=args.amp,
    )
    tell = print_progress if is_main_process() else lambda line: None
    work = Linearization(cfg, settings, out, tell, ['mmflatten', 'linearize', *args.argv])
    result = work.run()
    if is_main_process():
        print(f'{result.with_suffix(".py")}\n{result}')
