"""Every row of the papers' tables that names a config: the config exists, and costs what the paper says."""
from pathlib import Path

import pytest

from mmflatten.analysis.model_cost import count_config
from mmflatten.analysis.tables import paper_rows, within_printed_precision

ROOT = Path(__file__).parents[2]
CONFIGS = sorted({row.config for row in paper_rows() if row.config})


@pytest.mark.parametrize('config', CONFIGS)
def test_parameters_round_to_the_papers_and_flops_are_within_2_percent_or_the_row_says_why(config: str) -> None:
    cost = count_config(ROOT / config)
    assert not cost.cost.counts.uncounted
    for row in cost.rows:
        agrees = (row.params_m is None or within_printed_precision(cost.cost.params / 1e6, row.cells['params_m'])) and (
            row.flops_g is None
            or cost.papers_convention(row) / 1e9 == pytest.approx(cost.row_flops(row), rel=0.02))
        assert agrees is not bool(row.cause), (
            f'{row.label}: {cost.cost.params / 1e6:.2f} M, {cost.papers_convention(row) / 1e9:.2f} G; the paper '
            f'{row.cells["params_m"]} M, {row.cells["flops_g"]} G; cause: {row.cause!r}')
