"""Distributed training strategies: `ddp` replicates the training on each process, `fsdp` shards it."""
import contextlib
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import mmengine
import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.dist import barrier, is_main_process
from mmengine.hooks import EMAHook
from mmengine.runner import Runner
from mmengine.runner.checkpoint import save_checkpoint
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, distribute_tensor

from mmflatten.engine.checkpoints.files import REST, SHARDED, atomic_write, map_tensors, partial_path
from mmflatten.models.layers.residual import Block
from mmflatten.text import shorten

if TYPE_CHECKING:
    from torch.distributed.fsdp import MixedPrecisionPolicy

STRATEGIES = ('ddp', 'fsdp')


def set_strategy(cfg: Config, strategy: str | None) -> None:
    """Set the strategy of a config whose launcher is already set; None keeps the config's `strategy` (default ddp).

    Raises:
        ValueError: the strategy is unknown or does not work with the config.
    """
    option, strategy = strategy is not None, strategy or cfg.get('strategy') or 'ddp'
    runner_type = cfg.get('runner_type', 'mmflatten.Runner')
    if strategy not in STRATEGIES:
        if runner_type != 'mmflatten.Runner' and not option:  # such as MMEngine's FlexibleRunner
            return
        hint = f' {strategy} was removed: use fsdp.' if strategy in ('deepspeed', 'zero') else ''
        raise ValueError(f'strategy: expected {" or ".join(STRATEGIES)}, got {strategy}.{hint}')
    if option:
        if cfg.launcher == 'none':
            raise ValueError(f'--strategy {strategy} requires several processes. Start them with tools/dist_train.sh '
                             'or tools/slurm_train.sh.')
        cfg.strategy = strategy
    if unknown := set(cfg.get('fsdp') or {}) - {'shard_size', 'mp_policy'}:
        raise ValueError(f'fsdp: expected shard_size and mp_policy, got {min(unknown)}. Remove it.')
    if not is_sharded(cfg):
        return
    if runner_type != 'mmflatten.Runner':
        raise ValueError(f'runner_type: --strategy fsdp requires mmflatten.Runner, got {runner_type}. Remove it.')
    if cfg.get('find_unused_parameters') or (cfg.get('model_wrapper_cfg') or {}).get('find_unused_parameters'):
        raise ValueError('find_unused_parameters: --strategy fsdp requires a gradient for every parameter, got True. '
                         'Train with --strategy ddp.')
    try:
        _mp_policy(cfg)
    except ImportError as error:
        raise ValueError('--strategy fsdp requires PyTorch 2.6 or newer. Train with --strategy ddp.') from error


def is_sharded(cfg: Config) -> bool:
    """Return True if several processes share one copy of the training state."""
    return cfg.get('strategy') == 'fsdp' and cfg.get('launcher', 'none') != 'none'


def _mp_policy(cfg: Config) -> 'MixedPrecisionPolicy':
    from torch.distributed.fsdp import MixedPrecisionPolicy
    fields = (cfg.get('fsdp') or {}).get('mp_policy') or {}
    try:
        return MixedPrecisionPolicy(**{name: getattr(torch, value) if isinstance(value, str) else value
                                       for name, value in fields.items()})
    except (AttributeError, TypeError) as error:
        raise ValueError('fsdp.mp_policy: expected fields of MixedPrecisionPolicy such as param_dtype=bfloat16, got '
                         f'{", ".join(f"{name}={value}" for name, value in fields.items())}.') from error


def shard(runner: Runner) -> None:
    """Shard weights, their moving averages, gradients and optimizer state across all processes.

    Each `Block` of a backbone is gathered only while it runs; the rest of the model is one more group. Called last
    before the first step, so that building the optimizer and loading a checkpoint deal with ordinary tensors.

    The config's `fsdp` may have `shard_size`, the number of processes with successive ranks that share one copy (hybrid
    sharding), and `mp_policy`, fields of PyTorch's `MixedPrecisionPolicy`.
    """
    from torch.distributed.fsdp import fully_shard
    model = runner.model
    scalars = [name for name, parameter in model.named_parameters() if parameter.dim() == 0]
    if scalars:
        raise ValueError(f'--strategy fsdp shards parameters along their first axis, got scalars: '
                         f'{shorten(scalars, 3)}. Train with --strategy ddp.')
    # A group that stays gathered after a forward pass would hide its shards from validation hooks.
    size = (runner.cfg.get('fsdp') or {}).get('shard_size') or runner.world_size
    if runner.world_size % size:
        raise ValueError(f'fsdp.shard_size: expected a divisor of {runner.world_size}, the number of processes, got '
                         f'{size}. Use the number of processes of one machine.')
    mesh = init_device_mesh(get_device(), (runner.world_size // size, size), mesh_dim_names=('copies', 'shards'))
    options = dict(mesh=mesh if size < runner.world_size else mesh['shards'], reshard_after_forward=True,
                   mp_policy=_mp_policy(runner.cfg))
    names = {parameter: name for name, parameter in model.named_parameters()}
    for part in (*(module for module in model.modules() if isinstance(module, Block)), model):
        fully_shard(part, **options)
    named = dict(model.named_parameters())
    shards, optimizer = {full: named[name] for full, name in names.items()}, runner.optim_wrapper.optimizer
    for group in optimizer.param_groups:
        group['params'] = [shards[full] for full in group['params']]
    full_states, optimizer.state = optimizer.state, defaultdict(dict)
    for full, state in full_states.items():
        weight = shards[full]
        for key, value in state.items():
            if isinstance(value, Tensor) and value.shape == weight.shape:  # not the step counter
                value = distribute_tensor(value, weight.device_mesh, weight.placements)
            optimizer.state[weight][key] = value
    for average in (hook.ema_model for hook in runner.hooks if isinstance(hook, EMAHook)):
        module = fully_shard(average.module, **options)
        average.avg_parameters = module.state_dict() if average.update_buffers else dict(module.named_parameters())


def save_distributed(runner: Runner, out_dir: str, filename: str, file_client_args: None = None,
                     save_optimizer: bool = True, save_param_scheduler: bool = True, meta: dict | None = None,
                     by_epoch: bool = True, backend_args: dict | None = None) -> None:
    """Save a training whose state is sharded: one file, or a folder if the filename ends in `.sharded`.

    Every process must call this function. The arguments are those of `Runner.save_checkpoint`.
    """
    # The content of MMEngine's `Runner.save_checkpoint`, which itself runs on one process only.
    progress = dict(epoch=runner.epoch + by_epoch, iter=runner.iter + (not by_epoch))
    meta = {**progress, **(meta or {}), 'cfg': runner.cfg.pretty_text, 'seed': runner.seed,
            'experiment_name': runner.experiment_name, 'time': time.strftime('%Y%m%d_%H%M%S'),
            'mmengine_version': mmengine.__version__}
    if hasattr(runner.train_dataloader.dataset, 'metainfo'):
        meta['dataset_meta'] = runner.train_dataloader.dataset.metainfo
    state = dict(meta=meta, state_dict=runner.model.state_dict(), message_hub=runner.message_hub.state_dict())
    if save_optimizer:
        state['optimizer'] = runner.optim_wrapper.state_dict()
    if save_param_scheduler and runner.param_schedulers is not None:
        state['param_schedulers'] = [scheduler.state_dict() for scheduler in runner.param_schedulers]
    runner.call_hook('before_save_checkpoint', checkpoint=state)
    if Path(filename).suffix == SHARDED:
        _save_folder(state, Path(out_dir, filename))
        return
    state = map_tensors(state, lambda tensor: (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).cpu())
    if '://' in str(out_dir) and is_main_process():
        save_checkpoint(state, f'{out_dir}/{filename}', backend_args=backend_args)
    elif is_main_process():
        with atomic_write(Path(out_dir, filename)) as partial:
            save_checkpoint(state, str(partial))


def _save_folder(state: dict, path: Path) -> None:
    """Write the shards with `torch.distributed.checkpoint`, numbered in order, and everything else to `rest.pth`."""
    from torch.distributed.checkpoint import CheckpointException, FileSystemWriter, save
    shards: dict[str, Tensor] = {}

    def leave_out(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, DTensor):
            return tensor.cpu()
        shards[str(len(shards))] = tensor
        return torch.empty(tensor.shape, dtype=tensor.dtype, device='meta')

    rest = map_tensors(state, leave_out)
    with atomic_write(path) if is_main_process() else contextlib.nullcontext(partial_path(path)) as partial:
        try:
            save(shards, storage_writer=FileSystemWriter(partial))
        except CheckpointException as error:  # raised on every process; the first failure is the cause
            raise next(iter(error.failures.values()))[0] from error
        if is_main_process():
            torch.save(rest, partial / REST)
    barrier()
