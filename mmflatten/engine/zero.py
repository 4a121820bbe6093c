"""Training by DeepSpeed's ZeRO: every process holds the weights, all together the gradients and optimizer states."""
from contextlib import AbstractContextManager
from typing import Any

import torch
from mmengine.dist import all_reduce
from mmengine.optim import AmpOptimWrapper, OptimWrapper
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW

from mmflatten.checkpoints.rules import shorten

STAGE = 2
ELEMENTWISE = (SGD, Adam, AdamW)  # a part of a flat row of parameters is updated as in the whole


class ZeroOptimWrapper(OptimWrapper):
    """Takes the place of an optimizer wrapper before the first step.

    Backward passes and steps are those of DeepSpeed's engine; the model stays as it is. The state that is saved is that
    of the whole optimizer, parameter by parameter, as every other training writes it.

    Args:
        model: its weights are those to begin with.
        inner: its optimizer, with its state, is taken over; gradient clipping, accumulation and autocast are its own.

    Raises:
        ValueError: the optimizer, its clipping or loss scaling, or frozen parameters are not for DeepSpeed.
    """

    def __init__(self, model: nn.Module, inner: OptimWrapper) -> None:
        _require_fit(model, inner)
        import deepspeed
        super().__init__(inner.optimizer, inner._accumulative_counts)
        self.inner, self.base_param_settings = inner, inner.base_param_settings
        whole = self.optimizer.state_dict()
        self.groups = [group['params'] for group in whole['param_groups']]
        numbers = [number for group in self.groups for number in group]
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group['params']]
        self.parameters = dict(zip(numbers, parameters))
        self.engine, *_ = deepspeed.initialize(model=model, optimizer=self.optimizer, config=dict(
            train_micro_batch_size_per_gpu=1,  # of no consequence: the loss is a mean already
            gradient_clipping=_max_norm(inner),
            zero_optimization=dict(stage=STAGE),
            zero_allow_untested_optimizer=True,
            steps_per_print=2**62))
        self._share_out(whole['state'])

    def optim_context(self, model: nn.Module) -> AbstractContextManager[None]:
        return self.inner.optim_context(model)

    def backward(self, loss: Tensor, **kwargs: Any) -> None:
        self._inner_count += 1
        self.engine.set_gradient_accumulation_boundary(self.should_update())
        self.engine.backward(loss, scale_wrt_gas=False)

    def step(self, **kwargs: Any) -> None:
        self.engine.step()
        if _max_norm(self.inner):
            self.message_hub.update_scalar('train/grad_norm', float(self.engine.get_global_grad_norm()))

    def zero_grad(self, **kwargs: Any) -> None:
        """DeepSpeed does so itself."""

    def state_dict(self) -> dict[str, Any]:
        """The whole state; every process must ask for it."""
        state: dict[int, dict[str, Any]] = {}
        for group, partition in zip(self.groups, self._partitions()):
            for number in group if partition in self.optimizer.state else ():
                state[number] = {key: _whole(self.parameters[number], value) if _is_shared(key, value) else value
                                 for key, value in self.optimizer.state[partition].items()}
        param_groups = [{**group, 'params': numbers}
                        for group, numbers in zip(self.optimizer.param_groups, self.groups)]
        found = dict(state=state, param_groups=param_groups)
        if self.base_param_settings is not None:
            found['base_param_settings'] = self.base_param_settings
        return found

    def _share_out(self, state: dict[int, dict[str, Any]]) -> None:
        """Give the optimizer its part of the state that it had as a whole."""
        for group, partition in zip(self.groups, self._partitions()):
            for number in group if state else ():
                parameter, own = self.parameters[number], self.optimizer.state[partition]
                for key, value in state[number].items():
                    if key not in own:
                        own[key] = torch.zeros_like(partition) if _is_shared(key, value) else value
                    if _is_shared(key, value) and parameter._hp_mapping is not None:
                        _part(parameter, own[key]).copy_(_part_of_whole(parameter, value))

    def _partitions(self) -> list[Tensor]:
        return [group['params'][0] for group in self.optimizer.param_groups]


def _is_shared(key: str, value: Any) -> bool:
    """Whether an entry of the optimizer's state has a number for each of a parameter's, not a count of steps."""
    return isinstance(value, Tensor) and key != 'step'


def _part(parameter: nn.Parameter, partition: Tensor) -> Tensor:
    """Where the flat row of this process has its part of a parameter."""
    address = parameter._hp_mapping.get_hp_fragment_address()
    return partition.narrow(0, address.start, address.numel)


def _part_of_whole(parameter: nn.Parameter, value: Tensor) -> Tensor:
    """The same part of a tensor of the parameter's shape."""
    address = parameter._hp_mapping.lp_fragment_address
    return value.flatten().narrow(0, address.start, address.numel)


def _whole(parameter: nn.Parameter, partition: Tensor) -> Tensor:
    whole = torch.zeros(parameter.shape, dtype=partition.dtype, device=partition.device)
    if parameter._hp_mapping is not None:  # this process has a part of it
        _part_of_whole(parameter, whole).copy_(_part(parameter, partition))
    all_reduce(whole)
    return whole.cpu()


def _max_norm(wrapper: OptimWrapper) -> float:
    return (wrapper.clip_grad_kwargs or {}).get('max_norm', 0.)


def _require_fit(model: nn.Module, wrapper: OptimWrapper) -> None:
    kind, clipping = type(wrapper.optimizer), wrapper.clip_grad_kwargs or {}
    frozen = [name for name, parameter in model.named_parameters() if not parameter.requires_grad]
    if kind not in ELEMENTWISE:
        raise ValueError(f'--strategy deepspeed trains with {", ".join(known.__name__ for known in ELEMENTWISE)} and '
                         f'optim_wrapper.optimizer.type is {kind.__name__}; train with --strategy fsdp')
    if clipping.keys() - {'max_norm', 'norm_type'} or clipping.get('norm_type', 2) != 2:
        raise ValueError(f'--strategy deepspeed clips by the 2-norm of all gradients and optim_wrapper.clip_grad is '
                         f'{clipping}; train with --strategy ddp')
    if isinstance(wrapper, AmpOptimWrapper) and wrapper.cast_dtype is not torch.bfloat16:
        raise ValueError(f'--strategy deepspeed does not scale losses as --amp with {wrapper.cast_dtype or "float16"} '
                         'does; give --amp bfloat16')
    if frozen:
        raise ValueError(f'--strategy deepspeed trains every parameter and these are frozen: {shorten(frozen, 3)}; '
                         'train with --strategy fsdp')
