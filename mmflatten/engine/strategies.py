"""Distributed training strategies: `ddp` replicates the training on each process, `fsdp` shards it."""
from collections import defaultdict

from mmengine.config import Config
from mmengine.device import get_device
from mmengine.hooks import EMAHook
from mmengine.runner import Runner
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import distribute_tensor

from mmflatten.checkpoints.rules import shorten
from mmflatten.models.layers.residual import Block

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
    if not is_sharded(cfg):
        return
    if runner_type != 'mmflatten.Runner':
        raise ValueError(f'runner_type: --strategy fsdp requires mmflatten.Runner, got {runner_type}. Remove it.')
    if cfg.get('find_unused_parameters') or (cfg.get('model_wrapper_cfg') or {}).get('find_unused_parameters'):
        raise ValueError('find_unused_parameters: --strategy fsdp requires a gradient for every parameter, got True. '
                         'Train with --strategy ddp.')
    try:
        from torch.distributed.fsdp import fully_shard  # noqa: F401
    except ImportError as error:
        raise ValueError('--strategy fsdp requires PyTorch 2.6 or newer. Train with --strategy ddp.') from error


def is_sharded(cfg: Config) -> bool:
    """Return True if several processes share one copy of the training state."""
    return cfg.get('strategy') == 'fsdp' and cfg.get('launcher', 'none') != 'none'


def shard(runner: Runner) -> None:
    """Shard weights, their moving averages, gradients and optimizer state across all processes.

    Each `Block` of a backbone is gathered only while it runs; the rest of the model is one more group. Called last
    before the first step, so that building the optimizer and loading a checkpoint deal with ordinary tensors.
    """
    from torch.distributed.fsdp import fully_shard
    model = runner.model
    scalars = [name for name, parameter in model.named_parameters() if parameter.dim() == 0]
    if scalars:
        raise ValueError(f'--strategy fsdp shards parameters along their first axis, got scalars: '
                         f'{shorten(scalars, 3)}. Train with --strategy ddp.')
    # A group that stays gathered after a forward pass would hide its shards from validation hooks.
    options = dict(mesh=init_device_mesh(get_device(), (runner.world_size,)), reshard_after_forward=True)
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
