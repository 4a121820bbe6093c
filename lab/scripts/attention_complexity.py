"""Compare memory and computation of factorized and conventional attention by the paper's formulas and as counted.

    python lab/scripts/attention_complexity.py
    python lab/scripts/attention_complexity.py --plot figures.png --markdown
"""
import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from factorized_costs.cases import BERTS, MAPS, VOLUMES, statements
from factorized_costs.formulas import FORMS, Case, costs
from factorized_costs.plot import draw_attention_complexity

from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line
from mmflatten.text import align

HEADER = ('input', 'channels', 'module', 'MB, formula', 'MB, training', 'MB, inference', 'GMAC, formula',
          'GMAC, counted')
NOTES = """\
formula: Table 9, corrected where it contradicts itself (docs/factorized.md); b = k = m = c / 2, for BERT c.
GMAC: 1e9 multiply-accumulates, half of the paper's MACC, which counts a multiplication and an addition as two.
training, inference: bytes of live tensors at the peak of one forward pass in float32, with and without those kept for
the backward pass, including the input but not parameters. They are counted on the meta device without allocating
memory. A fused softmax kernel (GPU) does not store the matrix of a conventional Gaussian module; there is no such
kernel for the dot-product modules in these tables."""


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--plot', type=Path, default=Path('work_dirs/attention_complexity.png'), metavar='PNG',
                        help='file for the figures (default: %(default)s)')
    parser.add_argument('--markdown', action='store_true', help='print Markdown tables')
    return parser.parse_args(argv)


def case_rows(cases: Iterable[Case]) -> list[tuple[str, ...]]:
    """Make three rows for each input: conventional, factorized and their ratio."""
    rows = []
    for case in cases:
        figures = {kind: case_figures(kind, case) for kind in ('CA', 'FA')}
        for kind, values in figures.items():
            name = f'{kind}-{case.form}' + (f' x {case.layers}' if case.layers > 1 else '')
            rows.append((case.label, str(case.c), name, *map(number, values)))
        ratios = (conventional / factorized for conventional, factorized in zip(figures['CA'], figures['FA']))
        rows.append(('', '', 'CA / FA', *(f'{ratio:.1f}x' for ratio in ratios)))
    return rows


def case_figures(kind: str, case: Case) -> tuple[float, ...]:
    """Compute memory in MB (formula, training, inference) and GMAC (formula, counted)."""
    _, formula, counted = costs(kind, case)
    return (formula.nbytes / 1e6, counted.nbytes / 1e6, counted.inference_nbytes / 1e6, formula.operations / 2e9,
            counted.operations / 2e9)


def number(value: float) -> str:
    """Format a number with four significant digits and no exponent."""
    return f'{value:.0f}' if value >= 1000 else f'{value:.4g}'


def module_rows() -> list[tuple[str, ...]]:
    """Make a row for each of the paper's eight modules on a 64 x 64 map with 64 channels and one or four heads."""
    rows = []
    for form in FORMS:
        case = Case((64, 64), 64, form, h=4 if form in ('multi', 'Tfm') else 1)
        for kind in ('FA', 'CA'):
            printed = costs(kind, case)[0].operations / 2e9
            *memory, corrected, counted = case_figures(kind, case)
            rows.append((f'{kind}-{form}', *map(number, (*memory, printed, corrected, counted))))
    return rows


@command_line
def main(argv: Sequence[str]) -> None:
    arguments = parse_arguments(argv)
    markdown = arguments.markdown
    arguments.plot.absolute().parent.mkdir(parents=True, exist_ok=True)
    for title, cases in (('Feature maps', MAPS), ('Volumes', VOLUMES), *BERTS.items()):
        print(f'{title}\n{align(case_rows(cases), HEADER, {0, 2}, markdown)}\n')
    header = ('module', 'MB, formula', 'MB, training', 'MB, inference', 'GMAC, printed', 'GMAC, formula',
              'GMAC, counted')
    print(f'Eight modules, 64x64, 64 channels\n{align(module_rows(), header, {0}, markdown)}\n')
    rows = [(item.text, item.paper, *map(number, item.figures), item.remark) for item in statements()]
    header = ('figure in the text', 'paper', 'printed formulas', 'corrected', 'counted', '')
    print(f'{align(rows, header, {0, 5}, markdown)}\n\n{NOTES}')
    draw_attention_complexity(arguments.plot)
    print(f'\n{arguments.plot}')


if __name__ == '__main__':
    sys.exit(main())
