"""Periodic checkpoints that survive kills, full disks and diverging models, and from which training
resumes exactly.
"""

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.dist import all_gather_object, get_rank, is_main_process
from mmengine.hooks import CheckpointHook as _CheckpointHook
from mmengine.runner import EpochBasedTrainLoop, Runner

from mmflatten.checkpoints.run_files import CheckpointError, CheckpointWriteError, remove_leftovers
from mmflatten.engine.hooks.training import NonFiniteError
from mmflatten.registry import HOOKS
from mmflatten.text import shorten

_STATE_KEY = 'mmflatten'


@HOOKS.register_module()
class CheckpointHook(_CheckpointHook):
    """MMEngine's checkpoint hook with more safety. It accepts every argument of the original.

    - An outdated checkpoint is deleted only after the new one is complete (`max_keep_ckpts`,
      `save_best`). The Runner writes checkpoints atomically.
    - A model with NaN or infinite weights is not saved; NonFiniteError is raised.
    - The checkpoint contains the random states of all processes and the seed of the sampler. With
      `num_workers=0`, a resumed run on the CPU equals an uninterrupted one bit for bit. Two things
      are not restored: random augmentations in loader processes (they start from the seed; the
      order of the samples is exact), and accumulated gradients if `accumulative_counts` does not
      divide the interval.

    Args:
        interval (int | None): Epochs or iterations between checkpoints. None (default) uses
            `train_cfg.val_interval`.
        by_epoch (bool | None): None (default) uses the unit of the training loop.
    """

    def __init__(
        self, interval: int | None = None, by_epoch: bool | None = None, **kwargs: Any
    ) -> None:
        super().__init__(
            interval=-1 if interval is None else interval, by_epoch=bool(by_epoch), **kwargs
        )
        self._requested = dict(
            interval=interval, by_epoch=by_epoch, template=kwargs.get('filename_tmpl')
        )
        self._saved_states: dict[str, Any] = {}
        self._resumed_states: dict[str, Any] = {}

    def before_train(self, runner: Runner) -> None:
        # Unit, file name and interval follow the training loop where they are not configured.
        requested = self._requested['by_epoch']
        self.by_epoch = isinstance(runner.train_loop, EpochBasedTrainLoop)
        unit = 'epoch' if self.by_epoch else 'iter'
        if requested not in (None, self.by_epoch):
            raise ValueError(
                f'CheckpointHook(by_epoch={requested}): the training loop counts each {unit}, so'
                ' its checkpoints could not be resumed. Remove by_epoch.'
            )
        self.filename_tmpl = self._requested['template'] or f'{unit}_{{}}.pth'
        if self._requested['interval'] is None:
            self.interval = runner.train_loop.val_interval
        # MMEngine deletes outdated checkpoints by these numbers, which a resumed file states.
        ids = runner.message_hub.runtime_info.get('keep_ckpt_ids', [])
        are_numbers = isinstance(ids, list) and all(type(number) is int for number in ids)
        if not are_numbers:
            raise CheckpointError(
                f'checkpoint {runner._load_from}: keep_ckpt_ids: expected numbers, got '
                f'{str(ids)[:80]}. To start from its weights: --cfg-options load_from=FILE'
            )
        super().before_train(runner)
        if is_main_process() and '://' not in str(self.out_dir):
            remove_leftovers(self.out_dir)
        if runner._resume:
            # The message hub has the old path; the file may have been moved.
            self.last_ckpt = str(runner._load_from)
            runner.message_hub.update_info('last_ckpt', self.last_ckpt)
        # An iterator over a loader draws a number when it is created. From the global generator,
        # that would shift all later random numbers of a resumed run, which creates one iterator
        # more than an uninterrupted run.
        for loop in (runner.train_loop, runner.val_loop):
            if loop is not None and loop.dataloader.generator is None:
                loop.dataloader.generator = torch.Generator().manual_seed(runner.seed)
        self._restore(runner)

    def after_val_epoch(self, runner: Runner, metrics: dict[str, float] | None = None) -> None:
        if metrics:  # mmdet has none before the first detection; the original warns of it once more
            super().after_val_epoch(runner, metrics)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        checkpoint[_STATE_KEY] = self._saved_states

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        if runner._resume:
            self._resumed_states = checkpoint.get(_STATE_KEY, {})

    def _restore(self, runner: Runner) -> None:
        """Restore the random states of this process. A GPU state is ignored without a GPU."""
        states, self._resumed_states = self._resumed_states, {}
        if not states:
            return
        sampler = _train_sampler(runner)
        if states.get('sampler_seed') is not None and hasattr(sampler, 'seed'):
            sampler.seed = states['sampler_seed']
        if len(states['random']) != runner.world_size:
            runner.logger.warning(
                f'The checkpoint has random states of {len(states["random"])} processes and this'
                f' run has {runner.world_size}, so random states start from the seed'
            )
            return
        _set_random_states(states['random'][get_rank()])

    def _save_checkpoint_with_step(self, runner: Runner, step: int, meta: dict) -> None:
        # Losses that are still on the device: they may be NaN, and are saved.
        runner.call_hook('read_scalars')
        weights = runner.model.named_parameters()
        broken = [name for name, weight in weights if not weight.detach().isfinite().all()]
        if broken:
            raise NonFiniteError(
                f'weights are NaN or infinite at iteration {meta["iter"]} ({shorten(broken, 3)})'
                f' and were not saved. Last good checkpoint: {self.last_ckpt or "none yet"}. Lower'
                ' the learning rate or clip gradients, then continue with --resume.'
            )
        # Gathering is collective, unlike saving, which the main process may do alone.
        self._saved_states = dict(
            random=all_gather_object(_random_states()),
            sampler_seed=getattr(_train_sampler(runner), 'seed', None),
        )
        with self._replacing(runner):
            super()._save_checkpoint_with_step(runner, step, meta)

    def _save_best_checkpoint(self, runner: Runner, metrics: dict) -> None:
        indicators = self.key_indicators if self.save_best else []
        unknown = [key for key in indicators if key not in ('auto', *metrics)]
        if unknown:
            raise ValueError(
                f'save_best ({", ".join(unknown)}) is not a metric of this run. Choose one of '
                f'{", ".join(metrics)}.'
            )
        with self._replacing(runner):
            super()._save_best_checkpoint(runner, metrics)

    @contextlib.contextmanager
    def _replacing(self, runner: Runner) -> Iterator[None]:
        """Delete outdated checkpoints at the end, not before the new one is written as MMEngine
        0.10 does.

        If saving fails, restore the name of the last checkpoint.
        """
        # Saving the best checkpoint also saves the last one, inside this context.
        if isinstance(self.file_backend, _KeepingBackend):
            yield
            return
        previous, backend = self.last_ckpt, self.file_backend
        keeping = _KeepingBackend(backend, self.out_dir)
        self.file_backend = keeping
        try:
            yield
        except BaseException as error:
            self.last_ckpt = previous
            runner.message_hub.update_info('last_ckpt', previous)
            if isinstance(error, CheckpointWriteError):
                kept = 'There is no earlier checkpoint.'
                if previous:
                    kept = f'The last good checkpoint is {previous}.'
                raise CheckpointWriteError(
                    error.errno, f'{error.strerror}. {kept} Continue with --resume.'
                ) from error
            raise
        finally:
            self.file_backend = backend
        # The best checkpoint of one metric may be the outdated one of another.
        best = [getattr(self, 'best_ckpt_path', None)]
        best += getattr(self, 'best_ckpt_path_dict', {}).values()
        kept_paths = {keeping.here(path) for path in best if path}
        for path in keeping.outdated - kept_paths:
            backend.remove(path)


class _KeepingBackend:
    """File backend of a folder of checkpoints that collects the files to remove in `outdated`.

    It has the methods that MMEngine's hook calls.
    """

    def __init__(self, backend: Any, folder: str) -> None:
        self.backend = backend
        self.folder = folder
        self.outdated: set[str] = set()
        self.join_path = backend.join_path

    def here(self, path: str) -> str:
        """Return the path in this folder.

        A resumed checkpoint has the paths of others, and the run may have moved since.
        """
        return self.backend.join_path(self.folder, Path(path).name)

    def isfile(self, path: str) -> bool:
        return self.backend.isfile(self.here(path))

    def isdir(self, path: str) -> bool:
        return False

    def remove(self, path: str) -> None:
        self.outdated.add(self.here(path))


def _train_sampler(runner: Runner) -> Any:
    """Return the sampler that orders the samples, which may be inside a batch sampler."""
    loader = runner.train_loop.dataloader
    if hasattr(loader.sampler, 'seed'):
        return loader.sampler
    return getattr(loader.batch_sampler, 'sampler', None)


def _random_states() -> dict[str, Any]:
    """Return the random states of this process, in types that load safely."""
    name, keys, *rest = np.random.get_state()
    states = dict(
        python=random.getstate(),
        numpy=(name, torch.from_numpy(keys.astype(np.int64)), *rest),
        torch=torch.get_rng_state(),
    )
    if torch.cuda.is_available():
        states['cuda'] = torch.cuda.get_rng_state()
    return states


def _set_random_states(states: dict[str, Any]) -> None:
    random.setstate(states['python'])
    name, keys, *rest = states['numpy']
    np.random.set_state((name, keys.cpu().numpy().astype(np.uint32), *rest))
    torch.set_rng_state(states['torch'].cpu())
    if 'cuda' in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states['cuda'].cpu())
