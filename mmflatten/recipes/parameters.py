"""Parameters of a model, grouped by a setting of the optimizer."""
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
    """Parameters with the same value of a setting."""

    tensors: int = 0
    numbers: int = 0
    kinds: dict[str, None] = field(default_factory=dict)  # in the order of the model


def parameters_by(setting: str, model: nn.Module, optimizer: Optimizer) -> dict[float | None, ParameterGroup]:
    """Group parameters by 'lr' or 'weight_decay', highest value first. Parameters without gradients are under None."""
    values = {id(parameter): group.get(setting, 0.)
              for group in optimizer.param_groups for parameter in group['params']}
    groups: dict[float | None, ParameterGroup] = {}
    for kind, parameter in _kinds(model):
        group = groups.setdefault(values.get(id(parameter)) if parameter.requires_grad else None, ParameterGroup())
        group.tensors += 1
        group.numbers += parameter.numel()
        group.kinds[kind] = None
    return dict(sorted(groups.items(), key=lambda item: -1. if item[0] is None else item[0], reverse=True))


def _kinds(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield each parameter with its kind: 'norms', 'biases', its kind of layer, or the last two parts of its name."""
    seen = set()
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            short = '.'.join([part for part in f'{prefix}.{name}'.split('.') if not part.isdigit()][-2:])
            if isinstance(module, _NORMS):
                yield 'norms', parameter
            elif name == 'bias':
                yield 'biases', parameter
            else:
                yield next((words for kind, words in _KINDS if isinstance(module, kind)), short), parameter
