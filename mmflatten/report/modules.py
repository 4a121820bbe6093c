"""Where in a model its parameters and operations are."""
from __future__ import annotations

from typing import Any

from mmflatten.measure.flops.counter import macs_of
from mmflatten.measure.flops.model_cost import ModelCost, count_parameters
from mmflatten.report.figures import Chart
from mmflatten.results.analysis import Table


def treemaps(cost: ModelCost, run: str) -> list[Chart]:
    """Parameters and multiply-accumulates by module; a module's own are those without the modules inside it."""
    modules = dict(cost.model.named_modules())
    seen: set[int] = set()
    params = {name: sum(parameter.numel() for parameter in module.parameters(recurse=False)
                        if id(parameter) not in seen and not seen.add(id(parameter)))
              for name, module in modules.items()}
    macs = {name: macs_of(cost.counts.by_module[name]) if name in cost.counts.by_module else 0 for name in modules}
    return [_treemap('Parameters', params, modules, run), _treemap('Multiply-accumulates', macs, modules, run)]


def _treemap(title: str, own: dict[str, int], modules: dict[str, Any], run: str) -> Chart:
    kept = {'': 0}  # modules that have something inside, each below its parent
    for name, number in own.items():
        while name and number:
            kept[name] = kept.get(name, 0) + number
            name = name.rpartition('.')[0]
        kept[''] += number
    names = [name for name in modules if name in kept]
    data = dict(type='treemap', ids=[name or 'model' for name in names], branchvalues='total',
                labels=[name.rpartition('.')[2] or type(modules['']).__name__ for name in names],
                parents=['' if not name else name.rpartition('.')[0] or 'model' for name in names],
                values=[kept[name] for name in names], customdata=[type(modules[name]).__name__ for name in names],
                hovertemplate='%{id}<br>%{customdata}<br>%{value:,} (%{percentRoot:.1%})<extra></extra>',
                texttemplate='%{label}<br>%{percentRoot:.1%}', maxdepth=4)
    tops = ', '.join(f'{name} {kept[name] / max(kept[""], 1):.1%}' for name in names if name and '.' not in name)
    return Chart(title, f'{title} by module, {kept[""]:,} in all: {tops}', [data], run=run, height=380)


def module_table(cost: ModelCost, run: str) -> Table:
    """The modules of the first two levels."""
    rows = []
    for name, module in cost.model.named_modules():
        params, macs = count_parameters(module), macs_of(cost.counts.within(name))
        if name.count('.') < 2 and (params or macs):
            rows.append((name or 'model', type(module).__name__, f'{params / 1e6:.3f}', f'{macs / 1e9:.3f}',
                         f'{100 * macs / max(cost.counts.macs, 1):.1f}'))
    return Table(f'{run}: modules of two levels', (
        'module', 'type', 'parameters (M)', 'multiply-accumulates (G)', 'share (%)'), rows)
