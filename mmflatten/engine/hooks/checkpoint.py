"""Periodic checkpoints that survive a kill, a full disk and a diverging model, and resume where they were."""
import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from mmengine.dist import get_rank, is_main_process
from mmengine.fileio import BaseStorageBackend
from mmengine.hooks import CheckpointHook as _CheckpointHook
from mmengine.runner import EpochBasedTrainLoop, Runner

from mmflatten.checkpoints.rules import shorten
from mmflatten.engine.checkpoints import random_states
from mmflatten.engine.checkpoints.files import CheckpointWriteError, remove_leftovers
from mmflatten.engine.checkpoints.pieces import SHARDED
from mmflatten.engine.strategies import is_sharded
from mmflatten.registry import HOOKS

_STATE_KEY = 'mmflatten'


class NonFiniteWeightsError(ArithmeticError):
    """The model holds NaN or infinite weights, so it is not worth a checkpoint."""


class _LateRemoval:
    """A file backend whose removals wait: MMEngine deletes an outdated checkpoint before it writes the new one."""

    def __init__(self, backend: BaseStorageBackend) -> None:
        self.outdated: list[str] = []
        self.backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    def remove(self, filepath: str) -> None:
        self.outdated.append(str(filepath))

    rmtree = remove

    def remove_now(self, kept: set) -> None:
        for path in set(self.outdated) - kept:
            (self.backend.rmtree if self.backend.isdir(path) else self.backend.remove)(path)


@HOOKS.register_module()
class CheckpointHook(_CheckpointHook):
    """MMEngine's checkpoint hook, made safe; every argument of the original is accepted.

    - An outdated checkpoint is deleted only after the new one is whole (`max_keep_ckpts`, `save_best`); that it is
      written aside and renamed is the Runner's part.
    - A model with NaN or infinite weights is never saved: it raises NonFiniteWeightsError.
    - The random states of every process and the seed of the sampler travel with the checkpoint. With
      `num_workers=0` a resumed run on the CPU equals an uninterrupted one bit for bit. Two things are not restored:
      random augmentations inside data-loading processes (they start from the seed again; the order of the samples is
      exact), and gradients accumulated but not yet applied when `accumulative_counts` does not divide the interval.

    Args:
        interval (int | None): Epochs or iterations between checkpoints. None, the default, takes
            `train_cfg.val_interval`, so that what is validated is what is saved.
        by_epoch (bool | None): None, the default, counts what the training loop counts.
        sharded (bool): With the strategy `fsdp`, write folders `epoch_1.sharded` to which each process adds its part,
            instead of files that one process writes alone.
    """

    def __init__(self, interval: int | None = None, by_epoch: bool | None = None, sharded: bool = False,
                 **kwargs: Any) -> None:
        super().__init__(interval=-1 if interval is None else interval, by_epoch=bool(by_epoch), **kwargs)
        self._given = dict(interval=interval, by_epoch=by_epoch, template=kwargs.get('filename_tmpl'))
        self.sharded = sharded
        self._saved_states: dict[str, Any] = {}
        self._resumed_states: dict[str, Any] = {}

    def before_train(self, runner: Runner) -> None:
        if self.sharded and not (is_sharded(runner.cfg) and runner.cfg.strategy == 'fsdp'):
            raise ValueError('CheckpointHook(sharded=True) writes the parts of --strategy fsdp; leave sharded out')
        self._follow_loop(runner)
        super().before_train(runner)
        if self.sharded and '://' in str(self.out_dir):
            raise ValueError(f'CheckpointHook(sharded=True) needs a folder to write to, and out_dir is {self.out_dir}')
        if is_main_process() and '://' not in str(self.out_dir):
            remove_leftovers(self.out_dir)
        if runner._resume:
            # The hub remembers the path of the run before; the file may have moved since.
            self.last_ckpt = str(runner._load_from)
            runner.message_hub.update_info('last_ckpt', self.last_ckpt)
        _isolate_loaders(runner)
        self._restore(runner)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        checkpoint[_STATE_KEY] = self._saved_states

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        if runner._resume:
            self._resumed_states = checkpoint.get(_STATE_KEY, {})

    def _follow_loop(self, runner: Runner) -> None:
        given, self.by_epoch = self._given['by_epoch'], isinstance(runner.train_loop, EpochBasedTrainLoop)
        unit = 'epoch' if self.by_epoch else 'iter'
        if given not in (None, self.by_epoch):
            raise ValueError(f'CheckpointHook(by_epoch={given}) does not fit a training loop that counts each {unit}: '
                             'its checkpoints could not be resumed where they were taken; leave by_epoch out')
        self.filename_tmpl = self._given['template'] or f'{unit}_{{}}.pth'
        if self.sharded:
            self.filename_tmpl = self.filename_tmpl.removesuffix('.pth') + SHARDED
        if self._given['interval'] is None:
            self.interval = runner.train_loop.val_interval

    def _restore(self, runner: Runner) -> None:
        states, self._resumed_states = self._resumed_states, {}
        if not states:
            return
        sampler = _train_sampler(runner)
        if states.get('sampler_seed') is not None and hasattr(sampler, 'seed'):
            sampler.seed = states['sampler_seed']
        ranks = states['random']
        if len(ranks) != runner.world_size:
            runner.logger.warning(f'The checkpoint holds the random states of {len(ranks)} processes and this run has '
                                  f'{runner.world_size}: they start from the seed')
            return
        random_states.restore(ranks[get_rank()])

    def _save_checkpoint_with_step(self, runner: Runner, step: int, meta: dict) -> None:
        _require_finite_weights(runner, meta['iter'], self.last_ckpt)
        # Every process takes part here; the saving below is the main process' alone.
        self._saved_states = dict(
            random=random_states.capture_all_ranks(), sampler_seed=getattr(_train_sampler(runner), 'seed', None))
        with self._replacing(runner):
            super()._save_checkpoint_with_step(runner, step, meta)

    def _save_best_checkpoint(self, runner: Runner, metrics: dict) -> None:
        unknown = [key for key in self.key_indicators if key not in ('auto', *metrics)] if self.save_best else []
        if unknown:
            raise ValueError(
                f'save_best ({", ".join(unknown)}) is no metric of this run; there are: {", ".join(metrics)}')
        with self._replacing(runner):
            super()._save_best_checkpoint(runner, metrics)

    @contextlib.contextmanager
    def _replacing(self, runner: Runner) -> Iterator[None]:
        """Keep outdated checkpoints until the new ones are whole, and call the old one the last if that fails."""
        if isinstance(self.file_backend, _LateRemoval):  # saving the best saves the last once more
            yield
            return
        previous, self.file_backend = self.last_ckpt, _LateRemoval(self.file_backend)
        late = self.file_backend
        try:
            yield
        except BaseException as error:
            self.last_ckpt = previous
            runner.message_hub.update_info('last_ckpt', previous)
            if isinstance(error, CheckpointWriteError):
                kept = f'the last good checkpoint is {previous}' if previous else 'no checkpoint was there before'
                raise CheckpointWriteError(error.errno, f'{error.strerror}; {kept}; go on with --resume') from error
            raise
        finally:
            self.file_backend = late.backend
        best = getattr(self, 'best_ckpt_path_dict', {})
        late.remove_now(kept={getattr(self, 'best_ckpt_path', None), *best.values()})


def _require_finite_weights(runner: Runner, iteration: int, last_good: str | None) -> None:
    broken = [name for name, weight in runner.model.named_parameters() if not weight.detach().isfinite().all()]
    if broken:
        raise NonFiniteWeightsError(
            f'the weights are NaN or infinite at iteration {iteration} ({shorten(broken, 3)}), so they are not saved; '
            f'last good checkpoint: {last_good or "none yet"}; lower the learning rate or clip gradients, then go on '
            'with --resume')


def _train_sampler(runner: Runner) -> Any:
    """The sampler that orders the samples; a batch sampler hides it one level down."""
    loader = runner.train_loop.dataloader
    return loader.sampler if hasattr(loader.sampler, 'seed') else getattr(loader.batch_sampler, 'sampler', None)


def _isolate_loaders(runner: Runner) -> None:
    """Give the data loaders a generator of their own.

    Starting to iterate one draws a number. Drawn from the global generator it would shift all later random numbers
    of a resumed run, which starts its loaders once more than the uninterrupted one.
    """
    loops = (runner.train_loop, runner.val_loop)
    for loader in [loop.dataloader for loop in loops if loop is not None]:
        if loader.generator is None:
            loader.generator = torch.Generator().manual_seed(runner.seed)
