"""Every row of the papers' tables that names a config: the config exists, and costs what the paper says."""
from pathlib import Path

import pytest

from mmflatten.analysis.flops.model_cost import count_config
from mmflatten.analysis.zoo.tables import PaperRow, paper_rows

ROOT = Path(__file__).parents[2]


def params() -> list:
    """Every config; the first of each backbone and head are the sample, the others the full sweep."""
    kinds = {}
    for row in paper_rows():
        head = row.cells['method'].partition(',')[0] if row.cells['task'] != 'classification' else ''
        if row.config:
            kinds.setdefault(row.config, (row.cells['backbone'], row.cells['task'], head))
    first = {kind: config for config, kind in reversed(kinds.items())}
    return [pytest.param(config, marks=[] if first[kind] == config else [pytest.mark.full])
            for config, kind in kinds.items()]


def describe(row: PaperRow, params: int, flops: int) -> str:
    return (f'{row.label}: {params / 1e6:.2f} M, {flops / 1e9:.2f} G; the paper {row.cells["params_m"]} M, '
            f'{row.cells["flops_g"]} G; cause: {row.cause!r}')


@pytest.mark.parametrize('config', params())
def test_parameters_round_to_the_papers_and_flops_are_within_2_percent_or_the_row_says_why(config: str) -> None:
    rows = [row for row in paper_rows() if row.config == config]
    for shape in dict.fromkeys(row.shape for row in rows):
        cost = count_config(ROOT / config, shape)
        assert not cost.cost.counts.uncounted
        for row in (row for row in rows if row.shape == shape):
            flops = cost.papers_convention(row)
            agrees = False not in (row.params_agree(cost.cost.params), row.flops_agree(flops))
            assert agrees is not bool(row.cause), describe(row, cost.cost.params, flops)
