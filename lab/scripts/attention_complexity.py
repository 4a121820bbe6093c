"""Memory and computation of factorized and conventional attention, by the formulas of the paper
(Shen et al., Table 9, Figures 4 and 5) and as counted for the modules.

    python lab/scripts/attention_complexity.py
    python lab/scripts/attention_complexity.py --measure

Figure 4 has dot-product modules with 64 channels on square maps, Figure 5 the Transformer modules
of BERT for sequences. `--measure` runs the modules of Figure 4 on the 64 x 64 map and reports the
bytes that PyTorch allocates in a training's forward pass, including the input. docs/factorized.md
lists where the printed formulas had to be corrected.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line
from mmflatten.measure.flops.counter import count_operations
from mmflatten.measure.speed.memory import peak_memory
from mmflatten.models.attention import ConventionalAttention, FactorizedAttention, MapAttention
from mmflatten.text import align

KINDS = {'FA': FactorizedAttention, 'CA': ConventionalAttention}
SIDES = (64, 128, 256)
LENGTHS = (128, 512, 2048, 8192)
HEADER = ('input', 'module', 'MB, formula', 'GMAC, formula', 'GMAC, counted')


@dataclass(frozen=True)
class Case:
    """A module on `size` = (H, W) tokens.

    Attributes:
        channels: `c`; queries and keys have `basis_channels`, all heads together.
        num_heads: heads; more than one is the Transformer's form, whose values have
            `basis_channels` and which ends with a feed-forward network of `4 c` channels.
        layers: modules in a row.
    """

    size: tuple[int, int]
    channels: int
    basis_channels: int
    num_heads: int = 1
    layers: int = 1

    @property
    def is_transformer(self) -> bool:
        return self.num_heads > 1

    def build(self, kind: str) -> MapAttention:
        """The module, with `dot` normalisation, as the formulas assume."""
        options: dict = dict(reprojection=False)
        if self.is_transformer:
            options = dict(
                value_channels=self.basis_channels,
                num_heads=self.num_heads,
                feed_forward_channels=4 * self.channels,
            )
        return KINDS[kind](self.channels, self.basis_channels, normalization='dot', **options)

    def floats(self, kind: str) -> int:
        """Numbers that the tensors of all layers hold at once, by Table 9."""
        c, b = self.channels, self.basis_channels
        s = self.size[0] * self.size[1]
        values = b if self.is_transformer else c
        # input, coefficients, basis, values and result; the projections of the Transformer's form
        maps = (2 * c + 2 * b + values) * s
        if self.is_transformer:
            maps += (values + 4 * c) * s
        matrix = self.num_heads * s**2 if kind == 'CA' else b * values // self.num_heads
        return self.layers * (maps + matrix)

    def operations(self, kind: str) -> int:
        """Multiplications and additions of all layers, by Table 9."""
        c, b = self.channels, self.basis_channels
        s = self.size[0] * self.size[1]
        values = b if self.is_transformer else c
        projections = 4 * b * c + 2 * c * values
        if self.is_transformer:
            projections += 2 * values * c + 16 * c**2
        product = 2 * (b + values) * s if kind == 'CA' else 4 * b * values // self.num_heads
        return self.layers * (projections + product) * s


FIGURE_4 = tuple(Case((side, side), channels=64, basis_channels=32) for side in SIDES)
FIGURE_5 = {
    'BERT-base': tuple(Case((n, 1), 768, 768, num_heads=12, layers=12) for n in LENGTHS),
    'BERT-large': tuple(Case((n, 1), 1024, 1024, num_heads=16, layers=24) for n in LENGTHS),
}


def rows_of(case: Case) -> list[tuple[str, ...]]:
    """A row for each kind of module, and one of their ratios."""
    figures = {}
    for kind in KINDS:
        with torch.device('meta'):
            module = case.build(kind).eval()
            tokens = torch.empty(1, case.channels, *case.size)
        counts = count_operations(module, tokens)
        figures[kind] = (
            4 * case.floats(kind) / 1e6,
            case.operations(kind) / 2e9,
            case.layers * counts.macs / 1e9,
        )
    label = ' x '.join(map(str, case.size))
    rows = [(label, kind, *(f'{value:.4g}' for value in figures[kind])) for kind in KINDS]
    ratios = (ca / fa for ca, fa in zip(figures['CA'], figures['FA']))
    return [*rows, ('', 'CA / FA', *(f'{ratio:.1f}x' for ratio in ratios))]


def measured_bytes(case: Case, kind: str) -> int:
    """Bytes at the peak of a forward pass with gradients, including the input."""
    torch.manual_seed(0)
    module = case.build(kind)
    tokens = torch.randn(1, case.channels, *case.size)
    return peak_memory(lambda: module(tokens)) + tokens.nbytes


def print_measured(case: Case) -> None:
    found = {kind: measured_bytes(case, kind) for kind in KINDS}
    for kind, size in found.items():
        ratio = size / (4 * case.floats(kind))
        print(f'{kind}-dot: {size / 1e6:.1f} MB, {ratio:.2f} times the formula')
    print(f'CA / FA: {found["CA"] / found["FA"]:.1f}x')


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--measure', action='store_true', help='also measure on the 64 x 64 map')
    parser.add_argument('--markdown', action='store_true', help='print Markdown tables')
    return parser.parse_args(argv)


@command_line
def main(argv: Sequence[str]) -> None:
    arguments = parse_arguments(argv)
    for title, cases in {'Figure 4, feature maps': FIGURE_4, **FIGURE_5}.items():
        rows = [row for case in cases for row in rows_of(case)]
        print(f'{title}\n{align(rows, HEADER, {0, 1}, arguments.markdown)}\n')
    if arguments.measure:
        print('Measured on the 64 x 64 map')
        print_measured(FIGURE_4[0])


if __name__ == '__main__':
    sys.exit(main())
