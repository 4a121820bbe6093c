"""Cost of a model by module, as a tree and as JSON."""
from __future__ import annotations

from typing import Any

import torch

from mmflatten.measure.flops.counter import macs_of
from mmflatten.measure.flops.model_cost import ModelCost, count_parameters
from mmflatten.measure.flops.rules import OTHER, PRODUCT
from mmflatten.text_table import align, giga
from mmflatten.version import __version__


def render_modules(name: str, cost: ModelCost, depth: int, markdown: bool = False) -> str:
    """Render the tree of modules down to `depth` levels, without modules that have neither parameters nor operations.

    `name` is the name of the whole model.
    """
    total, indent = max(cost.counts.macs, 1), 2 * ('&nbsp;' if markdown else ' ')
    rows = []
    for path, module in cost.model.named_modules():
        level = path.count('.') + 1 if path else 0
        kinds, params = cost.counts.within(path), count_parameters(module)
        macs = macs_of(kinds)
        if level <= depth and (params or macs):
            label = f'{level * indent}{path.rpartition(".")[2] or name} ({type(module).__name__})'
            rows.append((label, f'{params / 1e6:.3f}', giga(macs), f'{100 * macs / total:.1f}', giga(kinds[PRODUCT]),
                         giga(macs + kinds[OTHER])))
    header = ('module', 'params (M)', 'MACs (G)', '%', 'of these products (G)', "papers' way (G)")
    return align(rows, header, {0}, markdown)


def as_json(cost: ModelCost, with_modules: bool = False) -> dict[str, Any]:
    """Convert a model's cost to JSON, in single units (not millions or billions)."""
    counts = cost.counts
    result = {
        'shape': list(cost.shape), 'params': cost.params, 'macs': counts.macs,
        'papers_convention': counts.papers_convention(),
        'papers_convention_without_products': counts.papers_convention(with_products=False),
        'by_kind': dict(counts.by_kind), 'by_operator': dict(counts.by_operator),
        'elementwise_not_counted': dict(counts.elementwise), 'uncounted': dict(counts.uncounted),
        'versions': {'mmflatten': __version__, 'torch': torch.__version__},
    }
    if with_modules:
        result['modules'] = {name: {'type': type(module).__name__, 'params': count_parameters(module),
                                    'macs': macs_of(counts.within(name))}
                             for name, module in cost.model.named_modules()}
    return result
