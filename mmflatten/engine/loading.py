"""Loading a checkpoint into a runner's model: whole files only, and a word when it does not fit."""
import re
from typing import Any

from mmengine.hooks import Hook
from mmengine.model import BaseTTAModel, is_model_wrapper
from mmengine.runner import Runner

from mmflatten.engine.checkpoint_files import CheckpointError, require_whole

_NAMED_KEYS = 3
# MMEngine's words, and PyTorch's where a hook (the moving average) loads before the model does.
_MISMATCHES = ('The model and loaded state dict do not match exactly', 'Error(s) in loading state_dict')


class _LoadingGuard(Hook):
    """Looks at a checkpoint between reading it and loading it into the model."""

    priority = 'HIGHEST'

    def __init__(self) -> None:
        self.filename = ''

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
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
    load = runner.load_checkpoint
    guard = _LoadingGuard()
    runner.register_hook(guard)

    def guarded(filename: str, *args: Any, **kwargs: Any) -> dict:
        require_local_whole(filename)
        guard.filename = filename
        kwargs['strict'] = kwargs.get('strict', False) or strict
        try:
            return load(filename, *args, **kwargs)
        except RuntimeError as error:
            if not any(words in str(error) for words in _MISMATCHES):
                raise
            raise CheckpointError(mismatch_message(filename, str(error))) from error

    runner.load_checkpoint = guarded


def require_local_whole(filename: str) -> None:
    """`require_whole` for a path on this machine; addresses with a scheme are left to MMEngine."""
    if '://' not in str(filename):
        require_whole(filename)


def mismatch_message(filename: str, report: str) -> str:
    """Shorten MMEngine's list of everything that does not fit to the first keys of each kind."""
    parts = []
    for label, pattern in (('missing', r'^missing keys in source state_dict: (.*)$'),
                           ('not in the model', r'^unexpected key in source state_dict: (.*)$')):
        found = re.search(pattern, report, flags=re.MULTILINE)
        if found:
            parts.append(f'{label}: {_first(found[1].split(", "))}')
    shapes = re.findall(r'size mismatch for (?:module\.)?(\S+): copying a param with shape (.+?) from checkpoint, '
                        r'the shape in current model is (.+?)\.?$', report, flags=re.MULTILINE)
    if shapes:
        parts.append('of another shape: ' + _first([f'{key} {old} instead of {new}' for key, old, new in shapes]))
    return f'checkpoint {filename} does not fit the model of the config: ' + '; '.join(parts)


def _first(names: list[str]) -> str:
    rest = len(names) - _NAMED_KEYS
    return ', '.join(names[:_NAMED_KEYS]) + (f' and {rest} more' if rest > 0 else '')


def _require_overlap(filename: str, weights: dict, runner: Runner) -> None:
    model = runner.model
    while is_model_wrapper(model) or isinstance(model, BaseTTAModel):
        model = model.module
    loaded = [re.sub(r'^module\.', '', key) for key in weights]
    wanted = model.state_dict()
    if not any(key in wanted for key in loaded):
        raise CheckpointError(
            f'checkpoint {filename} has no key of the model: it begins with {_first(loaded)} and the model with '
            f'{_first(list(wanted))}; convert it with tools/convert_checkpoint.py')
