"""Count multiply-accumulates of the operators that run, on any device; on meta tensors nothing is
computed.

*Multiply-accumulates* are convolutions, linear layers and every product of two activations,
explicit or inside fused attention, without biases and elementwise arithmetic. *The papers'
convention* is the number of OpenMMLab's `get_flops.py`: these, plus some elementwise arithmetic
(`rules.OPENMMLAB_RULES`). It reproduces the published FLOPs of ResNet-50, Swin and PVT in detectors
and segmentors within 0.1 %. `docs/benchmark.md` compares the two with other counters.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mmflatten.measure.flops import rules
from mmflatten.measure.flops.rules import CONV, LINEAR, MATMUL, OTHER, PRODUCT
from mmflatten.measure.known_values import KnownValues


def count_operations(function: Callable[..., Any], *args: Any, **kwargs: Any) -> OperationCounts:
    """Run `function(*args, **kwargs)` without gradients and count its operators, by module if it is
    one.

    With meta tensors (`torch.empty(shape, device='meta')`) nothing is computed. Operators of a
    compiled mmcv are not counted.
    """
    model = function if isinstance(function, nn.Module) else None
    with torch.no_grad(), OperationCounter(model) as counter:
        function(*args, **kwargs)
    return counter.counts


@dataclass
class OperationCounts:
    """Operations of a run."""

    # Module name -> kind -> operations, without those of the modules inside it.
    by_module: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    by_operator: Counter[str] = field(default_factory=Counter)  # multiply-accumulates
    elementwise: Counter[str] = field(default_factory=Counter)  # output elements
    uncounted: Counter[str] = field(default_factory=Counter)  # calls of operators without a formula

    @property
    def by_kind(self) -> Counter[str]:
        """Totals by kind: convolutions, linear layers, products of activations, norms and the
        like.
        """
        return self.of_module('')

    @property
    def macs(self) -> int:
        """Multiply-accumulates, products of activations included."""
        return macs_of(self.by_kind)

    def papers_convention(self, with_products: bool = True) -> int:
        """Total of OpenMMLab's counter (see above), with or without products of activations."""
        kinds = self.by_kind
        total = macs_of(kinds) + kinds[OTHER]
        return total if with_products else total - kinds[PRODUCT]

    def of_module(self, module: str) -> Counter[str]:
        """Totals by kind of a module and its submodules; '' is the whole model."""
        total: Counter[str] = Counter()
        for name, kinds in self.by_module.items():
            if not module or f'{name}.'.startswith(f'{module}.'):
                total.update(kinds)
        return total


def macs_of(kinds: Counter[str]) -> int:
    """Multiply-accumulates in counts by kind."""
    return kinds[CONV] + kinds[LINEAR] + kinds[PRODUCT]


class OperationCounter:
    """Context manager that counts the operators that run in it.

    Args:
        model: assigns the counts to its modules and distinguishes linear layers from products of
            activations. Operators outside of it belong to module ''.
    """

    def __init__(self, model: nn.Module | None = None) -> None:
        self.counts = OperationCounts()
        # name, module, shapes of its inputs
        self._running: list[tuple[str, nn.Module, list[tuple[int, ...]]]] = []
        self._names: dict[int, str] = {}
        self._parameters: set[torch.UntypedStorage] = set()
        if model is not None:
            self._names = {id(module): name for name, module in model.named_modules()}
            self._parameters = {weight.untyped_storage() for weight in model.parameters()}
        self._exits = ExitStack()

    @property
    def module(self) -> str:
        """Name of the module that is running."""
        return self._running[-1][0] if self._running else ''

    def place(self) -> str:
        """Describe the module that is running or raised an error, with the shapes of its inputs."""
        if not self._running:
            return 'outside of its modules'
        name, module, shapes = self._running[-1]
        is_leaf = not any(True for _ in module.children())
        shown = module if is_leaf else type(module).__name__
        inputs = ', '.join(map(str, shapes)) or 'without tensors'
        return f'in {name or "the model"}, {shown}, input {inputs}'

    def __enter__(self) -> OperationCounter:

        def start(module: nn.Module, inputs: Any) -> None:
            shapes = [tuple(tensor.shape) for tensor in _tensors(inputs)]
            self._running.append((self._names.get(id(module), self.module), module, shapes))

        def end(module: nn.Module, inputs: Any, output: Any) -> None:
            self._count_module(module, output)
            self._running.pop()

        if self._names:
            self._exits.callback(register_module_forward_pre_hook(start).remove)
            self._exits.callback(register_module_forward_hook(end).remove)
        self._exits.enter_context(KnownValues())
        self._exits.enter_context(_Watch(self._count))
        return self

    def __exit__(self, *error: Any) -> None:
        self._exits.close()

    def _count_module(self, module: nn.Module, output: Any) -> None:
        for cls in type(module).__mro__:
            if cls.__name__ in rules.MODULE_RULES:
                cost = Counter(rules.MODULE_RULES[cls.__name__](module, output))
                self.counts.by_module[self.module].update(cost)
                self.counts.by_operator[cls.__name__] += macs_of(cost)

    def _count(self, func: OpOverload, args: tuple, kwargs: dict, out: Any) -> None:
        name = rules.operator_name(func)
        counts = self.counts
        results = _tensors(out)
        if name in rules.MAC_RULES:
            cost = Counter(rules.MAC_RULES[name](*args, **kwargs, out=out))
            if MATMUL in cost:
                # The first argument of addmm and the like is the bias.
                factors = _tensors(args[1:] if 'add' in name else args)
                linear = any(factor.untyped_storage() in self._parameters for factor in factors)
                cost[LINEAR if linear else PRODUCT] = cost.pop(MATMUL)
            counts.by_module[self.module].update(cost)
            counts.by_operator[name] += macs_of(cost)
        elif rules.is_free(func):
            return
        elif rules.is_elementwise(func):
            counts.elementwise[name] += results[0].numel() if results else 0
            if name in rules.OPENMMLAB_RULES:
                cost = rules.OPENMMLAB_RULES[name](*args, **kwargs, out=out)
                counts.by_module[self.module].update(cost)
        elif results:
            counts.uncounted[name] += 1


class _Watch(TorchDispatchMode):
    """Reports every operator that runs. Composite operators, which inference mode keeps whole, are
    decomposed.
    """

    def __init__(self, observe: Callable[[OpOverload, tuple, dict, Any], None]) -> None:
        super().__init__()
        self._observe = observe

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        has_rule = rules.operator_name(func) in rules.MAC_RULES
        if not (has_rule or rules.is_free(func) or rules.is_elementwise(func)):
            with self:
                out = func.decompose(*args, **kwargs)
            if out is not NotImplemented:
                return out
        out = func(*args, **kwargs)
        self._observe(func, args, kwargs, out)
        return out


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]
