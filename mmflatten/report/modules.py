"""Parameters and operations of a model by module."""
from __future__ import annotations

from mmflatten.measure.flops.counter import macs_of
from mmflatten.measure.flops.model_cost import ModelCost, count_parameters
from mmflatten.report.figures import Chart
from mmflatten.results.analysis import ResultTable
from mmflatten.results.figures import Bars

MAX_MODULES = 16


def cost_charts(cost: ModelCost, run: str) -> list[Chart]:
    """Return bars of the parameters and of the multiply-accumulates of the largest modules."""
    modules = dict(cost.model.named_modules())
    params = {name: count_parameters(module) for name, module in modules.items()}
    macs = {name: macs_of(cost.counts.within(name)) for name in modules}
    return [Chart('Parameters', Bars({name: count / 1e6 for name, count in largest_modules(params).items()},
                                     'parameters (M)'), run),
            Chart('Multiply-accumulates', Bars({name: count / 1e9 for name, count in largest_modules(macs).items()},
                                               'multiply-accumulates (G)'), run)]


def largest_modules(totals: dict[str, int], number: int = MAX_MODULES) -> dict[str, int]:
    """Split the model into about `number` modules by repeatedly replacing the largest module with its children.

    Args:
        totals: dotted name of every module -> its count, including that of its children.
    """
    parts, whole = {'': totals['']}, set()
    while len(parts) < number and parts.keys() - whole:
        name = max(parts.keys() - whole, key=parts.__getitem__)
        prefix = f'{name}.' if name else ''
        children = {child: count for child, count in totals.items()
                    if child != name and child.startswith(prefix) and '.' not in child[len(prefix):] and count}
        if not children or len(parts) + len(children) > number + 2:
            whole.add(name)
            continue
        rest = parts.pop(name) - sum(children.values())
        parts.update(children)
        if rest > 0:
            parts[f'{name or "model"} (own)'] = rest
            whole.add(f'{name or "model"} (own)')
    return dict(sorted(parts.items(), key=lambda part: -part[1]))


def module_table(cost: ModelCost, run: str) -> ResultTable:
    """Tabulate the modules of the first two levels."""
    rows = []
    for name, module in cost.model.named_modules():
        params, macs = count_parameters(module), macs_of(cost.counts.within(name))
        if name.count('.') < 2 and (params or macs):
            rows.append((name or 'model', type(module).__name__, f'{params / 1e6:.3f}', f'{macs / 1e9:.3f}',
                         f'{100 * macs / max(cost.counts.macs, 1):.1f}'))
    return ResultTable(f'{run}: modules of two levels', (
        'module', 'type', 'parameters (M)', 'multiply-accumulates (G)', 'share (%)'), rows)
