"""The correlations of the second study's page, from its published tables."""

import shutil
from pathlib import Path

import pytest

second_study = pytest.importorskip('second_study')
TABLES = Path(__file__).parents[2] / 'docs' / 'second_study_tables'


def test_published_tables_give_the_figures_of_the_page(tmp_path, capsys):
    for path in TABLES.glob('parts*.csv'):
        shutil.copy(path, tmp_path)
    second_study.main([str(tmp_path)])
    printed = capsys.readouterr().out
    assert '-0.64 [-0.84, -0.29], 12 operators' in printed
    assert '-0.56 [-0.82, -0.10], 10 operators' in printed
    assert (tmp_path / 'parts.png').stat().st_size > 10_000
    # a control is no operator
    assert 'none' not in second_study.by_parts(TABLES / 'parts.csv').index
