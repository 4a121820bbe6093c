"""Parameters of a model, grouped by settings of the optimizer."""
from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.optim import Optimizer

_KINDS = ((nn.Linear, 'linear layers'), (_ConvNd, 'convolutions'), (nn.Embedding, 'embeddings'),
          ((_BatchNorm, _InstanceNorm, nn.GroupNorm, nn.LayerNorm), 'norms'))


@dataclass
class ParameterGroup:
    """Parameters with equal settings, those of the first parameter in `settings`; `example` is its name."""

    settings: dict
    example: str
    tensors: int = 0
    parameters: int = 0
    kinds: dict[str, None] = field(default_factory=dict)  # in the order of the model


def parameters_by(setting: str, model: nn.Module, optimizer: Optimizer) -> dict[float | None, ParameterGroup]:
    """Group parameters by 'lr' or 'weight_decay', highest value first. Parameters without gradients are under None."""
    groups = _grouped(model, optimizer, lambda parameter, settings: (
        settings.get(setting, 0.) if parameter.requires_grad else None))
    return dict(sorted(groups.items(), key=lambda item: -1. if item[0] is None else item[0], reverse=True))


def distinct_groups(model: nn.Module, optimizer: Optimizer) -> list[ParameterGroup]:
    """Group parameters by all settings, highest learning rate first.

    MMEngine makes a group for every parameter, and schedulers treat equal groups alike.
    """
    groups = _grouped(model, optimizer, lambda parameter, settings: tuple(
        (name, value) for name, value in sorted(settings.items()) if isinstance(value, (int, float, tuple))))
    trained = [group for group in groups.values() if group.settings]
    return sorted(trained, key=lambda group: -group.settings['lr'])


def _grouped(model: nn.Module, optimizer: Optimizer, key: Callable[[nn.Parameter, dict], Hashable]) -> dict:
    settings = {id(parameter): group for group in optimizer.param_groups for parameter in group['params']}
    groups: dict[Hashable, ParameterGroup] = {}
    for name, kind, parameter in _parameters(model):
        own = settings.get(id(parameter), {})  # MMEngine leaves out frozen parameters
        group = groups.setdefault(key(parameter, own), ParameterGroup(own, name))
        group.tensors += 1
        group.parameters += parameter.numel()
        group.kinds[kind] = None
    return groups


def _parameters(model: nn.Module) -> Iterator[tuple[str, str, nn.Parameter]]:
    """Yield name, kind and value of each parameter; the kind of an unknown layer is the last parts of the name."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for module in model.modules():
        kind = next((words for classes, words in _KINDS if isinstance(module, classes)), None)
        for leaf, parameter in module.named_parameters(recurse=False):
            name = names.pop(id(parameter), None)
            if name is None:  # shared with an earlier module
                continue
            short = '.'.join([part for part in name.split('.') if not part.isdigit()][-2:])
            yield name, 'biases' if leaf == 'bias' and kind != 'norms' else kind or short, parameter
