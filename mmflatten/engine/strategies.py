"""Training on several processes: with `ddp` each holds the whole training, with `fsdp` all together hold one.

With `deepspeed` each holds the weights, and all together hold the gradients and the state of the optimizer.
"""
import importlib.util
from collections import defaultdict
from typing import Any

from mmengine.config import Config
from mmengine.device import get_device
from mmengine.hooks import EMAHook
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.optim import Optimizer

from mmflatten.checkpoints.rules import shorten
from mmflatten.engine.zero import ZeroOptimWrapper
from mmflatten.models.layers.residual import Block

SHARED = ('fsdp', 'deepspeed')
STRATEGIES = ('ddp', *SHARED)


def set_strategy(cfg: Config, strategy: str | None) -> None:
    """Let a config train by `ddp`, `fsdp` or `deepspeed`, by its own `strategy` for None; its launcher is set already.

    Raises:
        ValueError: the strategy is not known, or cannot work here.
    """
    if strategy is not None:
        if cfg.launcher == 'none':
            raise ValueError(f'--strategy {strategy} shares a training among processes; start it with '
                             'tools/dist_train.sh or tools/slurm_train.sh')
        cfg.strategy = strategy
    strategy = cfg.get('strategy') or 'ddp'
    other_runner = cfg.get('runner_type', 'mmflatten.Runner') != 'mmflatten.Runner'
    if strategy not in STRATEGIES:
        if other_runner:  # such as MMEngine's FlexibleRunner, with strategies of its own
            return
        raise ValueError(f'strategy ({strategy}) must be one of {", ".join(STRATEGIES)}')
    if not is_sharded(cfg):
        return
    if other_runner:
        raise ValueError(f'--strategy {strategy} is the work of mmflatten.Runner and runner_type is {cfg.runner_type}; '
                         'leave runner_type out')
    if cfg.get('find_unused_parameters') or (cfg.get('model_wrapper_cfg') or {}).get('find_unused_parameters'):
        raise ValueError(f'--strategy {strategy} needs a gradient for every parameter and find_unused_parameters is '
                         'True; train with --strategy ddp')
    if strategy == 'deepspeed':
        if importlib.util.find_spec('deepspeed') is None:
            raise ValueError("--strategy deepspeed requires the package deepspeed: pip install 'deepspeed>=0.19'")
        return
    try:
        from torch.distributed.fsdp import fully_shard  # noqa: F401
    except ImportError as error:
        raise ValueError('--strategy fsdp needs PyTorch 2.6 or newer; train with --strategy ddp') from error


def is_sharded(cfg: Config) -> bool:
    """Whether the processes of a training share the state of its optimizer, or more, out among themselves.

    One process, started without a launcher, has nobody to share with, whatever its config says.
    """
    return cfg.get('strategy') in SHARED and cfg.get('launcher', 'none') != 'none'


def shard(runner: Runner) -> None:
    """Share a training out among all processes.

    This comes last before the first step, so that everything before it, from the rules of the optimizer to the loading
    of a checkpoint, deals with ordinary tensors.
    """
    if runner.cfg.strategy == 'fsdp':
        fully_shard_out(runner)
    else:
        runner.optim_wrapper = ZeroOptimWrapper(runner.model, runner.optim_wrapper)


def fully_shard_out(runner: Runner) -> None:
    """Share weights, their averages, gradients and the state of the optimizer out.

    By PyTorch's `fully_shard` (FSDP2): a block of a backbone is whole only while it runs, and what is in no block
    forms one more group.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    _require_axes(runner.model)
    # A group that is left whole after a forward pass would hide its shards from the hooks of a validation.
    how = dict(mesh=init_device_mesh(get_device(), (runner.world_size,)), reshard_after_forward=True)
    model = runner.model
    names = {parameter: name for name, parameter in model.named_parameters()}
    for part in (*filter(_is_block, model.modules()), model):
        fully_shard(part, **how)
    shards = dict(model.named_parameters())
    _hand_over(runner.optim_wrapper.optimizer, {whole: shards[name] for whole, name in names.items()})
    for average in (hook.ema_model for hook in runner.hooks if isinstance(hook, EMAHook)):
        module = fully_shard(average.module, **how)
        average.avg_parameters = module.state_dict() if average.update_buffers else dict(module.named_parameters())


def _require_axes(model: nn.Module) -> None:
    numbers = [name for name, parameter in model.named_parameters() if parameter.dim() == 0]
    if numbers:
        raise ValueError(f'--strategy fsdp shares parameters out along their first axis and these have none: '
                         f'{shorten(numbers, 3)}; train with --strategy ddp')


def _is_block(module: nn.Module) -> bool:
    return isinstance(module, Block)


def _hand_over(optimizer: Optimizer, shards: dict[nn.Parameter, nn.Parameter]) -> None:
    """Give an optimizer the shards of its parameters, and of what it remembers of them."""
    for group in optimizer.param_groups:
        group['params'] = [shards[whole] for whole in group['params']]
    remembered = {shards[whole]: {key: _like(value, shards[whole]) for key, value in state.items()}
                  for whole, state in optimizer.state.items()}
    optimizer.state = defaultdict(dict, remembered)


def _like(value: Any, shard: nn.Parameter) -> Any:
    from torch.distributed.tensor import distribute_tensor
    if not isinstance(value, Tensor) or value.shape != shard.shape:  # a count of steps
        return value
    return distribute_tensor(value, shard.device_mesh, shard.placements)
