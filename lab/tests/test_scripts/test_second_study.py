"""The figures of the second study's page, from its published tables."""
import shutil
from pathlib import Path

import pandas as pd
import pytest

second_study = pytest.importorskip('second_study')
TABLES = Path(__file__).parents[2] / 'docs' / 'second_study_tables'


def test_published_tables_give_the_figures_and_pictures_of_the_page(tmp_path, capsys):
    for path in TABLES.glob('*.csv'):
        shutil.copy(path, tmp_path)
    second_study.main(tmp_path)
    printed = capsys.readouterr().out
    for figure in ('-0.64 [-0.84, -0.29], 12 operators', '-0.56 [-0.82, -0.10], 10 operators', '0.31 [0.24, 0.43]',
                   'rho 0.60, 19 attentions, each left out; p = 0.006'):
        assert figure in printed
    assert {path.name for path in tmp_path.glob('*.png')} == {'tasks.png', 'parts.png', 'orders.png', 'prediction.png',
                                                              'costs.png'}


def test_controls_are_no_operators(tmp_path):
    runs = pd.read_csv(TABLES / 'parts.csv')
    control = runs[runs['levels.operator'] == 'relu'].assign(**{'levels.operator': 'none'})
    pd.concat([runs, control]).to_csv(tmp_path / 'parts.csv', index=False)
    found = set(second_study.table(tmp_path / 'parts.csv').operator)
    assert 'relu' in found and not found & {'none', 'mean'}
