"""Tests of the third study: Welch's test against each reference, and the sizes of both kinds of tables."""
import numpy as np
import pandas as pd
import pytest
import third_study
from scipy import stats


def test_compare_has_the_interval_and_holms_correction():
    values = {name: pd.Series(numbers) for name, numbers in
              dict(none=[80., 81., 82.], mala=[70., 74., 75.], relu=[80.5, 80.7, 81.2]).items()}
    table = third_study.compare(values, 'none')
    assert table.index.tolist() == ['mala', 'relu'] and table.difference['mala'] == pytest.approx(-8)
    single = stats.ttest_ind(values['mala'], values['none'], equal_var=False).pvalue
    assert table.p['mala'] == pytest.approx(2 * single) and table.p['relu'] > .5
    variance = values['mala'].var() / 3 + values['none'].var() / 3
    freedom = variance ** 2 / ((values['mala'].var() / 3) ** 2 / 2 + (values['none'].var() / 3) ** 2 / 2)
    half = stats.t.ppf(.975, freedom) * variance ** .5
    assert [table.low['mala'], table.high['mala']] == pytest.approx([-8 - half, -8 + half])


@pytest.mark.parametrize('names, tasks', [
    ([f'cells/accuracy_{size}' for size in (49, 196, 784, 3136)], ['local', 'far']),
    ([f'{size}x/coco/segm_mAP' for size in (1, 4, 16)], None)])
def test_tables_of_tokens_and_of_detectors(names, tasks, tmp_path, capsys):
    rows = [{'state': 'finished', 'levels.attention': level, 'value': value + seed,
             **({'levels.task': task} if task else {}),
             **{f'metrics.{name}': float(np.log(number + value + seed)) for number, name in enumerate(names)}}
            for task in tasks or [None] for level, value in (('softmax', 80), ('none', 70), ('mala', 60))
            for seed in range(3)]
    pd.DataFrame([*rows, {**rows[0], 'state': 'failed', 'value': np.nan}]).to_csv(tmp_path / 'runs.csv', index=False)
    third_study.main(str(tmp_path / 'runs.csv'), str(tmp_path / 'runs.png'))
    printed = capsys.readouterr().out
    assert all(f'{task}, against softmax' in printed for task in tasks or ['detector']) and 'mala' in printed
    assert (tmp_path / 'runs.png').stat().st_size > 1000
