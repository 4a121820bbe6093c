"""A training from a config: how it resumes, and what to type after an interruption."""
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
# `dist_train.sh` and `slurm_train.sh` put the command line here that the user typed.
COMMAND_VARIABLE = 'MMFLATTEN_COMMAND'


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C during training; the message says how to go on."""


def set_resume(cfg: Config, resume: str | None) -> None:
    """Let a config continue from a checkpoint.

    Args:
        resume: A path, or `newest` for the newest whole checkpoint in the work directory. Where there is none yet,
            training starts from the beginning and says so, so that a job which is restarted by its cluster can
            always be given `--resume`. None leaves the config as it is; its own `resume=True` means `newest`.
    """
    if resume is None and cfg.get('resume') and not cfg.get('load_from'):
        resume = NEWEST
    if resume is None:
        return
    if resume == NEWEST:
        path = newest_checkpoint(cfg.work_dir)
        if path is None:
            cfg.resume = False
            print_log(f'--resume: {cfg.work_dir} holds no checkpoint yet, so training starts from the beginning',
                      logger='current', level=logging.WARNING)
            return
        resume = str(path)
    else:
        require_whole(resume)
    print_log(f'Resuming from {resume}', logger='current')
    cfg.load_from, cfg.resume = resume, True


def train(cfg: Config, command: Sequence[str] = ()) -> None:
    """Run the training that a config describes.

    Args:
        command: The command line, repeated with `--resume` in the message after Ctrl-C. The script that started this
            process puts its own into a variable of the environment, which goes before.

    Raises:
        TrainingInterrupted: after Ctrl-C.
    """
    require_parts(cfg, 'model', 'train_dataloader', 'train_cfg', 'optim_wrapper')
    runner = build_runner(cfg)
    try:
        runner.train()
    except KeyboardInterrupt as error:
        last = runner.message_hub.runtime_info.get('last_ckpt') or (cfg.load_from if cfg.get('resume') else None)
        where = f'the last whole checkpoint is {last}' if last else 'no checkpoint had been saved'
        # Of several `--resume` the last one counts, so it goes behind whatever was typed.
        typed = (os.environ.get(COMMAND_VARIABLE) or shlex.join(command)).strip().removesuffix(' --resume')
        raise TrainingInterrupted(f'interrupted; {where}; go on with: {typed} --resume') from error
