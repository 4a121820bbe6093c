"""Resuming with another config than the checkpoint's: what differs is listed, and the config's
values take effect.

MMEngine's `resume` restores optimizer and schedulers as they were, whatever the config says now.
"""

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from mmengine.runner import EpochBasedTrainLoop, Runner

from mmflatten.checkpoints.run_files import CheckpointError
from mmflatten.text import shorten

SETTINGS = 'settings'  # of the training, in a checkpoint's `meta`
# state of a scheduler
_PROGRESS = {'last_step', '_global_step', '_last_value', 'base_values', 'verbose'}


def settings_of(runner: Runner) -> dict[str, Any]:
    """Return the settings of a training that the states of its optimizer and schedulers do not
    hold.
    """
    loop, wrapper = runner.train_loop, runner.optim_wrapper
    loader = loop.dataloader
    batch_size = getattr(loader.batch_sampler, 'batch_size', loader.batch_size)
    schedulers = runner.param_schedulers if isinstance(runner.param_schedulers, list) else []
    if isinstance(loop, EpochBasedTrainLoop):
        length, value = 'train_cfg.max_epochs', runner.max_epochs
    else:
        length, value = 'train_cfg.max_iters', runner.max_iters
    return _plain(
        {
            'optim_wrapper.optimizer.type': type(getattr(wrapper, 'optimizer', wrapper)).__name__,
            'optim_wrapper.accumulative_counts': getattr(wrapper, '_accumulative_counts', 1),
            'optim_wrapper.clip_grad': getattr(wrapper, 'clip_grad_kwargs', None),
            'param_scheduler types': [type(item).__name__ for item in schedulers],
            length: value,
            'train_dataloader.batch_size': batch_size,
            'number of training images': len(loader.dataset),
            'number of processes': runner.world_size,
            'iterations per epoch': len(loader),
        }
    )


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
        key = 'optim_wrapper.optimizer.type'
        saved = checkpoint['meta'].get(SETTINGS) or {}
        number = len((checkpoint.get('optimizer') or {}).get('param_groups', self.groups))
        found = None
        if saved.get(key, self.settings[key]) != self.settings[key]:
            found = f'{key}: expected {saved[key]} as in the checkpoint, got {self.settings[key]}'
        # The last of ours may hold MMEngine's base values.
        elif number not in (len(self.groups), len(self.groups) - 1):
            found = (
                f'optim_wrapper.paramwise_cfg: expected {number} parameter groups, got'
                f' {len(self.groups)}'
            )
        if found:
            raise CheckpointError(
                f'checkpoint {filename} cannot be resumed: {found}. To start from its weights: '
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

    def apply(self, runner: Runner) -> None:
        """Restore the config's values, and step its schedulers up to the iteration of the
        checkpoint.

        Raises CheckpointError for schedulers that depend on metrics, whose steps are not known.
        """
        loop, schedulers = runner.train_loop, runner.param_schedulers or []
        if any(getattr(item, 'need_val_args', False) for item in schedulers):
            raise CheckpointError(
                'param_scheduler depends on the metrics of the validation, so a changed training '
                'cannot be resumed. Undo the changes, or start from the weights with load_from.'
            )
        if isinstance(loop, EpochBasedTrainLoop):
            # An epoch may have another length now.
            epoch = self.settings['iterations per epoch']
            loop._iter = loop.epoch * epoch
        else:
            epoch = loop.max_iters + 1  # schedulers by epoch never step
        for group, values in zip(runner.optim_wrapper.param_groups, self.groups):
            group.update(values)
        for item, state in zip(schedulers, self.schedulers):
            item.load_state_dict(state)
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # the optimizer has not stepped yet
            for iteration in range(1, loop.iter + 1):
                for item in schedulers:
                    if not item.by_epoch:
                        item.step()
                for item in schedulers:
                    if item.by_epoch and iteration % epoch == 0:
                        item.step()


def resume_as_configured(runner: Runner, configured: Configured, saved: Mapping[str, Any]) -> None:
    """List what differs from the checkpoint that a runner has resumed, and let the config's values
    take effect.
    """
    found = list(configured.differences(runner, saved))
    if found:
        lines = [
            f'{name}: {_plain(old)} in the checkpoint, {_plain(new)} now'
            for name, old, new in sorted(found, key=lambda item: item[0])
        ]
        configured.apply(runner)
        runner.logger.warning(
            '--resume: the config differs from the checkpoint, and its values take effect from '
            f'iteration {runner.iter + 1}: {shorten(lines, 30)}'
        )


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
