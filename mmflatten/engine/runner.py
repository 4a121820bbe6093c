"""Loading a checkpoint into a runner's model: whole files only, and a word when it does not fit."""
import logging
import re
from typing import Any

from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmflatten.engine.checkpoints.files import CheckpointError, require_whole
from mmflatten.engine.checkpoints.reading import holds_stand_ins, use_safe_reading
from mmflatten.engine.hooks.channels import bare_model
from mmflatten.engine.misfits import first, is_misfit_report, misfit_message

# What makes a training go on as if it had not stopped.
_TRAINING_STATE = ('meta', 'message_hub', 'optimizer', 'param_schedulers')


class _LoadingGuard(Hook):
    """Looks at a checkpoint between reading it and loading it into the model."""

    priority = 'HIGHEST'

    def __init__(self) -> None:
        self.filename = ''

    def after_load_checkpoint(self, runner: Runner, checkpoint: Any) -> None:
        if not isinstance(checkpoint, dict):
            raise CheckpointError(f'checkpoint {self.filename} holds no dict of weights but an object of another kind; '
                                  'save the state_dict() of a model in the code that knows its class')
        if runner._resume:
            _require_training_state(self.filename, checkpoint, runner)
        if 'state_dict' not in checkpoint:
            # A bare state dict, which MMEngine accepts but its moving average does not.
            weights = dict(checkpoint)
            checkpoint.clear()
            checkpoint['state_dict'] = weights
        _require_overlap(self.filename, checkpoint['state_dict'], runner)


def guard_loading(runner: Runner, strict: bool) -> None:
    """Make `runner.load_checkpoint` (testing, resuming and `load_from` go through it) refuse what cannot be right.

    MMEngine loads what fits and logs the rest, so a checkpoint of another architecture gives a random model.

    Args:
        strict: True where the model must come back as it was (testing, resuming): every key and shape must fit.
            False for fine-tuning from `load_from`: the head may differ, but a file of which nothing fits is refused.
    """
    use_safe_reading()
    load = runner.load_checkpoint
    guard = _LoadingGuard()
    runner.register_hook(guard)

    def guarded(filename: str, *args: Any, **kwargs: Any) -> dict:
        guard.filename = filename
        kwargs['strict'] = kwargs.get('strict', False) or strict
        try:
            return load(filename, *args, **kwargs)
        except RuntimeError as error:
            if not is_misfit_report(str(error)):
                raise
            raise CheckpointError(misfit_message(filename, str(error))) from error

    runner.load_checkpoint = guarded


def require_local_whole(filename: str) -> None:
    """`require_whole` for a path on this machine; addresses with a scheme are left to MMEngine."""
    if '://' not in str(filename):
        require_whole(filename)


def _require_overlap(filename: str, weights: dict, runner: Runner) -> None:
    loaded = [re.sub(r'^module\.', '', key) for key in weights]
    wanted = bare_model(runner.model).state_dict()
    if not any(key in wanted for key in loaded):
        raise CheckpointError(
            f'checkpoint {filename} has no key of the model: it begins with {first(loaded)} and the model with '
            f'{first(list(wanted))}; convert it with tools/convert_checkpoint.py')


def _require_training_state(filename: str, checkpoint: dict, runner: Runner) -> None:
    if 'meta' not in checkpoint or 'message_hub' not in checkpoint:
        raise CheckpointError(
            f'checkpoint {filename} holds weights without the state of a training, so it cannot be resumed; to start '
            f'from its weights: --cfg-options load_from={filename}')
    state = {name: checkpoint[name] for name in _TRAINING_STATE if name in checkpoint}
    if holds_stand_ins(state):
        raise CheckpointError(
            f'checkpoint {filename} holds a training state with objects that only their own code could restore, so it '
            f'cannot be resumed; to start from its weights: --cfg-options load_from={filename}')
    # MMEngine would run this text as Python, for the sake of a field that configs no longer have.
    checkpoint['meta'].pop('config', None)
    lacking = [name for name in _TRAINING_STATE if name not in checkpoint]
    if lacking:
        runner.logger.log(logging.WARNING, f'{filename} holds no {" and no ".join(lacking)}: these start anew')
