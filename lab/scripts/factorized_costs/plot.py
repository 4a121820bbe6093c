"""Plot of memory and computation of factorized and conventional attention by input size, as in Figures 4 and 5."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from factorized_costs.cases import BERTS, MAPS, VOLUMES
from factorized_costs.formulas import Cost, counted_cost, formula_cost

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = {'FA': 'tab:blue', 'CA': 'tab:red'}
NAMES = {'FA': 'factorized', 'CA': 'conventional'}
# The maps of Figure 4, and the volumes with the channels of the paper's architectures.
BARS = (*MAPS, *(case for case in VOLUMES if (case.label, case.c) in {('28x28x4', 512), ('64x64x32', 64)}))


def draw_attention_complexity(path: str | Path) -> None:
    """Write a PNG with bars by formula, dots as counted, and the memory of BERT over the sequence length."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(16, 4.8), layout='constrained')
    memory, work, bert = figure.subplots(1, 3)
    _bars(memory, lambda cost: cost.nbytes / 1e6)
    memory.set(title='memory of a training forward pass', ylabel='MB')
    _bars(work, lambda cost: cost.operations / 2e9)
    work.set(title='computation', ylabel='multiply-accumulates (1e9)')
    _bert(bert)
    figure.savefig(path, dpi=100)


def _bars(axes: Axes, quantity: Callable[[Cost], float]) -> None:
    for shift, kind in ((-.2, 'FA'), (.2, 'CA')):
        places = [index + shift for index in range(len(BARS))]
        axes.bar(places, [quantity(formula_cost(kind, case)) for case in BARS], width=.4, color=COLORS[kind],
                 label=f'{NAMES[kind]}, formula')
        axes.plot(places, [quantity(counted_cost(kind, case)) for case in BARS], 'o', color='white',
                  markeredgecolor='black', label='counted' if kind == 'CA' else None)
    axes.set_yscale('log')
    axes.set_xticks(range(len(BARS)), [f'{case.label}\n{case.c} channels' for case in BARS], fontsize='small')
    axes.grid(axis='y', alpha=.3)
    axes.set_axisbelow(True)
    axes.legend(fontsize='small', loc='upper left')


def _bert(axes: Axes) -> None:
    for (name, cases), style in zip(BERTS.items(), ('-', '--')):
        lengths = [case.grid[0] for case in cases]
        for kind in ('FA', 'CA'):
            axes.plot(lengths, [formula_cost(kind, case).nbytes / 1e9 for case in cases], style,
                      color=COLORS[kind], label=f'{name}, {NAMES[kind]}, formula')
            axes.plot(lengths, [counted_cost(kind, case).nbytes / 1e9 for case in cases], 'o', color='white',
                      markeredgecolor=COLORS[kind])
    axes.set(title='memory of BERT, dots counted', xlabel='tokens', ylabel='GB', xscale='log', yscale='log')
    axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.minorticks_off()
    axes.grid(alpha=.3)
    axes.legend(fontsize='small', loc='upper left')
