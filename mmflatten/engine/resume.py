"""Resuming with another config than the checkpoint's: what differs is listed, and the config's
values take effect.

MMEngine's `resume` restores optimizer and schedulers as they were, whatever the config says now.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from mmengine.runner import EpochBasedTrainLoop, Runner

from mmflatten.checkpoints.run_files import CheckpointError
from mmflatten.text import shorten

SETTINGS = 'settings'  # of the training, in a checkpoint's `meta`
# names of two of them
OPTIMIZER = 'optim_wrapper.optimizer.type'
EPOCH_LENGTH = 'iterations per epoch'
# state of a scheduler
_PROGRESS = {'last_step', '_global_step', '_last_value', 'base_values', 'verbose'}


def settings_of(runner: Runner) -> dict[str, Any]:
    """Return the settings of a training that the states of its optimizer and schedulers do not
    hold.
    """
    wrapper = runner.optim_wrapper
    loader = runner.train_loop.dataloader
    schedulers = runner.param_schedulers if isinstance(runner.param_schedulers, list) else []
    batch_size = getattr(loader.batch_sampler, 'batch_size', loader.batch_size)
    if isinstance(runner.train_loop, EpochBasedTrainLoop):
        length = {'train_cfg.max_epochs': runner.max_epochs}
    else:
        length = {'train_cfg.max_iters': runner.max_iters}
    settings = {
        OPTIMIZER: type(getattr(wrapper, 'optimizer', wrapper)).__name__,
        'optim_wrapper.accumulative_counts': getattr(wrapper, '_accumulative_counts', 1),
        'optim_wrapper.clip_grad': getattr(wrapper, 'clip_grad_kwargs', None),
        'param_scheduler types': [type(item).__name__ for item in schedulers],
        **length,
        'train_dataloader.batch_size': batch_size,
        'number of training images': len(loader.dataset),
        'number of processes': runner.world_size,
        EPOCH_LENGTH: len(loader),
    }
    return _plain(settings)


class Configured:
    """Parameter groups and schedulers as the config makes them, kept while MMEngine restores those
    of a checkpoint.
    """

    def __init__(self, runner: Runner) -> None:
        self.groups = [_without_params(group) for group in runner.optim_wrapper.param_groups]
        self.schedulers = [dict(item.state_dict()) for item in runner.param_schedulers or []]
        self.settings = settings_of(runner)

    def require_resumable(self, checkpoint: Mapping[str, Any], filename: str) -> None:
        """Raise CheckpointError for the state of another optimizer."""
        saved = checkpoint['meta'].get(SETTINGS) or {}
        problem = self._optimizer_type_problem(saved) or self._groups_problem(checkpoint)
        if problem:
            raise CheckpointError(
                f'checkpoint {filename} cannot be resumed: {problem}. To start from its weights: '
                f'--cfg-options load_from={filename}'
            )

    def differences(
        self, runner: Runner, saved: Mapping[str, Any]
    ) -> Iterator[tuple[str, Any, Any]]:
        """Yield each field whose value in the checkpoint, now restored, is not the config's, with
        both values.
        """
        for name, value in saved.items():
            # A length in the other unit is a difference, too.
            comparable = name in self.settings or name.startswith('train_cfg')
            if comparable and value != self.settings.get(name):
                yield name, value, self.settings.get(name)
        yield from self._optimizer_differences(runner)
        yield from self._scheduler_differences(runner)

    def apply(self, runner: Runner) -> None:
        """Restore the config's values, and step its schedulers up to the iteration of the
        checkpoint.

        Raises CheckpointError for schedulers that depend on metrics, whose steps are not known.
        """
        schedulers = runner.param_schedulers or []
        if any(getattr(item, 'need_val_args', False) for item in schedulers):
            raise CheckpointError(
                'param_scheduler depends on the metrics of the validation, so a changed training '
                'cannot be resumed. Undo the changes, or start from the weights with load_from.'
            )
        # The iteration at the start of an epoch changes with the length of an epoch.
        loop = runner.train_loop
        epoch_length = None
        if isinstance(loop, EpochBasedTrainLoop):
            epoch_length = self.settings[EPOCH_LENGTH]
            loop._iter = loop.epoch * epoch_length
        # Optimizer and schedulers return to their states before the first iteration.
        for group, values in zip(runner.optim_wrapper.param_groups, self.groups):
            group.update(values)
        for item, state in zip(schedulers, self.schedulers):
            item.load_state_dict(state)
        _replay(schedulers, iterations=loop.iter, epoch_length=epoch_length)

    def _optimizer_type_problem(self, saved: Mapping[str, Any]) -> str:
        now = self.settings[OPTIMIZER]
        before = saved.get(OPTIMIZER, now)
        if before == now:
            return ''
        return f'{OPTIMIZER}: expected {before} as in the checkpoint, got {now}'

    def _groups_problem(self, checkpoint: Mapping[str, Any]) -> str:
        now = len(self.groups)
        before = len((checkpoint.get('optimizer') or {}).get('param_groups', self.groups))
        # The last of ours may hold MMEngine's base values.
        if before in (now, now - 1):
            return ''
        return f'optim_wrapper.paramwise_cfg: expected {before} parameter groups, got {now}'

    def _optimizer_differences(self, runner: Runner) -> Iterator[tuple[str, Any, Any]]:
        listed = set()  # each field once, though there may be hundreds of groups
        for group, new in zip(runner.optim_wrapper.param_groups, self.groups):
            old = _without_params(group)
            for key in _different_keys(old, new):
                scheduled = f'initial_{key}' in new
                if key not in listed and not scheduled:
                    listed.add(key)
                    name = key.removeprefix('initial_')
                    yield f'optim_wrapper.optimizer.{name}', old.get(key), new.get(key)

    def _scheduler_differences(self, runner: Runner) -> Iterator[tuple[str, Any, Any]]:
        for number, (item, new) in enumerate(zip(runner.param_schedulers or [], self.schedulers)):
            if getattr(item, 'need_val_args', False):  # its state depends on the metrics so far
                continue
            old = item.state_dict()
            for key in _different_keys(old, new):
                if key not in _PROGRESS:
                    name = key.lstrip('_')
                    yield f'param_scheduler.{number}.{name}', old.get(key), new.get(key)


def resume_as_configured(runner: Runner, configured: Configured, saved: Mapping[str, Any]) -> None:
    """List what differs from the checkpoint that a runner has resumed, and let the config's values
    take effect.
    """
    differences = sorted(configured.differences(runner, saved), key=itemgetter(0))
    if not differences:
        return
    lines = []
    for name, old, new in differences:
        lines.append(f'{name}: {_plain(old)} in the checkpoint, {_plain(new)} now')
    configured.apply(runner)
    runner.logger.warning(
        '--resume: the config differs from the checkpoint, and its values take effect from '
        f'iteration {runner.iter + 1}: {shorten(lines, 30)}'
    )


def _replay(schedulers: Sequence[Any], iterations: int, epoch_length: int | None) -> None:
    """Step new schedulers as in `iterations` iterations of a training.

    Each step computes its value from the one before, so that only all steps in turn give the exact
    values of an uninterrupted training.

    Args:
        epoch_length: iterations of an epoch, after which schedulers by epoch step; None for a
            training without epochs, in which they never do.
    """
    by_iteration = [item for item in schedulers if not item.by_epoch]
    by_epoch = [item for item in schedulers if item.by_epoch]
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # the optimizer has not stepped yet
        for iteration in range(1, iterations + 1):
            for item in by_iteration:
                item.step()
            if epoch_length is None or iteration % epoch_length:
                continue
            for item in by_epoch:
                item.step()


def _different_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    keys = sorted(old.keys() | new.keys())
    return [key for key in keys if _plain(old.get(key)) != _plain(new.get(key))]


def _without_params(group: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in group.items() if key != 'params'}


def _plain(value: Any) -> Any:
    """Return lists for tuples, and numbers for tensors, which are equal after a checkpoint."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value.tolist() if hasattr(value, 'tolist') else value
