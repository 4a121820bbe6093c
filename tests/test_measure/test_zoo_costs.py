"""Configs beside the papers' rows: what they cost is what the papers print, each in its own way of counting."""
from pathlib import Path

import pytest
import torch
from torch import nn

from mmflatten.measure.flops.model_cost import count_model
from mmflatten.measure.papers.costs import PaperCost, count_beside_papers, render, table_rows
from mmflatten.measure.papers.tables import PaperRow, paper_rows

ROOT = Path(__file__).parents[2]


def params() -> list:
    """Every config; the first of each family and head that has figures is the sample, the others the full sweep."""
    kinds, figures = {}, set()
    for row in paper_rows():
        head = row.cells['method'].partition(',')[0] if row.cells['task'] != 'classification' else ''
        if row.config:
            kinds.setdefault(row.config, (row.cells['backbone'].rpartition('-')[0], row.cells['task'], head))
            figures.update([row.config] if row.cells['params_m'] or row.cells['flops_g'] else [])
    first = {kind: config for config, kind in reversed(kinds.items()) if config in figures}
    return [pytest.param(config, marks=[] if first.get(kind) == config else [pytest.mark.full])
            for config, kind in kinds.items()]


@pytest.mark.parametrize('config', params())
def test_what_a_config_costs_agrees_with_the_papers_or_the_row_says_why(config: str) -> None:
    rows = [row for row in paper_rows() if row.config == config]
    for shape in dict.fromkeys(row.shape for row in rows):
        cost = count_beside_papers(ROOT / config, shape)
        assert {name for name in cost.counts.uncounted if not name.startswith('aten::_fft')} == set()
        for entry in (PaperCost.of(row, cost) for row in rows if row.shape == shape):
            assert (entry.agrees is not False) is not bool(entry.row.cause), entry


class Spectrum(nn.Module):
    """An operator without a formula between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        maps = self.conv(image)
        return torch.fft.rfft(maps) if maps.shape[-1] > 8 else maps @ maps


def test_each_paper_is_shown_by_its_own_way_of_counting() -> None:
    with torch.device('meta'):
        cost = count_model(Spectrum(), (10, 10))  # 8 * 64 * 27 in the convolution, 8 * 8 ** 3 in the product
    rows = tuple(row for row in paper_rows() if row.label in ('flatten 2b', 'focal 5')
                 and (row.cells['method'], row.cells['backbone']) == ('cascade-mask-rcnn', 'swin-t'))
    rows = [PaperRow({**row.cells, 'flops_input_hw': '10x10'}) for row in rows]
    flatten, focal = table_rows('cascade', cost, rows)
    assert (cost.counts.macs, cost.counts.papers_convention(with_products=False)) == (17920, 13824)
    assert flatten[7] == '745' and flatten[9:] == ('flatten 2b', 'none') and not flatten[6].endswith('*')
    assert focal[7] == '742' and focal[9] == 'focal 5' and focal[6].endswith('*')


def test_an_operator_without_a_formula_is_named() -> None:
    with torch.device('meta'):
        cost = count_model(Spectrum(), (12, 12))
    assert table_rows('spectrum', cost, [])[0][-1] == 'aten::_fft_r2c (1x)'


def test_configs_with_equal_names_are_shown_by_path() -> None:
    with torch.device('meta'):
        cost = count_model(Spectrum(), (10, 10))
    table = render(dict.fromkeys(('a/one.py', 'b/one.py', 'b/two.py'), cost), markdown=True)
    assert [line.split('|')[1].strip() for line in table.splitlines()[2:5]] == ['a/one.py', 'b/one.py', 'two']
