"""The Runner of mmflatten: all changes to MMEngine in training and testing."""

import contextlib
import io
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mmengine.runner
import torch
from mmengine.device import get_device
from mmengine.dist import is_main_process
from mmengine.evaluator import Evaluator
from mmengine.logging import MMLogger
from mmengine.optim import BaseOptimWrapper, OptimWrapper, OptimWrapperDict
from mmengine.runner import BaseLoop
from mmengine.visualization import Visualizer
from torch import nn
from torch.utils.data import DataLoader

from mmflatten.checkpoints import loading
from mmflatten.checkpoints.run_files import CheckpointError, atomic_write
from mmflatten.engine.class_checks import compare_classes
from mmflatten.engine.datasets import build_dataset
from mmflatten.engine.learning_rate import rate_rule
from mmflatten.engine.models import bare_model, require_matching_channels
from mmflatten.engine.optim import frozen_summary
from mmflatten.engine.resume import SETTINGS, Configured, resume_as_configured, settings_of
from mmflatten.registry import RUNNERS
from mmflatten.requirements import gpu_problem

DEFAULT_HOOKS: dict[str, dict] = dict(
    runtime_info=dict(type='mmflatten.RuntimeInfoHook'),
    timer=dict(type='IterTimerHook'),
    sampler_seed=dict(type='DistSamplerSeedHook'),
    logger=dict(type='mmflatten.LoggerHook'),
    param_scheduler=dict(type='ParamSchedulerHook'),
    checkpoint=dict(type='mmflatten.CheckpointHook'),
    finite_loss=dict(type='mmflatten.FiniteLossHook'),
    data_checks=dict(type='mmflatten.CheckDataHook'),
)

START = (
    'checkpoint {0} of model.backbone.init_cfg does not exist. Train its classifier, or convert the'
    ' released one: mmflatten convert FILE {0} --family NAME (docs/checkpoints.md). Another place:'
    ' --cfg-options model.backbone.init_cfg.checkpoint=PATH. Random weights: --cfg-options'
    ' model.backbone.init_cfg=None.'
)


# MMEngine 0.10 warns that its own hooks use its own old classes.
_OWN_DEPRECATIONS = (
    '"FileClient" will be deprecated',
    '"HardDiskBackend" is the alias of "LocalBackend"',
)


class _TerminalFilter(logging.Filter):
    """Keep the terminal readable; the log file has every line.

    Attributes:
        ready: False while the run is built, when only warnings are shown.
    """

    ready = False

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if 'testing results of the whole dataset is empty' in text:  # mmdet, as an error
            record.msg, record.args = 'no object was detected, so there is no AP yet', ()
            record.levelno, record.levelname = logging.WARNING, 'WARNING'
        if text.startswith(_OWN_DEPRECATIONS):
            return False
        return self.ready or record.levelno >= logging.WARNING


@RUNNERS.register_module()
class Runner(mmengine.runner.Runner):
    """MMEngine's Runner with safe checkpoints and checks. A config may name it:
    `runner_type='mmflatten.Runner'`.

    - Local checkpoints are read without running code from them, and damaged ones are rejected. All
      keys must match the model for testing and resuming; a checkpoint to fine-tune (`load_from`)
      may have another head. Classes in the checkpoint must be those of the data, and a resumed
      training takes the config's values.
    - The hooks of `DEFAULT_HOOKS` write atomic checkpoints that resume exactly, stop at the first
      NaN loss, name broken images and compare the classes of data and model. A config replaces or
      removes a hook by its name.
    - The channels of backbone, neck and head must agree.
    - Environment, config and hooks are logged to a file, whose path is printed.
    """

    terminal: _TerminalFilter
    _configured: Configured | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        loading.register_reader()
        super().__init__(*args, **kwargs)
        require_matching_channels(self.model)

    def build_logger(self, *args: Any, **kwargs: Any) -> MMLogger:
        """Build the logger, whose lines on the terminal pass `_TerminalFilter`."""
        logger = super().build_logger(*args, **kwargs)
        self.terminal = _TerminalFilter()
        for handler in logger.handlers:
            if not isinstance(handler, logging.FileHandler):
                handler.addFilter(self.terminal)
        return logger

    def build_evaluator(self, evaluator: dict | list | Evaluator) -> Evaluator:
        """Build the evaluator without the prints of `pycocotools`."""
        with contextlib.redirect_stdout(io.StringIO()):
            return super().build_evaluator(evaluator)

    def register_default_hooks(self, hooks: dict[str, Any] | None = None) -> None:
        """Register `DEFAULT_HOOKS` with the changes in `hooks`.

        Args:
            hooks: name -> a hook, its config, arguments (without `type`) for the default hook, or
                None to remove it.
        """
        merged = {**DEFAULT_HOOKS, **(hooks or {})}
        for name, hook in merged.items():
            if isinstance(hook, dict) and 'type' not in hook:
                hook = {**DEFAULT_HOOKS.get(name, {}), **hook}
            if hook is not None:
                self.register_hook(hook)

    @staticmethod
    def build_dataloader(
        dataloader: DataLoader | dict, seed: int | None = None, diff_rank_seed: bool = False
    ) -> DataLoader:
        """Build a data loader with `build_dataset`; ignore worker options if there are no
        workers.
        """
        if isinstance(dataloader, dict):
            dataloader = dict(dataloader)
            workers = dataloader.get('num_workers')
            if isinstance(workers, str):
                raise ValueError(
                    f'num_workers: expected a number, got {workers}. Correct it in the config.'
                )
            if not workers:
                dataloader.pop('persistent_workers', None)
                dataloader.pop('prefetch_factor', None)
            # The config of a data set, not the data set, because MMEngine copies all arguments.
            if isinstance(dataloader.get('dataset'), dict):
                dataloader['dataset'] = dict(type=build_dataset, cfg=dataloader['dataset'])
        return mmengine.runner.Runner.build_dataloader(dataloader, seed, diff_rank_seed)

    def build_visualizer(self, visualizer: Visualizer | dict | None = None) -> Visualizer:
        """Build one visualizer per run; its name in the config is for other tools."""
        if isinstance(visualizer, dict):
            visualizer = {**visualizer, 'name': self.experiment_name}
        return super().build_visualizer(visualizer)

    def scale_lr(self, optim_wrapper: BaseOptimWrapper, auto_scale_lr: dict | None = None) -> None:
        """Scale the learning rate to the total batch, with accumulated batches, by the `rate_rule`
        of the optimizer. MMEngine scales all rates linearly.
        """
        if not auto_scale_lr or not auto_scale_lr.get('enable'):
            return
        wrappers = [optim_wrapper]
        if isinstance(optim_wrapper, OptimWrapperDict):
            wrappers = list(optim_wrapper.values())
        loader = self._train_dataloader
        per_process = loader['batch_size'] if isinstance(loader, dict) else loader.batch_size
        base = auto_scale_lr['base_batch_size']
        for wrapper in wrappers:
            batch = self.world_size * per_process * getattr(wrapper, '_accumulative_counts', 1)
            rule = rate_rule(type(wrapper.optimizer).__name__)
            factor = rule.factor(batch / base)
            for group in wrapper.optimizer.param_groups:
                group['lr'] *= factor
            self.logger.info(
                f'auto_scale_lr: the learning rate is for a batch of {base}, the batch is {batch}:'
                f' scaled by {factor:.4g} ({rule.name} for {type(wrapper.optimizer).__name__})'
            )

    def build_optim_wrapper(self, optim_wrapper: OptimWrapper | dict) -> BaseOptimWrapper:
        """Build the optimizer, by default without a warning about each frozen parameter."""
        if isinstance(optim_wrapper, dict) and isinstance(optim_wrapper.get('optimizer'), dict):
            optim_wrapper = {'constructor': 'mmflatten.OptimWrapperConstructor', **optim_wrapper}
        return super().build_optim_wrapper(optim_wrapper)

    def train(self) -> nn.Module:
        """Train; warn about a GPU that PyTorch cannot use."""
        problem = gpu_problem() if is_main_process() else ''
        if problem:
            self.logger.warning(problem)
        try:
            return super().train()
        except CheckpointError as error:
            backbone = self.cfg.get('model', {}).get('backbone') or {}
            checkpoint = (backbone.get('init_cfg') or {}).get('checkpoint')
            if checkpoint is None or '://' in checkpoint or Path(checkpoint).exists():
                raise
            raise CheckpointError(START.format(checkpoint)) from error

    def load_or_resume(self) -> None:
        """Load or resume, and log the folder of the logs and the frozen parameters of a
        training.
        """
        self.terminal.ready = True
        self.logger.info(
            f'PyTorch {torch.__version__} on {get_device()}; environment, config and all lines: '
            f'{self.log_dir}'
        )
        frozen = frozen_summary(self.model) if isinstance(self._train_loop, BaseLoop) else None
        if frozen is not None:
            self.logger.info(frozen)
        super().load_or_resume()

    def resume(self, filename: str, *args: Any, **kwargs: Any) -> None:
        """Resume a training; what the config changes is listed and takes effect (see
        `engine.resume`).
        """
        self._configured = None
        if isinstance(self.optim_wrapper, OptimWrapper):
            self._configured = Configured(self)
        super().resume(filename, *args, **kwargs)
        if self._configured is not None:
            resume_as_configured(self, self._configured, self._saved_settings)

    def save_checkpoint(self, out_dir: str, filename: str, *args: Any, **kwargs: Any) -> None:
        """Save a checkpoint, atomically if it is local."""
        self.call_hook('read_scalars')  # a checkpoint contains the values of the log
        kwargs['meta'] = {**(kwargs.get('meta') or {}), SETTINGS: settings_of(self)}
        if '://' in str(out_dir):
            super().save_checkpoint(out_dir, filename, *args, **kwargs)
        elif is_main_process():
            with atomic_write(Path(out_dir, filename)) as partial:
                super().save_checkpoint(str(partial.parent), partial.name, *args, **kwargs)

    def load_checkpoint(
        self,
        filename: str,
        map_location: str | Callable = 'cpu',
        strict: bool | None = None,
        revise_keys: Sequence[tuple[str, str]] = (),
    ) -> dict:
        """Load a checkpoint into the model and return it.

        Args:
            strict: require all keys to match. None requires it unless training starts from the
                weights (`load_from`).
            revise_keys: pairs of a regular expression in the names of the weights and its
                replacement.

        Raises:
            CheckpointError: the checkpoint is missing, damaged, of another model, or cannot be
                resumed.
        """
        checkpoint = loading.read_checkpoint(filename, map_location)
        loading.require_dict(checkpoint, filename)
        if self._resume:
            self._require_resumable(checkpoint, filename)
        # MMEngine's EMAHook does not accept a bare state dict.
        if 'state_dict' not in checkpoint:
            checkpoint = dict(state_dict=checkpoint)
        fine_tuning = isinstance(self._train_loop, BaseLoop) and not self._resume
        compare_classes(self, checkpoint, filename, fine_tuning=fine_tuning)
        if strict is None:
            strict = not fine_tuning
        model = bare_model(self.model)
        checkpoint['state_dict'] = loading.weights_of(
            model=model,
            checkpoint=checkpoint,
            filename=filename,
            strict=strict,
            revise_keys=revise_keys,
        )
        # EMAHook reads and changes the weights.
        self.call_hook('after_load_checkpoint', checkpoint=checkpoint)
        loading.load_named(model, checkpoint['state_dict'], filename=filename, strict=strict)
        self._has_loaded = True
        self.logger.info(f'Load checkpoint from {filename}')
        return checkpoint

    def _require_resumable(self, checkpoint: dict, filename: str) -> None:
        loading.require_training_state(checkpoint, filename)
        # MMEngine 0.10 would run this text as Python to find a field that configs no longer have.
        checkpoint['meta'].pop('config', None)
        self._saved_settings = checkpoint['meta'].get(SETTINGS) or {}
        if self._configured is not None:
            self._configured.require_resumable(checkpoint, filename)
