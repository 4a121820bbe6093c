"""Train a classifier, detector, segmentor or stereo model from a config."""
import argparse
from collections.abc import Sequence

from mmflatten.cli.common import seed, tool_parser
from mmflatten.console import command_line

CONFIG_DTYPE = 'config'


def parser() -> argparse.ArgumentParser:
    from mmflatten.config_files import ConfigOptions
    from mmflatten.engine.train import NEWEST
    made = tool_parser(__doc__, prog='mmflatten train')
    made.add_argument('config', help='config file')
    made.add_argument('--work-dir', help='where logs and checkpoints go; default work_dirs/<config name>')
    made.add_argument('--resume', nargs='?', const=NEWEST, metavar='CKPT',
                      help='go on from this checkpoint, or from the newest whole one in the work dir')
    made.add_argument('--amp', nargs='?', const=CONFIG_DTYPE, choices=[CONFIG_DTYPE, 'float16', 'bfloat16'],
                      help="mixed precision; the default type is the config's, else float16, and bfloat16 on the CPU")
    made.add_argument('--auto-scale-lr', action='store_true', help='scale the learning rate with the total batch size')
    made.add_argument('--strategy', choices=['ddp', 'fsdp', 'deepspeed'],
                      help='on several processes: ddp, each holds all weights and optimizer states (the default), '
                           'fsdp, they share them out, or deepspeed, they share out all but the weights (ZeRO stage 2)')
    made.add_argument('--track', choices=['tensorboard', 'mlflow', 'wandb'],
                      help='report scalars, drawings of the validation and the config there too')
    made.add_argument('--no-validate', action='store_true', help='do not validate during training')
    made.add_argument('--seed', type=seed, help='seed of Python, NumPy, PyTorch, samplers and loaders')
    made.add_argument('--cfg-options', nargs='+', action=ConfigOptions, metavar='KEY=VALUE',
                      help='replace fields of the config, for example train_dataloader.batch_size=4')
    made.add_argument('--launcher', choices=['none', 'pytorch', 'slurm', 'mpi'], default='none',
                      help='set by dist_train.sh and slurm_train.sh')
    return made


@command_line
def main(argv: Sequence[str]) -> None:
    args = parser().parse_args(argv)
    # Imported here, so that a missing library ends with one line that says how to install it.
    from mmflatten.engine.setup import load_config, set_amp, set_auto_scale_lr
    from mmflatten.engine.strategies import set_strategy
    from mmflatten.engine.tracking import add_tracking
    from mmflatten.engine.train import set_resume, train
    cfg = load_config(args.config, args.cfg_options, args.work_dir, args.launcher)
    set_strategy(cfg, args.strategy)
    if args.amp is not None:
        set_amp(cfg, None if args.amp == CONFIG_DTYPE else args.amp)
    if args.auto_scale_lr:
        set_auto_scale_lr(cfg)
    if args.no_validate:
        cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
    if args.seed is not None:
        cfg.randomness = {**cfg.get('randomness', {}), 'seed': args.seed}
    set_resume(cfg, args.resume)
    if args.track is not None:
        add_tracking(cfg, args.track)
    train(cfg, command=['mmflatten', 'train', *argv])
