"""From a config file and the options of a tool to a config that a Runner can be built of."""
import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config, ConfigDict
from mmengine.registry import RUNNERS
from mmengine.runner import Runner

from mmflatten.engine.config_files import read_config
from mmflatten.engine.hooks.channels import require_matching_channels

# Scope, as in `default_scope`, and the distribution that holds it.
SCOPES = dict(mmpretrain='onedl-mmpretrain', mmdet='onedl-mmdetection', mmseg='onedl-mmsegmentation', mmflatten=None)

# Hooks every run of our tools gets, also with a config that knows nothing of mmflatten.
_SAFE_HOOKS = dict(
    finite_loss=dict(type='mmflatten.FiniteLossHook'),
    sample_errors=dict(type='mmflatten.NameFailingSamplesHook'),
    data_checks=dict(type='mmflatten.CheckDataHook'))
_REPLACED_HOOKS = dict(checkpoint='CheckpointHook', logger='LoggerHook')


def load_config(path: str, options: Mapping[str, Any] | None = None, work_dir: str | None = None,
                launcher: str = 'none', subfolder: str = '') -> Config:
    """Read a config and put the options that every tool shares into it.

    Args:
        options: `--cfg-options`, dotted keys and values that replace the file's.
        work_dir: The default is the config's own, then `work_dirs/<name of the config>`.
        launcher: none, pytorch, slurm or mpi.
        subfolder: Put behind the default work directory, for a run whose config must not replace the training's there.
    """
    cfg = read_config(path)
    if options:
        cfg.merge_from_dict(dict(options))
    cfg.work_dir = work_dir or str(Path(cfg.get('work_dir') or Path('work_dirs', Path(path).stem), subfolder))
    _require_scope(cfg.get('default_scope', 'mmengine'))
    _use_launcher(cfg, launcher)
    _use_safe_hooks(cfg)
    return cfg


def build_runner(cfg: Config) -> Runner:
    """Build the runner a config asks for, MMEngine's own unless `runner_type` says otherwise.

    Raises:
        ValueError: the channels of the model's parts disagree.
    """
    if cfg.get('default_scope') == 'mmdet':
        from mmflatten.engine.coco_checks import check_coco_annotations
        check_coco_annotations()
    runner = RUNNERS.build(cfg) if 'runner_type' in cfg else Runner.from_cfg(cfg)
    require_matching_channels(runner.model)
    return runner


def set_amp(cfg: Config, dtype: str | None) -> None:
    """Train in mixed precision; `dtype` None keeps the config's, and float16 where it has none."""
    if not torch.cuda.is_available():
        raise ValueError('--amp needs a GPU and PyTorch sees none; leave --amp out')
    wrapper = cfg.optim_wrapper
    kind = wrapper.get('type', 'OptimWrapper')
    if kind not in ('OptimWrapper', 'AmpOptimWrapper'):
        raise ValueError(f'--amp cannot replace optim_wrapper.type ({kind}); it must be OptimWrapper')
    wrapper.type = 'AmpOptimWrapper'
    wrapper.setdefault('loss_scale', 'dynamic')
    if dtype is not None:
        wrapper.dtype = dtype


def set_auto_scale_lr(cfg: Config) -> None:
    """Scale the learning rate with the total batch, relative to the config's `auto_scale_lr.base_batch_size`."""
    if not cfg.get('auto_scale_lr', {}).get('base_batch_size'):
        raise ValueError('--auto-scale-lr needs auto_scale_lr.base_batch_size in the config, the total batch its '
                         'learning rate was chosen for')
    cfg.auto_scale_lr.enable = True


def drop_validation(cfg: Config) -> None:
    """Train without validating."""
    cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None


def set_seed(cfg: Config, seed: int) -> None:
    """Seed Python, NumPy, PyTorch, the samplers and the data-loading processes."""
    cfg.randomness = {**cfg.get('randomness', {}), 'seed': seed}


def _require_scope(scope: str) -> None:
    """Import the library of `default_scope`, so that its absence is said before anything is built."""
    try:
        importlib.import_module(f'{scope}.registry')
    except ModuleNotFoundError as error:
        if error.name != scope:
            raise
        known = SCOPES.get(scope)
        mend = f'pip install {known}' if known else f'known scopes are {", ".join(SCOPES)}'
        raise ValueError(f'default_scope ({scope}) names a library that is not installed; {mend}') from error


def _use_launcher(cfg: Config, launcher: str) -> None:
    cfg.launcher = launcher
    if launcher == 'none':
        return
    if launcher == 'pytorch' and 'RANK' not in os.environ:
        raise ValueError('--launcher pytorch needs the variables that torchrun sets; start with tools/dist_train.sh or '
                         'tools/dist_test.sh')
    if torch.cuda.is_available():
        return
    # MMEngine would select a GPU and give it to DistributedDataParallel; on the CPU both must be left out.
    if launcher != 'pytorch':
        raise ValueError(f'--launcher {launcher} needs GPUs and PyTorch sees none; use tools/dist_train.sh')
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group('gloo')
    wrapper = ConfigDict(type='MMDistributedDataParallel', broadcast_buffers=False,
                         find_unused_parameters=cfg.get('find_unused_parameters', False))
    wrapper.update(cfg.get('model_wrapper_cfg') or {})
    wrapper.device_ids = None
    cfg.model_wrapper_cfg = wrapper


def _use_safe_hooks(cfg: Config) -> None:
    hooks = cfg.get('default_hooks') or ConfigDict()
    for name, kind in _REPLACED_HOOKS.items():
        hook = hooks.setdefault(name, ConfigDict(type=kind))
        if hook is not None and hook.get('type') in (kind, f'mmengine.{kind}'):
            hook.type = f'mmflatten.{kind}'
    for name, hook in _SAFE_HOOKS.items():
        hooks.setdefault(name, ConfigDict(hook))
    cfg.default_hooks = hooks
