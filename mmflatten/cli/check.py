"""Check a recipe before training: length, rates, weight decay, checkpoints, common mistakes.

    mmflatten check configs/flatten_swin/flatten-swin-t_8xb128_in1k.py --gpus 4
    mmflatten check CONFIG --cfg-options train_dataloader.batch_size=64 --dataset-size 50000

Tries one batch of each loader whose data are on this machine, in the model with random weights.
Needs no data, weights or GPU. Exits with status 1 if there is a warning.
"""

import logging
from argparse import ArgumentParser, Namespace
from typing import Any

from mmflatten.cli.common import add_config_options, command, positive
from mmflatten.console import quiet_libraries


def options(parser: ArgumentParser) -> None:
    parser.add_argument('config', help='config file')
    parser.add_argument(
        '--gpus', type=positive, metavar='N', help='number of GPUs (default: that of the config)'
    )
    parser.add_argument(
        '--dataset-size',
        type=positive,
        metavar='N',
        help='number of training images (default: the known size of the data set, or counted)',
    )
    parser.add_argument(
        '--auto-scale-lr',
        action='store_true',
        help='scale the learning rate with the total batch: linearly, for Adam by its square root',
    )
    add_config_options(parser, 'train_dataloader.batch_size=4')


def load_training(arguments: Namespace) -> Any:
    """Build the `Training` of the command line's config."""
    from mmflatten.config import read_config, require_parts
    from mmflatten.engine.recipe.settings import gpus_of
    from mmflatten.engine.recipe.training import Training
    from mmflatten.engine.setup import load_config, set_auto_scale_lr

    cfg = load_config(arguments.config, arguments.cfg_options)
    require_parts(cfg, 'model', 'train_dataloader', 'train_cfg', 'optim_wrapper')
    if arguments.auto_scale_lr:
        set_auto_scale_lr(cfg)
    # The number of GPUs follows from the batch of the file, without --cfg-options.
    gpus = arguments.gpus or gpus_of(read_config(arguments.config))
    return Training(cfg, gpus, arguments.dataset_size)


@command('check', __doc__, options)
def main(args: Namespace) -> int:
    with quiet_libraries(logging.ERROR):  # MMEngine warns of each frozen parameter
        training = load_training(args)
        from mmflatten.engine.recipe.batches import try_batches
        from mmflatten.engine.recipe.checks import warnings_of
        from mmflatten.engine.recipe.schedule import schedule_of

        warnings, schedule = warnings_of(training), schedule_of(training)
        problems, notes = try_batches(training.cfg)
    known = [text for _, text in warnings]
    warnings += [('batches', problem) for problem in problems if problem not in known]
    print(f'{_facts(training)}')
    for note in notes:
        print(f'batches      {note}')
    print(f'\n{schedule.render()}\n')
    if not warnings:
        print('no warnings')
        return 0
    for name, text in warnings:
        print(f'warning ({name}): {text}')
    return 1


def _facts(training: Any) -> str:
    """Format data, batch, length and checkpoints of a training."""
    from mmflatten.engine.optim import count_frozen
    from mmflatten.engine.recipe.settings import base_batch, grad_accum_steps

    per_gpu = training.cfg.train_dataloader.batch_size
    accumulated = grad_accum_steps(training.cfg)
    seen = training.iterations * training.gpus * per_gpu
    base = base_batch(training.cfg) or 'an unknown batch'
    files = training.checkpoints
    return f"""\
data         {training.data.name}, {training.data.images:,} images, {seen:,} seen
batch        {training.batch} = {training.gpus} GPUs x {per_gpu} x {accumulated} accumulated; \
the rate is for {base}, scaled by {training.lr_factor:.4g} ({training.rate_rule.name} rule)
length       {training.describe_length()}
checkpoints  {files.size / 1e6:.0f} MB each, at most {files.most / 1e9:.1f} GB on the disk
frozen       {count_frozen(training.model):,} parameters"""
