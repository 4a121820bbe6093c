"""Costs of configs compared with the papers' rows, each counted as its paper counts."""

import pytest
import torch
from torch import nn
from zoo.records import ZooEntry

from mmflatten.measure.flops.model_cost import count_model
from mmflatten.measure.papers.costs import render, table_rows
from mmflatten.measure.papers.tables import PaperRow, paper_rows


def params() -> list:
    """Every config. Those outside the full sweep have each family and each head."""
    seen, sample = {None}, {}
    for row in paper_rows():
        dense = row.cells['task'] != 'classification'
        family = row.cells['backbone'].rpartition('-')[0]
        head = (row.cells['task'], row.cells['method'].partition(',')[0]) if dense else None
        has_figures = bool(row.cells['params_m'] or row.cells['flops_g'])
        if row.config:
            sample[row.config] = (
                sample.get(row.config, False) or has_figures and not {family, head} <= seen
            )
        if row.config and has_figures:
            seen |= {family, head}
    return [
        pytest.param(config, marks=[] if sampled else [pytest.mark.full])
        for config, sampled in sample.items()
    ]


@pytest.mark.parametrize('config', params())
def test_cost_of_config_agrees_with_the_papers_unless_its_row_has_a_cause(
    cost_of_config, config: str
) -> None:
    rows = [row for row in paper_rows() if row.config == config]
    for shape in dict.fromkeys(row.shape for row in rows):
        cost = cost_of_config(config, shape)
        assert {
            name for name in cost.counts.uncounted if not name.startswith('aten::_fft')
        } == set()
        for entry in (ZooEntry.of(row, cost) for row in rows if row.shape == shape):
            assert (entry.agrees != 'no') is not bool(entry.row.cause), entry


class Spectrum(nn.Module):
    """An operator without a formula between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        maps = self.conv(image)
        return torch.fft.rfft(maps) if maps.shape[-1] > 8 else maps @ maps


def test_flops_are_counted_as_the_paper_counts() -> None:
    with torch.device('meta'):
        # 8 * 64 * 27 in the convolution, 8 * 8 ** 3 in the product
        cost = count_model(Spectrum(), (10, 10))
    rows = tuple(
        row
        for row in paper_rows()
        if row.label in ('flatten 2b', 'focal 5')
        and (row.cells['method'], row.cells['backbone']) == ('cascade-mask-rcnn', 'swin-t')
    )
    rows = [PaperRow({**row.cells, 'flops_input_hw': '10x10'}) for row in rows]
    flatten, focal = table_rows('cascade', cost, rows)
    assert (cost.counts.macs, cost.counts.papers_convention(with_products=False)) == (17920, 13824)
    assert flatten[7] == '745'
    assert flatten[9:] == ('flatten 2b', 'none')
    assert not flatten[6].endswith('*')
    assert focal[7] == '742' and focal[9] == 'focal 5' and focal[6].endswith('*')


def test_operator_without_a_formula_is_named() -> None:
    with torch.device('meta'):
        cost = count_model(Spectrum(), (12, 12))
    assert table_rows('spectrum', cost, [])[0][-1] == 'aten::_fft_r2c (1x)'


def test_configs_with_equal_names_are_shown_by_path() -> None:
    with torch.device('meta'):
        cost = count_model(Spectrum(), (10, 10))
    table = render(dict.fromkeys(('a/one.py', 'b/one.py', 'b/two.py'), cost), markdown=True)
    assert [line.split('|')[1].strip() for line in table.splitlines()[2:5]] == [
        'a/one.py',
        'b/one.py',
        'two',
    ]
