"""Figures of the second study from its tables."""
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

LAB = Path(__file__).parents[2]
second_study = pytest.importorskip('second_study')
CORES = ['softmax', 'relu', 'elu', 'focused', 'efficient', 'xca', 'cosformer', 'agent', 'inline', 'rala']


def runs(**columns):
    table = pd.DataFrame({'levels.core': CORES, 'mode': 'recipe', 'state': 'finished', **columns})
    anchor = {**dict.fromkeys(table, '-'), 'mode': 'anchor', 'state': 'finished', 'seed': 0, 'value': 99.}
    return pd.concat([table, pd.DataFrame([anchor])])


def test_orders_of_budgets(tmp_path, capsys):
    """The same order has tau 1, the reversed one -1; anchors and other parts are left out, and seeds averaged."""
    values, levels = np.arange(10.) + 80, {'levels.gate': 'none', 'levels.positions': 'table'}
    parts = [runs(value=values[::-1], seed=0, **levels, **{'levels.local': 'convolution'}),
             runs(value=values[::-1], seed=0, **levels, **{'levels.local': 'none'}),
             runs(value=3 * values, seed=1, **levels, **{'levels.local': 'convolution'})]
    pd.concat(parts).to_csv(tmp_path / 'parts.csv', index=False)
    for size, column in (('-half', values), ('', values[::-1])):
        runs(value=column, seed=0).to_csv(tmp_path / f'budgets{size}.csv', index=False)
    second_study.main(tmp_path)
    found = capsys.readouterr().out
    assert '0.5 and 2' in found and '1.00 [' in found and '-1.00 [' in found and '10 cores' in found
    assert (tmp_path / 'orders.png').exists()


def test_spread_of_cores_and_of_seeds():
    """Each cell deviates from its mean by 1 over its two seeds; the cores with a local term are ten times closer."""
    values = np.arange(10.)
    parts = pd.concat(pd.DataFrame(dict(core=CORES, local=local, gate='none', seed=seed, value=value))
                      for local, scale in (('none', 1), ('convolution', .1))
                      for seed, value in ((0, scale * values - 1), (1, scale * values + 1)))
    rows = [row.split('|')[1:4] for row in second_study.spreads(parts).splitlines()[2:]]
    deviations = {name.strip(): [float(word.strip('[],')) for word in text.split()] for name, _, text in rows}
    assert deviations['alone'][0] == pytest.approx(values.std(ddof=1), abs=.01)
    assert deviations['local'][0] == pytest.approx(.1 * values.std(ddof=1), abs=.01)
    assert deviations['over seeds'][0] == pytest.approx(2 ** .5, abs=.01)
    assert all(low < middle < high for middle, low, high in deviations.values())


def test_positions_inside_attentions(tmp_path, capsys):
    """Each cell has lost as many points without them as it has helpers; only cores of the second table are compared."""
    cells = ('none', 'none', 0), ('convolution', 'none', 1), ('none', 'silu', 1), ('convolution', 'silu', 2)
    for name, share in (('parts', 0), ('parts_without_positions', 1)):
        table = pd.concat(runs(value=np.arange(10.) + 80 - share * lost, seed=0,
                               **{'levels.local': local, 'levels.gate': gate, 'levels.positions': 'table'})
                          for local, gate, lost in cells)
        table[(share == 0) | (table['levels.core'] == 'rala')].to_csv(tmp_path / f'{name}.csv', index=False)
    second_study.main(tmp_path)
    rows = [row for row in capsys.readouterr().out.splitlines() if row.startswith(('| rala', '| mean'))]
    assert [[float(number) for number in row.split('|')[2:6]] for row in rows] == [[0, 1, 1, 2]] * 2


def test_best_rate_of_a_cell_is_marked(tmp_path):
    low, high = (runs(value=value, seed=0, **{'levels.optim_wrapper.optimizer.lr': rate})[:-1]  # without anchor
                 for rate, value in ((1e-3, 80.), (2e-3, 81.)))
    pd.concat([low, high]).to_csv(tmp_path / 'rates_with_parts.csv', index=False)
    low.to_csv(tmp_path / 'rates_with_parts-gate.csv', index=False)
    found = second_study.rates(second_study.by_rates(tmp_path))
    assert found.count('81.00 *') == 10 and found.count('80.00 *') == 10 and 'gate, 0.001' in found


def test_orders_of_lengths(tmp_path, capsys):
    """Images of the training file choose the rate of each core and length; those of the test file do not."""
    lr, size, tried = 'levels.optim_wrapper.optimizer.lr', 'levels.model.backbone.patch_size', 'validations.1'
    values = np.arange(10.) + 70
    tables = [runs(value=values, seed=0, **{lr: 1e-3, size: 4, tried: 80.}),
              runs(value=99., seed=0, **{lr: 2e-3, size: 4, tried: 79.}),
              runs(value=values[::-1], seed=0, **{lr: 2e-3, size: 2, tried: 81.}),
              runs(value=99., seed=0, **{lr: 4e-3, size: 2, tried: 60.})[:3]]
    pd.concat(tables).to_csv(tmp_path / 'lengths.csv', index=False)
    second_study.main(tmp_path)
    found = capsys.readouterr().out
    assert '| 49 and 196 | -1.00 [' in found and '| softmax | 70.00 | 79.00 |' in ' '.join(found.split())
    assert found.count('80.00 *') == 10 and found.count('81.00 *') == 10 and found.count('60.00') == 3


def test_cores_of_the_battery_have_its_names():
    runs = pd.DataFrame(dict(core=['agent', 'relu'], local='none', gate='none', value=[2., 1.]))
    found = second_study.battery_cells(runs)
    assert found.to_dict() == {'linear': 1., 'agent-core': 2.}


def test_prediction_tells_ability_from_noise():
    """Accuracy that is a mean of abilities is predicted; noise is not."""
    battery = pd.read_csv(second_study.REFERENCES).groupby(['attention', 'task']).accuracy.mean().unstack()
    names = [name for name in battery.index if name in second_study.CELLS]
    related = battery.loc[names].mean(axis=1)
    noise = pd.Series(np.random.default_rng(1).normal(size=len(names)), names)
    rho = {name: float(second_study.prediction(values).split()[2].strip(',')) for name, values in
           (('related', related), ('noise', noise))}
    assert rho['related'] > .9 and rho['noise'] < .5


def test_prediction_beside_the_helpers_leaves_their_effect_out():
    cells = pd.DataFrame(second_study.CELLS.values(), columns=['core', 'local', 'gate'])
    parts = cells.assign(positions='table', value=80. + 3 * (cells.local != 'none') + 2 * (cells.gate != 'none'))
    assert second_study.battery_cells(parts).std() > 1
    assert second_study.battery_cells(parts, beside_helpers=True).abs().max() < 1e-9


def test_each_prediction_is_made_without_its_own_value():
    generator = np.random.default_rng(0)
    features, values = generator.normal(size=(9, 3)), generator.normal(size=9)
    changed = values + 100 * np.eye(9)[4]
    before, after = (second_study.predicted(features, item) for item in (values, changed))
    assert before[4] == pytest.approx(after[4]) and not np.allclose(np.delete(before, 4), np.delete(after, 4))


def test_every_attention_of_the_prediction_is_in_the_battery_and_in_the_study():
    from mmflatten_lab.studies.study_file import read_study
    factors = read_study(LAB / 'studies' / 'parts.yaml').factors
    alone = {core for core, *helpers in second_study.CELLS.values() if helpers == ['none', 'none']}
    assert alone == set(factors['core'])
    assert set(second_study.CELLS) <= set(pd.read_csv(second_study.REFERENCES).attention)
    for core, local, gate in second_study.CELLS.values():
        assert core in factors['core'] and local in factors['local'] and gate in factors['gate']
