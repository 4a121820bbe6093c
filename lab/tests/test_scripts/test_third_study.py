"""Tests of the third study: Welch's test against each reference, for each combination of the other
factors.
"""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import third_study
from scipy import stats

MEANS = dict(softmax=80, none=70, mala=60)


def test_compare_has_the_interval_and_holms_correction():
    values = dict(
        none=pd.Series([80.0, 81.0, 82.0]),
        mala=pd.Series([70.0, 74.0, 75.0]),
        relu=pd.Series([80.5, 80.7, 81.2]),
    )
    table = third_study.compare(values, 'none')
    assert table.index.tolist() == ['mala', 'relu']
    assert table.difference['mala'] == pytest.approx(-8)
    single = stats.ttest_ind(values['mala'], values['none'], equal_var=False).pvalue
    assert table.p_holm['mala'] == pytest.approx(2 * single)
    assert table.p_holm['relu'] > 0.5
    parts = [values[name].var() / 3 for name in ('mala', 'none')]
    freedom = sum(parts) ** 2 / sum(part**2 / 2 for part in parts)
    half = stats.t.ppf(0.975, freedom) * sum(parts) ** 0.5
    assert [table.low['mala'], table.high['mala']] == pytest.approx([-8 - half, -8 + half])


@pytest.mark.parametrize(
    'names, others',
    [
        (
            [f'cells/accuracy_{size}' for size in (49, 196, 784, 3136)],
            [{'levels.task': 'local'}, {'levels.task': 'far'}],
        ),
        ([f'{size}x/coco/segm_mAP' for size in (1, 4, 16)], [{'levels.rate': '4e-3'}]),
    ],
)
def test_each_combination_of_other_factors_has_its_tests_and_panel(names, others, tmp_path, capsys):
    rows = []
    for (number, other), level, seed in product(enumerate(others), MEANS, range(3)):
        value = MEANS[level] + seed
        row = {'state': 'finished', 'mode': 'recipe', 'levels.attention': level, **other}
        row['value'] = value + 5 * number
        row.update((f'metrics.{name}', float(np.log(value))) for name in names)
        rows.append(row)
    # a rate with one run for each level, and a failed run
    single = [{**row, 'levels.rate': '2e-3'} for row in rows[::3] if 'levels.rate' in row]
    rows += [*single, {**rows[0], 'state': 'failed', 'value': np.nan}]
    pd.DataFrame(rows).to_csv(tmp_path / 'runs.csv', index=False)
    third_study.main([str(tmp_path / 'runs.csv'), str(tmp_path / 'runs.png')])
    printed = capsys.readouterr().out
    titles = ['local', 'far'] if len(others) > 1 else ['0.004']
    for title, reference in product(titles, ('none', 'softmax')):
        assert f'{title}, against {reference}' in printed
    assert printed.count('-20.0') == len(titles)
    assert (tmp_path / 'runs.png').stat().st_size > 1000


def test_a_table_without_a_known_metric_is_named(tmp_path):
    (tmp_path / 'runs.csv').write_text('state,levels.attention,value\nfinished,none,1\n')
    with pytest.raises(ValueError, match='expected one of the columns metrics.cells/accuracy_49'):
        third_study.main([str(tmp_path / 'runs.csv')])
