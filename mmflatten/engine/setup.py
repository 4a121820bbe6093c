"""Read a config, apply the options of a command, build its Runner, and train."""

import contextlib
import difflib
import importlib.util
import inspect
import io
import logging
import os
import shlex
import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from mmengine import runner as mmengine_runner
from mmengine.config import Config, ConfigDict
from mmengine.logging import print_log
from mmengine.registry import RUNNERS

from mmflatten.checkpoints.loading import register_reader
from mmflatten.checkpoints.run_files import newest_checkpoint, only_process, require_whole
from mmflatten.config import ConfigError, read_config, require_parts
from mmflatten.engine.runner import Runner
from mmflatten.requirements import check_task
from mmflatten.tasks import find_task, tasks

NEWEST = 'newest'
# Set by `dist_train.sh` and `slurm_train.sh` to the command line of the user.
COMMAND_VARIABLE = 'MMFLATTEN_COMMAND'
# Numbers of a training: their type and smallest value.
_NUMBERS: dict[str, tuple[Any, int]] = {
    'train_dataloader.batch_size': (int, 1),
    'train_dataloader.num_workers': (int, 0),
    'val_dataloader.num_workers': (int, 0),
    'test_dataloader.num_workers': (int, 0),
    'train_cfg.max_epochs': (int, 1),
    'train_cfg.max_iters': (int, 1),
    'optim_wrapper.optimizer.lr': ((int, float), 0),
    'optim_wrapper.accumulative_counts': (int, 1),
}
# set by the launchers pytorch, slurm and mpi
_RANKS = ('RANK', 'SLURM_PROCID', 'OMPI_COMM_WORLD_RANK')


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C during training. The message gives the command that continues."""


def load_config(
    path: str,
    options: Mapping[str, Any] | None = None,
    work_dir: str | None = None,
    launcher: str = 'none',
    subfolder: str = '',
) -> Config:
    """Read a config and apply the options that commands share.

    Args:
        options: dotted keys and values that replace the file's.
        work_dir: the default is the config's own, then `work_dirs/<name of the config>`.
        launcher: none, pytorch, slurm or mpi.
        subfolder: of the default work directory, so that the config of a test does not replace the
            training's.

    Raises:
        ConfigError: an option has no effect, or a number of the training is not one.
        ImportError: a library of the config's task is missing or has an unsupported version.
        ValueError: `default_scope` is not an installed library, or the launcher does not work here.
    """
    cfg = read_config(path)
    if options:
        _require_effect(cfg, options)
        cfg.merge_from_dict(dict(options))
    _require_numbers(cfg)
    if not work_dir:
        default = cfg.get('work_dir') or Path('work_dirs', Path(path).stem)
        work_dir = str(Path(default, subfolder))
    cfg.work_dir = work_dir
    require_scope(cfg.get('default_scope') or 'mmengine')
    _use_launcher(cfg, launcher)
    return cfg


def _require_effect(cfg: Config, options: Mapping[str, Any]) -> None:
    """Raise ConfigError for an option of a new field whose name is nearly that of a known one."""
    known = [*cfg.keys(), *inspect.signature(mmengine_runner.Runner.__init__).parameters]
    for key in options:
        name = key.partition('.')[0]
        similar = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        if name not in known and similar:
            raise ConfigError(
                f'--cfg-options {key}: {name} is not a field of the config, so it would have no'
                f' effect. Write {similar[0]}.'
            )


def _require_numbers(cfg: Config) -> None:
    """Raise ConfigError for numbers of the training that are text, or out of range."""
    for place, (kind, least) in _NUMBERS.items():
        first, *names = place.split('.')
        node = cfg.get(first)
        for name in names:
            node = node.get(name) if isinstance(node, Mapping) else None
        is_number = isinstance(node, kind) and not isinstance(node, bool)
        if node is not None and not (is_number and node >= least):
            what = 'an integer' if kind is int else 'a number'
            raise ConfigError(f'{place}: expected {what} of at least {least}, got {node!r:.100}.')


def require_scope(scope: str) -> None:
    """Check the libraries of a `default_scope`, and import what it registers. Errors are those of
    `load_config`.
    """
    check_task(scope)
    if importlib.util.find_spec(scope) is None:
        scopes = ', '.join(task.scope for task in tasks().values())
        raise ValueError(
            f'default_scope: expected an installed library, got {scope}. Use one of {scopes}.'
        )
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter('ignore')  # libraries print and warn about optional packages
        for part in ('datasets', 'evaluation'):
            if importlib.util.find_spec(f'{scope}.{part}') is not None:
                importlib.import_module(f'{scope}.{part}')
    # mmdet 3.5 calls it without `indexing`, in DINO; no config changes that
    warnings.filterwarnings('ignore', 'torch.meshgrid', UserWarning)


def build_runner(cfg: Config) -> mmengine_runner.Runner:
    """Build the Runner that a config names in `runner_type`, or mmflatten's by default."""
    register_reader()
    return RUNNERS.build(cfg) if 'runner_type' in cfg else Runner.from_cfg(cfg)


def set_amp(cfg: Config, dtype: str | None) -> None:
    """Set up mixed precision in `dtype`, float16 or bfloat16.

    None keeps the config's type; the default is float16 on a GPU and bfloat16 without.
    """
    wrapper = cfg.optim_wrapper
    kind = wrapper.get('type', 'OptimWrapper')
    if kind not in ('OptimWrapper', 'AmpOptimWrapper', 'mmflatten.CPUAmpOptimWrapper'):
        raise ValueError(
            f'optim_wrapper.type ({kind}) cannot be combined with --amp. Use OptimWrapper.'
        )
    dtype = dtype or wrapper.get('dtype')
    if torch.cuda.is_available():
        wrapper.type = 'AmpOptimWrapper'
        # bfloat16 has the range of float32. A scaler would wait for the device at every step.
        wrapper.setdefault('loss_scale', dict(enabled=False) if dtype == 'bfloat16' else 'dynamic')
        if dtype is not None:
            wrapper.dtype = dtype
        return
    if dtype not in (None, 'bfloat16'):
        raise ValueError(
            f'--amp: {dtype} requires a GPU, and PyTorch finds none. Use --amp bfloat16.'
        )
    wrapper.type = 'mmflatten.CPUAmpOptimWrapper'
    for scaling in ('loss_scale', 'dtype', 'use_fsdp'):
        wrapper.pop(scaling, None)


def set_compile(cfg: Config, how: str) -> None:
    """Compile the backbone in training.

    Args:
        how: a backend of `torch.compile`, which compiles block by block, or `graphs` for CUDA
            graphs.

    Raises:
        ValueError: there is neither a GPU nor a C++ compiler, or CUDA graphs cannot be captured.
    """
    if how == 'graphs':
        need = _missing_for_graphs(cfg)
        if need is not None:
            raise ValueError(f'--compile graphs: requires {need}. Use --compile.')
        hook = dict(type='mmflatten.CompileHook', graphs=True, limit=4)
    else:
        _require_compiler(how)
        hook = dict(type='mmflatten.CompileHook', backend=how)
    cfg.custom_hooks = [*(cfg.get('custom_hooks') or []), hook]


def _missing_for_graphs(cfg: Config) -> str | None:
    scope, launcher = cfg.get('default_scope'), cfg.get('launcher', 'none')
    task = find_task(scope, cfg.get('model'))
    if not torch.cuda.is_available():
        return 'a GPU, and PyTorch finds none'
    if task is None or not task.fixed_size:
        return f'images of one size, got default_scope {scope!r}'
    if launcher != 'none':
        return f'one process, got --launcher {launcher}'
    if 'triton.cudagraph_or_error' not in torch._inductor.list_options():
        return f'a PyTorch that reports what it cannot capture, got {torch.__version__}'
    return None


def _require_compiler(backend: str) -> None:
    if backend != 'inductor' or torch.cuda.is_available():
        return
    compilers = (os.environ.get('CXX') or 'g++', 'clang++')
    if not any(map(shutil.which, compilers)):
        raise ValueError(
            f'--compile: requires a C++ compiler on a CPU, found none of {", ".join(compilers)}. '
            'Install g++.'
        )


def set_auto_scale_lr(cfg: Config) -> None:
    """Scale the learning rate with the total batch, relative to the config's
    `auto_scale_lr.base_batch_size`: linearly for SGD, by its square root for Adam (`rate_rule`).
    """
    if not (cfg.get('auto_scale_lr') or {}).get('base_batch_size'):
        raise ValueError(
            'auto_scale_lr.base_batch_size: required to scale the learning rate. Set it to the'
            ' batch size that optimizer.lr is for.'
        )
    cfg.auto_scale_lr.enable = True


def set_resume(cfg: Config, resume: str | None) -> None:
    """Make a config resume from a checkpoint.

    Args:
        resume: A path, or `newest` for the newest complete checkpoint in the work directory.
            Without checkpoints, training starts from the beginning with a warning, so a job that
            its cluster restarts can always have `--resume`. None leaves the config unchanged; its
            own `resume=True` means `newest`.
    """
    if resume is None and cfg.get('resume') and not cfg.get('load_from'):
        resume = NEWEST
    if resume is None:
        return
    if resume != NEWEST:
        require_whole(resume)
    else:
        newest = newest_checkpoint(cfg.work_dir)
        if newest is None:
            cfg.resume = False
            print_log(
                f'--resume: {cfg.work_dir} has no checkpoint yet, so training starts from the'
                ' beginning',
                logger='current',
                level=logging.WARNING,
            )
            return
        resume = str(newest)
    print_log(f'Resuming from {resume}', logger='current')
    cfg.load_from, cfg.resume = resume, True


def _use_launcher(cfg: Config, launcher: str) -> None:
    cfg.launcher = launcher
    if launcher == 'none':
        return
    if launcher == 'pytorch' and 'RANK' not in os.environ:
        raise ValueError(
            '--launcher pytorch requires the variables that torchrun sets. Start with'
            ' tools/dist_train.sh or tools/dist_test.sh.'
        )
    if torch.cuda.is_available():
        return
    # MMEngine 0.10 would select a GPU and pass it to DistributedDataParallel, which is wrong on the
    # CPU.
    if launcher != 'pytorch':
        raise ValueError(
            f'--launcher {launcher} requires GPUs, and PyTorch finds none. Use tools/dist_train.sh.'
        )
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group('gloo')
    wrapper = ConfigDict(
        type='MMDistributedDataParallel',
        broadcast_buffers=False,
        find_unused_parameters=cfg.get('find_unused_parameters', False),
    )
    wrapper.update(cfg.get('model_wrapper_cfg') or {})
    wrapper.device_ids = None
    cfg.model_wrapper_cfg = wrapper


def train(cfg: Config, command: Sequence[str] = (), again: str = ' --resume') -> None:
    """Run the training of a config.

    Args:
        command: The command line, repeated with `again` in the message after Ctrl-C. The
            environment variable that launch scripts set takes precedence.
        again: Option with which the command resumes.

    Raises:
        TrainingInterrupted: after Ctrl-C.
        FolderInUseError: another process trains in the same folder.
    """
    require_parts(cfg, 'model', 'train_dataloader', 'train_cfg', 'optim_wrapper')
    # AdamW updates all weights in a few kernels on a GPU, unless the config decides. Checkpoints
    # are the same.
    optimizer = cfg.optim_wrapper.get('optimizer') or {}
    is_adamw = optimizer.get('type') == 'AdamW'
    if torch.cuda.is_available() and is_adamw and not optimizer.get('foreach'):
        optimizer.setdefault('fused', True)
    with contextlib.ExitStack() as stack:
        if _is_first_process(cfg.launcher):
            stack.enter_context(only_process(cfg.work_dir, 'training', '--work-dir'))
        _train(build_runner(cfg), cfg, command=command, again=again)


def _is_first_process(launcher: str) -> bool:
    """Read the rank from the environment; MMEngine starts the process group later, on a GPU."""
    if launcher == 'none':
        return True
    ranks = [os.environ[name] for name in _RANKS if name in os.environ]
    return not ranks or ranks[0] == '0'


def _train(runner: mmengine_runner.Runner, cfg: Config, command: Sequence[str], again: str) -> None:
    try:
        runner.train()
    except KeyboardInterrupt as error:
        last = runner.message_hub.runtime_info.get('last_ckpt')
        if not last and cfg.get('resume'):
            last = cfg.load_from
        where = f'The last checkpoint is {last}.' if last else 'There is no checkpoint yet.'
        # argparse uses the last of several `--resume`.
        typed = os.environ.get(COMMAND_VARIABLE) or shlex.join(command)
        typed = typed.strip().removesuffix(again)
        raise TrainingInterrupted(f'interrupted. {where} Continue with: {typed}{again}') from error
    except Exception as error:
        problem = _compile_problem(error)
        if problem is None:
            raise
        raise ValueError(problem) from error


def _compile_problem(error: Exception) -> str | None:
    """Explain an error of `torch.compile`; None for other errors."""
    # By name, because the modules of the classes take long to import.
    name = type(error).__name__
    if name == 'Unsupported' or 'skipping cudagraphs' in str(error):
        return (
            '--compile graphs: model.backbone cannot be captured:'
            f' {str(error).splitlines()[0]}. Use --compile.'
        )
    if name == 'FailOnRecompileLimitHit':
        return (
            '--compile: the blocks of model.backbone were compiled too often, because sizes of'
            ' inputs or other conditions keep changing. Set fewer sizes in train_pipeline, a larger'
            ' limit of mmflatten.CompileHook in custom_hooks, or train without --compile.'
        )
    return None
