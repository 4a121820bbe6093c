"""Tests of changes from the trained size, on results that are drawn with known changes."""

import math
from itertools import product

import larger_changes
import numpy as np
import pandas as pd
import pytest
from scipy import stats

KINDS = ('196', '784', '784_kept', '3136', '3136_kept')
CHANGES = dict(softmax=(0, -2, 0, -4, 0), mala=(0, -50, -12, -58, -20), relu=(0, -2, 0, -4, 0))
DESIGN = larger_changes.Design('softmax')
EPYC = 'AMD EPYC 7B13'
XEON = 'Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz'


def table(tmp_path, *, seeds: int = 6, processor=lambda level, seed: EPYC, shift: float = 0.0):
    """Results with the changes of `CHANGES`, of which MALA's vary much more than the others."""
    random = np.random.default_rng(0)
    rows = []
    for level, seed in product(CHANGES, range(seeds)):
        row = {'name': f'{level}_s{seed}', 'state': 'finished', 'levels.attention': level}
        row['seed'] = seed
        row['machine.processor'] = processor(level, seed)
        spread = 6.0 if level == 'mala' else 0.5
        for kind, change in zip(KINDS, CHANGES[level]):
            value = 75 + change + (random.normal(0, spread) if change else random.normal(0, 0.2))
            if kind != '196' and row['machine.processor'] == XEON:
                value += shift
            row[f'metrics.cells/accuracy_{kind}'] = value
            row[f'metrics.cells/error_{kind}'] = 0.3
        rows.append(row)
    path = tmp_path / 'runs.csv'
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def rows_by(path, **design) -> dict[tuple[str, str, str], list[str]]:
    runs = larger_changes.read_runs(path, 'softmax')
    rows = larger_changes.change_rows(runs, larger_changes.Design('softmax', **design))
    return {(name, tokens, growth): rest for name, tokens, growth, *rest in rows}


def test_changes_are_told_from_those_of_softmax(tmp_path, capsys):
    path = table(tmp_path)
    rows = rows_by(path)
    assert len(rows) == 3 * 4
    seeds, change, to_softmax, p, settled = rows['mala', '784', 'more garments']
    assert (seeds, settled) == ('6', 'yes') and float(p) < 0.05
    assert float(change.split()[0]) == pytest.approx(-50, abs=6)
    assert float(to_softmax) == pytest.approx(-48, abs=6)
    assert rows['relu', '3136', 'more garments'][-1] == 'no'
    assert rows['softmax', '784', 'more, share kept'][-3:] == ['', '', '']
    larger_changes.main([str(path), str(tmp_path / 'runs.png')])
    assert '| mala' in capsys.readouterr().out
    assert (tmp_path / 'runs.png').stat().st_size > 1000


def test_wide_table_has_a_row_for_each_attention(tmp_path, capsys):
    path = table(tmp_path)
    larger_changes.main([str(path), '--wide'])
    header, _, *rows = capsys.readouterr().out.splitlines()
    cells = {}
    for row in rows:
        name, seeds, accuracy, *changes, verdict = (
            cell.strip() for cell in row.strip('|').split('|')
        )
        assert seeds == '6' and float(accuracy) == pytest.approx(75, abs=0.5)
        cells[name] = changes
        stars = sum('*' in change for change in changes)
        assert verdict == ('' if name == 'softmax' else f'{stars} of 4')
    assert header.count('|') == 3 + 4 + 2 and set(cells) == set(CHANGES)
    long = rows_by(path)
    names = [('784', 'more garments'), ('3136', 'more garments')]
    names += [('784', 'more, share kept'), ('3136', 'more, share kept')]
    for name, changes in cells.items():
        for kind, shown in zip(names, changes):
            mean, _, half, *star = shown.split()
            _, change, _, _, settled = long[name, *kind]
            assert change.split()[0] == mean and float(half) > 0
            assert (star == ['*']) == (settled == 'yes')


def test_levels_without_the_planned_seeds_are_not_tested(tmp_path, capsys):
    larger_changes.main([str(table(tmp_path)), '--wide', '--seeds', '7'])
    rows = capsys.readouterr().out.splitlines()[2:]
    verdicts = {row.strip('| ').rpartition('|')[2].strip() for row in rows if 'softmax' not in row}
    assert verdicts == {'not tested'} and '*' not in ''.join(rows)


def test_a_change_has_the_errors_of_seeds_and_of_shared_canvases():
    runs = pd.DataFrame(
        {
            'metrics.cells/accuracy_196': [70.0, 71.0, 72.0],
            'metrics.cells/accuracy_784': [60.0, 63.0, 63.0],
            'metrics.cells/error_196': [0.3] * 3,
            'metrics.cells/error_784': [0.4] * 3,
        }
    )
    change = larger_changes.change_of(runs, '784')
    variance = np.var([-10, -8, -9], ddof=1) / 3
    assert (change.mean, change.number) == (pytest.approx(-9), 3)
    assert change.seeds == pytest.approx(variance)
    assert change.canvases == pytest.approx(0.25)  # of both sizes, whatever the number of seeds
    freedom = 2 * (variance + 0.25) ** 2 / variance**2
    half = stats.t.ppf(0.975, freedom) * math.sqrt(variance + 0.25)
    assert change.half_interval == pytest.approx(half)


def test_without_an_error_of_the_canvases_it_is_welchs_test(tmp_path):
    path = table(tmp_path)
    runs = larger_changes.read_runs(path, 'softmax')
    runs = runs.assign(**{name: 0.0 for name in runs if 'error' in name})
    estimate, p = larger_changes.difference(runs, 'mala', '784', DESIGN)
    values = runs['metrics.cells/accuracy_784'] - runs['metrics.cells/accuracy_196']
    parts = [values[runs.attention == level] for level in ('mala', 'softmax')]
    test = stats.ttest_ind(*parts, equal_var=False)
    assert p == pytest.approx(test.pvalue)
    assert estimate == pytest.approx(parts[0].mean() - parts[1].mean())


def test_equal_levels_are_settled_in_five_percent_of_the_tables():
    random = np.random.default_rng(1)
    found = 0
    for _ in range(100):
        rows = []
        for level, spread in (('softmax', 0.5), ('mala', 8.0), ('relu', 2.0)):
            for _ in range(6):
                row = {'attention': level, 'family': 'one'}
                for kind in ('196', '784'):
                    row[f'metrics.cells/accuracy_{kind}'] = random.normal(0, spread)
                    row[f'metrics.cells/error_{kind}'] = 0.0
                rows.append(row)
        rows = larger_changes.change_rows(pd.DataFrame(rows), DESIGN)
        found += any(row[-1] == 'yes' for row in rows)
    assert found <= 9  # of 100; more have a probability of 3 % if the rate is 5 %


def test_runs_are_compared_on_their_own_processor(tmp_path):
    both = table(tmp_path, processor=lambda level, seed: XEON if seed > 2 else EPYC, shift=-30)
    *_, to_softmax, p, settled = rows_by(both)['relu', '784', 'more garments']
    assert abs(float(to_softmax)) < 1.5 and settled == 'no'
    alone = table(tmp_path, processor=lambda level, seed: XEON if level == 'mala' else EPYC)
    assert not [name for name, _, _ in rows_by(alone) if name == 'mala']
    assert larger_changes.left_out(larger_changes.read_runs(alone, 'softmax'), 'softmax') == [
        'Not compared: mala on Intel Xeon, where softmax has no run.'
    ]


def test_one_seed_is_not_judged(tmp_path):
    rows = rows_by(table(tmp_path, seeds=1))
    assert rows['mala', '784', 'more garments'][-1] == 'no: too few seeds'


def test_tables_without_the_trained_size_or_softmax_are_named(tmp_path):
    path = tmp_path / 'runs.csv'
    path.write_text('state,levels.attention,value\nfinished,none,1\n')
    with pytest.raises(ValueError, match='expected the column metrics.cells/accuracy_196'):
        larger_changes.main([str(path)])
    path.write_text(
        'state,levels.attention,metrics.cells/accuracy_196,machine.processor\nfinished,none,1,x\n'
    )
    with pytest.raises(ValueError, match='finished runs of softmax'):
        larger_changes.main([str(path)])


def test_levels_with_canvases_of_each_seed_are_compared_seed_by_seed(tmp_path):
    path = table(tmp_path)
    runs = larger_changes.read_runs(path, 'softmax')
    # Hard canvases take the same from all levels.
    hard = runs.seed.map({0: -80, 1: 60, 2: 12, 3: -36, 4: 48, 5: 0})
    runs['metrics.cells/accuracy_784'] += hard
    runs.to_csv(path, index=False)
    design = DESIGN._replace(own_canvases=True)
    found = larger_changes.difference(runs, 'mala', '784', design)
    values = runs['metrics.cells/accuracy_784'] - runs['metrics.cells/accuracy_196']
    parts = [values[runs.attention == level] for level in ('mala', 'softmax')]
    test = stats.ttest_rel(*parts)
    assert found == pytest.approx((parts[0].mean() - parts[1].mean(), test.pvalue))
    own = rows_by(path, own_canvases=True)['mala', '784', 'more garments']
    assert (own[0], own[-1]) == ('6', 'yes')
    assert rows_by(path)['mala', '784', 'more garments'][-1] == 'no'
    # The interval of a change is Student's, without the error of the canvases.
    low, high = stats.ttest_1samp(parts[0], 0).confidence_interval()
    assert own[1] == f'{parts[0].mean():+.1f} [{low:+.1f}, {high:+.1f}]'


def test_nothing_is_settled_before_the_planned_seeds_are_in(tmp_path):
    rows = rows_by(table(tmp_path), own_canvases=True, seeds=10)
    assert {row[-1] for (name, *_), row in rows.items() if name != 'softmax'} == {
        'no: too few seeds'
    }


def test_levels_with_fewer_seeds_are_outside_of_the_correction(tmp_path):
    path = table(tmp_path)
    runs = pd.read_csv(path)
    alone = runs[runs['levels.attention'] != 'relu']
    fewer = runs[(runs['levels.attention'] != 'relu') | (runs.seed < 3)]
    found = []
    for kept in (alone, fewer):
        kept.to_csv(path, index=False)
        found.append(rows_by(path, own_canvases=True, seeds=6))
    key = ('mala', '3136', 'more, share kept')
    assert found[0][key] == found[1][key]
    assert found[1]['relu', '784', 'more garments'][-2:] == ['', 'no: too few seeds']


def test_a_level_with_one_answer_is_named_and_not_compared(tmp_path):
    path = table(tmp_path)
    runs = pd.read_csv(path)
    is_relu = runs['levels.attention'] == 'relu'
    runs['metrics.cells/commonest_196'] = np.where(is_relu, 99.0, 14.0)
    runs.to_csv(path, index=False)
    rows = rows_by(path)
    assert rows['relu', '784', 'more garments'][-3:] == ['', '', 'constant']
    assert rows['mala', '784', 'more garments'][-1] == 'yes'


@pytest.mark.parametrize(
    'shift, spread, seeds, verdict',
    [
        (1.0, 0.5, 6, 'yes'),
        (-9.0, 0.5, 6, 'no'),
        (1.0, 20.0, 6, 'not settled'),
        (1.0, 0.5, 10, 'not settled: too few seeds'),
    ],
)
def test_a_second_processor_repeats_the_changes_or_not(
    tmp_path, capsys, shift, spread, seeds, verdict
):
    path = table(tmp_path)
    runs = pd.read_csv(path)
    moves = shift + spread * np.array([-1, 1, -1, 1, -1, 1])
    runs['metrics.cells/accuracy_784'] += runs.seed.map(dict(enumerate(moves)))
    again = tmp_path / 'again.csv'
    runs[runs['levels.attention'] != 'relu'].to_csv(again, index=False)
    options = ['--own-canvases', '--seeds', str(seeds), '--again', str(again)]
    larger_changes.main([str(path), *options])
    printed = capsys.readouterr().out.partition('second less first')[2]
    cells = [line.split('|') for line in printed.splitlines() if line.startswith('| ')]
    found = {tuple(cell.strip() for cell in row[1:4]): row for row in cells}
    row = found['mala', '784', 'more garments']
    assert row[4].strip() == '6' and row[6].strip() == verdict
    assert float(row[5].split()[0]) == pytest.approx(shift)
    assert found['mala', '3136', 'more garments'][5].split()[0] == '+0.0'
    assert 'relu' not in printed
