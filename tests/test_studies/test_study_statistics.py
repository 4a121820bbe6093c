"""Statistics against examples by hand, and what they make of claims."""
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from mmflatten.studies.claims import judge, seed_means
from mmflatten.studies.folder import FINISHED, Result
from mmflatten.studies.grid import GRID
from mmflatten.studies.report import write_report
from mmflatten.studies.statistics import BETTER, NOISE, UNTESTED, WORSE, compare, holm, interval, pareto, rank
from mmflatten.studies.study import StudyError
from mmflatten.studies.study_file import read_study
from mmflatten.studies.table import Table
from mmflatten.studies.tuning import signed


def test_interval_is_students():
    # mean 2, standard deviation 1, t(0.975, 2) = 4.302653
    found = interval([1., 2., 3.])
    assert (found.mean, found.number) == (2, 3)
    assert found.high - 2 == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6) == pytest.approx(2 - found.low)
    assert math.isnan(interval([5.]).low)


def test_comparison_is_paired_by_seed():
    # differences 1, 2, 3: d = 2, t = 2 sqrt(3) = 3.4641, p = 0.0742 for 2 degrees of freedom
    found = compare('a', 'b', dict(a={0: 11., 1: 22., 2: 33., 7: 0.}, b={0: 10., 1: 20., 2: 30., 8: 99.}))
    assert (found.difference.mean, found.difference.number, found.effect) == (2, 3, 2)
    assert found.p == pytest.approx(0.07418, abs=1e-5) and found.p_wilcoxon == 0.25
    assert found.verdict == NOISE  # without a correction nothing is called better


def test_equal_values_are_inside_the_noise_and_differences_without_variance_untested():
    equal, single, alike = holm([compare('a', 'b', dict(a={0: 1., 1: 2.}, b={0: 1., 1: 2.})),
                                 compare('a', 'b', dict(a={0: 1.}, b={0: 5.})),
                                 compare('a', 'b', dict(a={0: 60.2, 1: 60.6}, b={0: 60.0, 1: 60.4}))])
    assert (equal.verdict, single.verdict, alike.verdict) == (NOISE, UNTESTED, UNTESTED)
    assert equal.p == 1 and math.isnan(single.p_holm) and alike.difference.mean == pytest.approx(.2)


def test_holms_correction_is_over_the_family():
    values = {name: dict(enumerate(shift + np.array([0., .1, .2, .1]) * slope)) for name, shift, slope in
              [('a', 0, 1), ('b', 5, 2), ('c', .02, 3)]}
    family = holm([compare('b', 'a', values), compare('a', 'b', values), compare('c', 'a', values)])
    assert [item.verdict for item in family] == [BETTER, WORSE, NOISE]
    assert family[0].p_holm == pytest.approx(3 * family[0].p) and family[2].p_holm == family[2].p


def test_ranks_are_averages_over_tasks_without_gaps():
    means = pd.DataFrame([[3., 2., 1., 9.], [30., 10., 20., 9.], [5., 4., 3., math.nan]], columns=list('abcd'))
    found = rank(means)
    assert found.average.to_dict() == pytest.approx(dict(a=1., b=7 / 3, c=8 / 3)) and found.blocks == 3
    # chi^2 = 12 / (3 * 3 * 4) * (3^2 + 7^2 + 8^2) - 3 * 3 * 4 = 14/3; p = exp(-chi^2 / 2)
    assert found.friedman == pytest.approx(math.exp(-7 / 3))
    assert rank(means[['a', 'b']]) is None


def test_pareto_front_holds_what_nothing_beats():
    assert pareto([1, 2, 3, 2], [10, 20, 15, 20]) == [True, True, False, True]


@pytest.fixture
def claimed(study_file):
    factors = dict(attention=dict(good={}, fair={}, poor={}, like={}), task=dict(x={}, y={}, z={}), seed=4)
    return read_study(study_file(factors=factors, metrics={'acc': 'higher', 'epe': 'lower'}, claims=[
        dict(order='good > fair > poor', where=dict(task=['x', 'z'])), dict(order='poor > good', where=dict(task='x')),
        dict(order='fair > like', where=dict(task='x')), dict(order='good > fair', where=dict(task='y'))]))


def results(study, noise=.3):
    """Accuracy in x and z, an error in y; `like` is `fair` but for noise."""
    draw, level = np.random.default_rng(0), dict(good=3., fair=2., poor=1., like=2.)
    return [Result(f'{name}{task}{seed}', GRID, dict(attention=name, task=task), seed, state=FINISHED,
                   metric='epe' if task == 'y' else 'acc', cpu_seconds=1., flops=10**6, params=10,
                   throughput={'8x8': 1.}, machine=dict(processor='p', gpu='g', torch='t', threads=1),
                   value=(-1 if task == 'y' else 1) * (10 * seed + level[name] + draw.normal(0, noise) / 10))
            for name in level for task in ('x', 'y', 'z') for seed in study.seeds]


def test_claims_are_judged_with_all_pairs_in_one_family(claimed):
    verdicts = judge(claimed, results(claimed), GRID)
    assert [verdict.text for verdict in verdicts] == [
        'reproduced', 'not reproduced', 'inside the noise', 'reproduced']
    assert verdicts[0].pairs[0].difference.mean == pytest.approx(1, abs=.1)
    assert verdicts[0].pairs[0].difference.number == 4  # a seed counts once, not once for each task


def test_a_claim_without_two_common_seeds_is_untested_unless_another_step_contradicts(claimed):
    done = [result for result in results(claimed) if result.levels['attention'] != 'fair' or result.seed == 0]
    assert [verdict.text for verdict in judge(claimed, done, GRID)] == [
        'too few seeds', 'not reproduced', 'too few seeds', 'too few seeds']
    against = replace(claimed.claims[0], order=('fair', 'poor', 'good'))
    assert judge(replace(claimed, claims=(against,)), done, GRID)[0].text == 'not reproduced'


def test_a_claim_over_two_metrics_is_refused(claimed):
    faulty = replace(claimed, claims=(replace(claimed.claims[0], where={}),))
    with pytest.raises(StudyError, match='acc, epe'):
        judge(faulty, results(claimed), GRID)


def test_levels_are_compared_in_the_tasks_that_all_have_and_there_by_the_seeds_of_all_tasks(claimed):
    without_z = [result for result in results(claimed)
                 if (result.levels['attention'], result.levels['task']) != ('fair', 'z')]
    values = seed_means(claimed, without_z, 'attention')
    assert set(values['fair']) == set(values['good']) == {0, 1, 2, 3}
    assert values['good'][2] == pytest.approx(np.mean([
        signed(claimed, result) for result in without_z
        if (result.levels['attention'], result.seed) == ('good', 2) and result.levels['task'] != 'z']))
    some = [result for result in results(claimed) if (result.levels['attention'], result.seed) != ('fair', 2)
            or result.levels['task'] == 'x']
    values = seed_means(claimed, some, 'attention')
    assert set(values['good']) == {0, 1, 2, 3} and set(values['fair']) == {0, 1, 3}


def report_on(study, found, tmp_path):
    table = Table(type('Folder', (), dict(path=tmp_path)))
    table.rebuild(found)
    table.close()
    return write_report([(study, tmp_path)], tmp_path / 'page.md').read_text()


def test_report_says_what_was_found(claimed, tmp_path):
    report = report_on(claimed, results(claimed), tmp_path)
    pictures = [line.rpartition('(')[2].rstrip(')') for line in report.splitlines() if line.startswith('![')]
    assert len(pictures) == 4 and all((tmp_path / name).stat().st_size > 1000 for name in pictures)
    rows = [[cell.strip() for cell in line.split('|')[1:-1]] for line in report.splitlines() if line.startswith('| ')]
    first = next(row for row in rows if row[0] == 'good')
    assert first[1] == '4' and first[5] == 'the reference'
    assert next(row for row in rows if row[0] == 'poor')[5] == WORSE
    assert next(row[3] for row in rows if row[0] == 'fair > like') == '**inside the noise**'
    assert len((tmp_path / 'page' / f'{claimed.name}.csv').read_text().splitlines()) == 49


def test_a_report_has_the_speed_of_each_level_at_its_own_size(claimed, tmp_path):
    def sizes(result: Result) -> dict:
        return {'16x16': 7.} if result.levels['attention'] == 'fair' else {'9x9': 5.} if result.seed else {'8x8': 1.}

    found = [replace(result, throughput=sizes(result)) for result in results(claimed)]
    lines = report_on(claimed, found, tmp_path).splitlines()
    rows = [[cell.strip() for cell in line.split('|')[1:-1]] for line in lines if line.startswith('| ')]
    place = next(row for row in rows if row[0] == 'attention').index('image')
    assert next(row for row in rows if row[0] == 'fair')[place:place + 2] == ['16x16', '7']
    assert next(row for row in rows if row[0] == 'good')[place:place + 2] == ['8x8', '1']


def test_a_report_has_the_order_of_the_study_whichever_run_ended_first(claimed, tmp_path):
    found = results(claimed)
    pages = [report_on(claimed, order, tmp_path) for order in (found, found[::-1])]
    rows = (tmp_path / 'page' / f'{claimed.name}.csv').read_text().splitlines()[1:]
    assert pages[0] == pages[1] and [row.split(',')[0] for row in rows] == [result.name for result in found]


def test_times_of_different_processors_are_not_compared(claimed, tmp_path):
    def machine(result: Result) -> dict:
        where = 'q' if result.levels['task'] == 'z' or result.levels['attention'] == 'fair' else 'p'
        return {**result.machine, 'processor': where}

    report = report_on(claimed, [replace(result, machine=machine(result)) for result in results(claimed)], tmp_path)
    tables = {part.partition(':')[0]: part for part in report.split('#### ')[1:]}
    assert '(p, 1 thread; q, 1 thread)' in tables['task x'] and 'differ in' not in tables['task z']
    assert 'seconds' not in tables['task x'] and 'images/s' not in tables['task x']
    assert 'seconds' in tables['task z'] and 'images/s' in tables['task z']


@pytest.mark.parametrize('changes, words', [
    (dict(metrics={'epe': 'lower', 'top1': 'higher'}), r'metrics \(epe, top1\).* acc'),
    (dict(factors=dict(attention=dict(good={}, fair={}))), r'factors \(attention\).* task')])
def test_a_study_file_that_does_not_fit_its_runs_is_refused(claimed, study_file, tmp_path, changes, words):
    table = Table(type('Folder', (), dict(path=tmp_path)))
    table.rebuild(results(claimed))
    table.close()
    kept = dict(factors=dict(attention=dict(good={}), task=dict(x={})), metrics=['acc', 'epe'])
    with pytest.raises(StudyError, match=words):
        write_report([(read_study(study_file(**{**kept, **changes})), tmp_path)], tmp_path / 'page.md')
