"""What an optimizer does with the parameters of its model: which decay, at which rate each starts, which stay fixed."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.optim import Optimizer

_KINDS = ((nn.Linear, 'linear layers'), (_ConvNd, 'convolutions'), (nn.Embedding, 'embeddings'))
_NORMS = (_BatchNorm, _InstanceNorm, nn.GroupNorm, nn.LayerNorm)


@dataclass
class ParameterGroup:
    """Parameters that an optimizer treats alike."""

    tensors: int = 0
    numbers: int = 0
    kinds: dict[str, None] = field(default_factory=dict)  # in the order of the model

    def add(self, kind: str, parameter: nn.Parameter) -> None:
        self.tensors += 1
        self.numbers += parameter.numel()
        self.kinds[kind] = None


def by_decay(model: nn.Module, optimizer: Optimizer) -> dict[float | None, ParameterGroup]:
    """The parameters that learn by their weight decay, the highest first; those that do not learn under None."""
    return _group(model, optimizer, 'weight_decay')


def by_rate(model: nn.Module, optimizer: Optimizer) -> dict[float | None, ParameterGroup]:
    """The parameters that learn by the rate they start out from, the highest first; those that do not under None."""
    return _group(model, optimizer, 'lr')


def frozen(model: nn.Module) -> list[str]:
    """Names of the parameters without gradients."""
    return [name for name, parameter in model.named_parameters() if not parameter.requires_grad]


def _group(model: nn.Module, optimizer: Optimizer, key: str) -> dict[float | None, ParameterGroup]:
    values = {id(parameter): group.get(key, 0.) for group in optimizer.param_groups for parameter in group['params']}
    groups: dict[float | None, ParameterGroup] = {}
    for kind, parameter in _kinds(model):
        value = values.get(id(parameter)) if parameter.requires_grad else None
        groups.setdefault(value, ParameterGroup()).add(kind, parameter)
    return dict(sorted(groups.items(), key=lambda item: -1. if item[0] is None else item[0], reverse=True))


def _kinds(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Each parameter with the layers it is in ('linear layers', 'norms', 'biases'), else the end of its name."""
    seen = set()
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            own = '.'.join([part for part in f'{prefix}.{name}'.split('.') if not part.isdigit()][-2:])
            layers = next((words for kind, words in _KINDS if isinstance(module, kind)), own)
            yield 'norms' if isinstance(module, _NORMS) else 'biases' if name == 'bias' else layers, parameter
