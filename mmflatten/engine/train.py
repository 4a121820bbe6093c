"""Train from a config, resume, and report how to continue after an interruption."""
import logging
import os
import shlex
from collections.abc import Sequence

from mmengine.config import Config
from mmengine.logging import print_log

from mmflatten.config_files import require_parts
from mmflatten.engine.checkpoints.files import newest_checkpoint, require_whole
from mmflatten.engine.setup import build_runner

NEWEST = 'newest'
# Set by `dist_train.sh` and `slurm_train.sh` to the command line of the user.
COMMAND_VARIABLE = 'MMFLATTEN_COMMAND'


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C during training. The message gives the command that continues."""


def set_resume(cfg: Config, resume: str | None) -> None:
    """Make a config resume from a checkpoint.

    Args:
        resume: A path, or `newest` for the newest complete checkpoint in the work directory. Without checkpoints,
            training starts from the beginning with a warning, so a job that its cluster restarts can always have
            `--resume`. None leaves the config unchanged; its own `resume=True` means `newest`.
    """
    if resume is None and cfg.get('resume') and not cfg.get('load_from'):
        resume = NEWEST
    if resume is None:
        return
    if resume != NEWEST:
        require_whole(resume)
    elif (path := newest_checkpoint(cfg.work_dir)) is not None:
        resume = str(path)
    else:
        cfg.resume = False
        print_log(f'--resume: {cfg.work_dir} has no checkpoint yet, so training starts from the beginning',
                  logger='current', level=logging.WARNING)
        return
    print_log(f'Resuming from {resume}', logger='current')
    cfg.load_from, cfg.resume = resume, True


def train(cfg: Config, command: Sequence[str] = ()) -> None:
    """Run the training of a config.

    Args:
        command: The command line, repeated with `--resume` in the message after Ctrl-C. The environment variable that
            launch scripts set takes precedence.

    Raises:
        TrainingInterrupted: after Ctrl-C.
    """
    require_parts(cfg, 'model', 'train_dataloader', 'train_cfg', 'optim_wrapper')
    runner = build_runner(cfg)
    try:
        runner.train()
    except KeyboardInterrupt as error:
        last = runner.message_hub.runtime_info.get('last_ckpt') or (cfg.load_from if cfg.get('resume') else None)
        where = f'The last checkpoint is {last}.' if last else 'There is no checkpoint yet.'
        # argparse uses the last of several `--resume`.
        typed = (os.environ.get(COMMAND_VARIABLE) or shlex.join(command)).strip().removesuffix(' --resume')
        raise TrainingInterrupted(f'interrupted. {where} Continue with: {typed} --resume') from error
