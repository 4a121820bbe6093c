"""Statistics against examples by hand, claims and reports."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mmflatten_lab.studies.claims import BELOW_BASELINES, added_runs, claim_rows, judge
from mmflatten_lab.studies.comparison_tables import comparison_tables, draw_costs
from mmflatten_lab.studies.folder import RESULT, StudyFolder, write_json
from mmflatten_lab.studies.report import NOTE, write_report
from mmflatten_lab.studies.runs import BASELINE, FINISHED, GRID, expand, make_baseline
from mmflatten_lab.studies.statistics import (
    ALPHA,
    BETTER,
    EQUIVALENT,
    UNDECIDED,
    UNTESTED,
    WORSE,
    Family,
    compare_all,
    compare_pairs,
    detectable,
    equal_variance_p,
    mean_interval,
    pareto,
    seed_means,
)
from mmflatten_lab.studies.study_fields import StudyError
from mmflatten_lab.studies.study_file import read_study


def test_mean_interval_is_student_t():
    # mean 2, standard deviation 1, t(0.975, 2) = 4.302653
    found = mean_interval([1.0, 2.0, 3.0])
    assert (found.mean, found.number) == (2, 3)
    assert (
        found.high - 2
        == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
        == pytest.approx(2 - found.low)
    )
    assert math.isnan(mean_interval([5.0]).low)


def test_two_levels_are_a_paired_t_test():
    values = pd.DataFrame(dict(b=[10.0, 20.0, 30.0, 41.0], a=[11.0, 22.0, 33.0, 42.0]))
    paired = stats.ttest_rel(values.a, values.b)
    for found in (*compare_all(values, 'b'), *compare_pairs(values, [('a', 'b')], Family())):
        low, high = paired.confidence_interval()
        assert (found.first, found.second, found.difference.number) == ('a', 'b', 4)
        assert found.difference.mean == pytest.approx(1.75)
        assert found.difference.low == pytest.approx(low, rel=0.02)
        assert found.difference.high == pytest.approx(high, rel=0.02)
        assert found.p == pytest.approx(paired.pvalue, abs=0.004)


@pytest.mark.parametrize('number, seeds', [(2, 6), (5, 3), (11, 5)])
def test_intervals_hold_for_all_levels_at_once(number, seeds):
    """Dunnett's quantile is that of the multivariate t distribution with correlations of one
    half.
    """
    values = pd.DataFrame(
        np.random.default_rng(0).normal(size=(seeds, number + 1)),
        columns=list('abcdefghijkl'[: number + 1]),
    )
    found = compare_all(values, 'a')
    freedom = number * (seeds - 1)
    residuals = values.sub(values.mean()).sub(
        values.mean(axis=1) - values.to_numpy().mean(), axis=0
    )
    error = math.sqrt((residuals.to_numpy() ** 2).sum() / freedom * 2 / seeds)
    limit = (found[0].difference.high - found[0].difference.mean) / error
    together = stats.multivariate_t(np.zeros(number), (np.eye(number) + 1) / 2, freedom)
    inside = together.cdf(
        np.full(number, limit), lower_limit=np.full(number, -limit), random_state=0
    )
    assert inside == pytest.approx(0.95, abs=0.004)


def test_levels_with_fewer_seeds_are_compared_in_the_same_model():
    values = pd.DataFrame(
        dict(a=[1.0, 2.0, 3.0, 4.0], b=[2.0, 3.2, 4.0, 4.9], c=[5.0, np.nan, np.nan, np.nan])
    )
    whole = {pair.first: pair for pair in compare_all(values, 'a')}
    assert whole['c'].difference.mean == pytest.approx(4, abs=0.05) and whole['c'].verdict == BETTER
    assert whole['c'].difference.number == 1
    (alone,) = compare_all(values[['a', 'c']].dropna(), 'a')
    assert alone.verdict == UNTESTED and math.isnan(alone.p)


def test_equivalence_is_two_one_sided_tests():
    noise = np.random.default_rng(0).normal(0, 0.1, 8)
    values = pd.DataFrame(dict(a=noise, b=noise + np.tile([-0.1, 0.12], 4)))
    (one,) = compare_pairs(values, [('b', 'a')], Family())
    low, high = stats.ttest_rel(values.b, values.a).confidence_interval(0.9)
    edge = max(-low, high)
    assert one.verdict == UNDECIDED
    assert [
        compare_pairs(values, [('b', 'a')], Family(margin))[0].verdict
        for margin in (edge * 0.99, edge * 1.01)
    ] == [UNDECIDED, EQUIVALENT]


def simulated(random, shift=0.0, seeds=8, levels=6):
    values = random.normal(0, 0.3, (seeds, levels)) + random.normal(0, 1, (seeds, 1))
    values[:, 1] += shift
    return pd.DataFrame(values, columns=[f'level {number}' for number in range(levels)])


def test_one_attention_under_several_names_gets_at_most_five_percent_false_verdicts(study_file):
    """500 studies of equal levels, each with a table and with claims that are looked at up to three
    times.
    """
    random, steps = np.random.default_rng(0), (3, 5, 8)
    tables = claims = 0
    for _ in range(500):
        values = simulated(random)
        tables += any(
            pair.verdict in (BETTER, WORSE) for pair in compare_all(values, 'level 0', Family(0.2))
        )
        pairs, family = (
            [('level 1', 'level 0'), ('level 2', 'level 3')],
            Family(0.2, ALPHA / len(steps), 2),
        )
        verdicts = [
            pair.verdict
            for number in steps
            for pair in compare_pairs(values[:number], pairs, family)
        ]
        claims += any(verdict in (BETTER, WORSE) for verdict in verdicts)
    assert tables <= 25 and claims <= 25


def test_the_detectable_difference_is_found_in_eighty_percent():
    random, shift = np.random.default_rng(1), detectable(0.3, seeds=8, tests=5)
    found = [
        compare_all(simulated(random, shift), 'level 0')[0].verdict == BETTER for _ in range(300)
    ]
    assert 0.74 < np.mean(found) < 0.93
    assert detectable(0.3, 1, 5) == math.inf


def test_equal_variance_test_finds_a_level_that_varies_more():
    random = np.random.default_rng(0)
    values = pd.DataFrame(
        {name: random.normal(0, std, 20) for name, std in (('a', 0.1), ('b', 0.1), ('c', 9.0))}
    )
    assert equal_variance_p(values) < 0.05 < equal_variance_p(values[['a', 'b']])


def test_pareto_marks_points_that_no_other_beats():
    assert pareto([1, 2, 3, 2], [10, 20, 15, 20]) == [True, True, False, True]


@pytest.fixture
def claimed(study_file):
    factors = dict(
        attention=dict(good={}, fair={}, poor={}, like={}), task=dict(x={}, y={}, z={}), seed=4
    )
    return read_study(
        study_file(
            factors=factors,
            metrics={'acc': 'higher', 'epe': 'lower'},
            claims=[
                dict(order='good > fair > poor', where=dict(task=['x', 'z'])),
                dict(order='poor > good', where=dict(task='x')),
                dict(order='fair > like', where=dict(task='x')),
                dict(order='good > fair', where=dict(task='y')),
            ],
        )
    )


def results(study, noise=0.3):
    """Accuracy in x and z, an error in y; `like` is `fair` with other noise."""
    draw, level = np.random.default_rng(0), dict(good=3.0, fair=2.0, poor=1.0, like=2.0)
    return [
        replace(
            run,
            state=FINISHED,
            metric='epe' if run.levels['task'] == 'y' else 'acc',
            cpu_seconds=1.0,
            flops=10**6,
            params=10,
            machine=dict(processor='p', gpu='g', torch='t', threads=1),
            value=(-1 if run.levels['task'] == 'y' else 1)
            * (10 * run.seed + level[run.levels['attention']] + draw.normal(0, noise) / 10),
        )
        for run in expand(study)
    ]


def test_judge_corrects_all_pairs_as_one_family(claimed):
    verdicts = judge(claimed, results(claimed))
    assert [verdict for verdict, _ in verdicts] == [
        'reproduced',
        'not reproduced',
        UNDECIDED,
        'reproduced',
    ]
    difference = verdicts[0][1][0].difference
    assert difference.mean == pytest.approx(1, abs=0.1)
    assert difference.number == 4  # a seed counts once, not once for each task


def test_claim_with_a_missing_level_is_untested_unless_another_step_contradicts(claimed):
    done = [result for result in results(claimed) if result.levels['attention'] != 'fair']
    assert [verdict for verdict, _ in judge(claimed, done)] == [
        UNTESTED,
        'not reproduced',
        UNTESTED,
        UNTESTED,
    ]
    against = claimed.claims[0].model_copy(update=dict(order=['poor', 'good', 'fair']))
    assert judge(claimed.model_copy(update=dict(claims=[against])), done)[0][0] == 'not reproduced'


def test_claim_whose_levels_are_all_below_the_baselines_is_not_judged(claimed):
    def verdicts(*values):
        baselines = [
            replace(make_baseline(claimed, 'linear'), state=FINISHED, metric='acc', value=value)
            for value in values
        ]
        return [verdict for verdict, _ in judge(claimed, grid + baselines)]

    grid, claimed = results(claimed), claimed.model_copy(update=dict(baselines=dict(linear={})))
    # All levels except `good` are below the lower baseline.
    assert verdicts(17.5, 40.0) == ['reproduced', 'not reproduced', BELOW_BASELINES, 'reproduced']
    # the last claim has another metric
    assert verdicts(30.0, 40.0) == [*[BELOW_BASELINES] * 3, 'reproduced']
    baseline = replace(make_baseline(claimed, 'linear'), state=FINISHED, metric='acc', value=30.0)
    assert len(claim_rows(claimed, [*grid, baseline])) == 5


def test_judge_refuses_a_claim_over_two_metrics(claimed):
    faulty = claimed.model_copy(
        update=dict(claims=[claimed.claims[0].model_copy(update=dict(where={}))])
    )
    with pytest.raises(StudyError, match='claims.*acc, epe'):
        judge(faulty, results(claimed))


def test_seed_means_use_the_tasks_and_seeds_that_all_levels_have(claimed):
    without_z = [
        result
        for result in results(claimed)
        if (result.levels['attention'], result.levels['task']) != ('fair', 'z')
    ]
    values = seed_means(claimed, without_z, 'attention')
    assert values.loc[2, 'good'] == pytest.approx(
        np.mean(
            [
                claimed.sign(run.metric) * run.value
                for run in without_z
                if (run.levels['attention'], run.seed) == ('good', 2) and run.levels['task'] != 'z'
            ]
        )
    )
    assert (
        list(values['fair'].dropna().index) == list(values['good'].dropna().index) == [0, 1, 2, 3]
    )
    some = [
        run
        for run in results(claimed)
        if (run.levels['attention'], run.seed) != ('fair', 2) or run.levels['task'] == 'x'
    ]
    values = seed_means(claimed, some, 'attention')
    assert list(values['good'].dropna().index) == [0, 1, 2, 3] and list(
        values['fair'].dropna().index
    ) == [0, 1, 3]
    assert seed_means(claimed, [], 'attention').dropna().empty


def rows_of(table: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.split('|')[1:-1]]
        for line in table.splitlines()
        if line.startswith('| ')
    ]


@pytest.fixture
def finished(claimed, tmp_path) -> StudyFolder:
    """Folder with the results of the study."""
    folder = StudyFolder(tmp_path)
    for run in results(claimed)[::-1]:
        folder.run(run.name).mkdir(parents=True)
        write_json(folder.run(run.name) / RESULT, run.result())
    return folder


def test_report_shows_results_in_the_order_of_the_file_and_replaces_itself_only(
    claimed, finished, tmp_path
):
    page = tmp_path / 'page.md'
    page.write_text(f'# Results of an earlier report\n\n{NOTE}\n')
    report = write_report([(claimed, finished)], page).read_text()
    pictures = [
        line.rpartition('(')[2].rstrip(')') for line in report.splitlines() if line.startswith('![')
    ]
    assert len(pictures) == 3 and all((tmp_path / name).stat().st_size > 1000 for name in pictures)
    rows = rows_of(report)
    first = next(row for row in rows if row[0] == 'good')
    assert first[1] == '4' and first[5] == 'the reference'
    assert next(row for row in rows if row[0] == 'poor')[5] == WORSE
    assert next(row[3] for row in rows if row[0] == 'fair > like') == f'**{UNDECIDED}**'
    lines = (tmp_path / 'page' / f'{claimed.name}.csv').read_text().splitlines()[1:]
    assert [line.split(',')[0] for line in lines] == [run.name for run in expand(claimed)]

    edited = report.replace('\n\n', '\n\nAn erratum.\n\n', 1)
    page.write_text(edited)
    with pytest.raises(StudyError, match='--report.*page.md'):
        write_report([(claimed, finished)], page)
    assert page.read_text() == edited


@pytest.mark.parametrize(
    'changes, words',
    [
        (dict(metrics={'epe': 'lower', 'top1': 'higher'}), 'metrics: .*acc.* epe, top1'),
        (
            dict(factors=dict(attention=dict(good={}, fair={}))),
            r'finished runs.*factors: attention\)',
        ),
    ],
)
def test_report_refuses_a_study_file_of_other_runs(study_file, finished, tmp_path, changes, words):
    factors = dict(attention=dict(good={}), task=dict(x={}))
    study = read_study(study_file(**{'factors': factors, 'metrics': ['acc', 'epe'], **changes}))
    with pytest.raises(StudyError, match=words):
        write_report([(study, finished)], tmp_path / 'page.md')


def test_baselines_have_the_data_of_the_grid(claimed):
    options = {'train_dataloader.dataset.indices': 4, 'test_evaluator.topk': 1, 'model.depth': 2}
    baselines = dict(linear={'train_dataloader.dataset.indices': 8}, cnn={})
    study = claimed.model_copy(update=dict(options=options, baselines=baselines))
    assert make_baseline(study, 'linear').options == {
        'train_dataloader.dataset.indices': 8,
        'test_evaluator.topk': 1,
    }
    assert make_baseline(study, 'cnn').options == {
        'train_dataloader.dataset.indices': 4,
        'test_evaluator.topk': 1,
    }


def test_nothing_is_judged_below_all_baselines(study_file, tmp_path):
    study = read_study(
        study_file(
            factors=dict(attention=dict(good={}, fair={}), seed=3),
            metrics=['acc'],
            baselines=dict(linear={}, chance={}),
            margin=dict(acc=0.1),
        )
    )
    runs = expand(study)
    assert [run.mode for run in runs][:3] == [BASELINE, BASELINE, GRID] and runs[0].levels == dict(
        attention='linear'
    )

    def table(linear, chance=10.0):
        values = dict(linear=linear, chance=chance, good=50.0, fair=40.0)
        done = [
            replace(
                run,
                state=FINISHED,
                metric='acc',
                value=values[run.levels['attention']] + 0.1 * run.seed,
            )
            for run in runs
        ]
        (block,) = comparison_tables(
            study, *([run for run in done if run.mode == mode] for mode in (GRID, BASELINE))
        )
        draw_costs(block, tmp_path / 'costs.png')
        return block.text(), ' '.join(block.notes())

    below_none, below_one, below_all = table(30.0), table(60.0), table(60.0, 55.0)
    assert WORSE in below_none[0] and WORSE in below_one[0] and WORSE not in below_all[0]
    assert 'linear 60' in below_one[1] and 'below' not in below_none[1]
    assert 'below linear.' in below_one[1] and 'below linear and chance' in below_all[1]


def test_seeds_are_added_until_claims_are_settled(study_file):
    study = read_study(
        study_file(
            factors=dict(attention=dict(good={}, fair={}, like={}), seed=8),
            metrics=['acc'],
            interim=[3, 5, 8],
            margin=dict(acc=0.05),
            claims=[dict(order='good > fair'), dict(order='fair > like')],
        )
    )
    random = np.random.default_rng(0)

    def done(run):
        value = dict(good=3.0, fair=1.0, like=1.0)[run.levels['attention']] + random.normal(0, 0.2)
        return replace(run, state=FINISHED, metric='acc', value=value)

    known = {run.name: done(run) for run in expand(study)}
    assert len(known) == 9 and added_runs(study, {}) == []
    first = added_runs(study, known)
    assert {(run.levels['attention'], run.seed) for run in first} == {
        (name, seed) for name in ('fair', 'like') for seed in (3, 4)
    }
    known.update({run.name: done(run) for run in first})
    assert len(added_runs(study, known)) == 10  # up to all eight seeds
    assert [verdict for verdict, _ in judge(study, list(known.values()))][0] == 'reproduced'


def test_report_is_made_again_from_the_published_files_alone(claimed, finished, tmp_path):
    first = write_report([(claimed, finished)], tmp_path / 'first.md').read_text()
    again = write_report(
        [(claimed, StudyFolder(tmp_path / 'nothing'))], tmp_path / 'again.md', tmp_path / 'first'
    )
    assert again.read_text() == first.replace('first/', 'again/')
    assert (tmp_path / 'first' / f'{claimed.name}.csv').read_text() == (
        tmp_path / 'again' / f'{claimed.name}.csv'
    ).read_text()
    for text in ('name,value\na,one\n', 'value\n1\n', None):
        path = tmp_path / 'bad' / f'{claimed.name}.csv'
        path.parent.mkdir(exist_ok=True)
        path.write_text(text) if text else path.unlink()
        with pytest.raises(StudyError, match=f'{claimed.name}.csv'):
            write_report(
                [(claimed, StudyFolder(tmp_path / 'nothing'))],
                tmp_path / 'bad.md',
                tmp_path / 'bad',
            )
