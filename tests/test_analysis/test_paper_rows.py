"""Every row of the papers' tables that names a config: the config exists, and costs what the paper says."""
from pathlib import Path

import pytest

from mmflatten.analysis.model_cost import count_config
from mmflatten.analysis.tables import paper_rows, within_printed_precision

ROOT = Path(__file__).parents[2]
CONFIGS = sorted({row.config for row in paper_rows() if row.config})


@pytest.mark.parametrize('config', CONFIGS)
def test_parameters_round_to_the_papers_and_flops_are_within_2_percent(config: str) -> None:
    cost = count_config(ROOT / config)
    assert not cost.cost.counts.uncounted
    for row in cost.rows:
        if row.params_m is not None:
            assert within_printed_precision(cost.cost.params / 1e6, row.cells['params_m']), row.label
        if row.flops_g is not None:
            assert cost.papers_convention(row) / 1e9 == pytest.approx(cost.row_flops(row), rel=0.02), row.label
