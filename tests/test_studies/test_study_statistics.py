"""Statistics against examples by hand, claims and reports."""
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from mmflatten.studies.blocks import blocks_of
from mmflatten.studies.folder import RESULT, StudyFolder, write_json
from mmflatten.studies.report import NOTE, write_report
from mmflatten.studies.runs import FINISHED, StudyRun, expand
from mmflatten.studies.statistics import (
    BETTER,
    NOISE,
    UNTESTED,
    WORSE,
    compare,
    holm,
    interval,
    judge,
    pareto,
    seed_means,
)
from mmflatten.studies.study import StudyError
from mmflatten.studies.study_file import read_study


def test_interval_is_student_t():
    # mean 2, standard deviation 1, t(0.975, 2) = 4.302653
    found = interval([1., 2., 3.])
    assert (found.mean, found.number) == (2, 3)
    assert found.high - 2 == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6) == pytest.approx(2 - found.low)
    assert math.isnan(interval([5.]).low)


def test_compare_pairs_by_seed():
    # differences 1, 2, 3: t = 2 sqrt(3) = 3.4641, p = 0.0742 for 2 degrees of freedom
    found = compare('a', 'b', pd.DataFrame(dict(a={0: 11., 1: 22., 2: 33., 7: 0.}, b={0: 10., 1: 20., 2: 30., 8: 99.})))
    assert (found.difference.mean, found.difference.number) == (2, 3)
    assert found.p == pytest.approx(0.07418, abs=1e-5)
    assert found.verdict == NOISE  # without a correction nothing is called better


def test_compare_does_not_test_differences_without_variance():
    equal, single, alike = holm([compare('a', 'b', pd.DataFrame(values)) for values in (
        dict(a=[1., 2.], b=[1., 2.]), dict(a=[1.], b=[5.]), dict(a=[60.2, 60.6], b=[60.0, 60.4]))])
    assert (equal.verdict, single.verdict, alike.verdict) == (NOISE, UNTESTED, UNTESTED)
    assert equal.p == 1 and math.isnan(single.p_holm) and alike.difference.mean == pytest.approx(.2)


def test_holm_corrects_the_family():
    values = pd.DataFrame({name: shift + np.array([0., .1, .2, .1]) * slope for name, shift, slope in
                           [('a', 0, 1), ('b', 5, 2), ('c', .02, 3)]})
    family = holm([compare('b', 'a', values), compare('a', 'b', values), compare('c', 'a', values)])
    assert [item.verdict for item in family] == [BETTER, WORSE, NOISE]
    assert family[0].p_holm == pytest.approx(3 * family[0].p) and family[2].p_holm == family[2].p


def test_pareto_marks_points_that_no_other_beats():
    assert pareto([1, 2, 3, 2], [10, 20, 15, 20]) == [True, True, False, True]


@pytest.fixture
def claimed(study_file):
    factors = dict(attention=dict(good={}, fair={}, poor={}, like={}), task=dict(x={}, y={}, z={}), seed=4)
    return read_study(study_file(factors=factors, metrics={'acc': 'higher', 'epe': 'lower'}, claims=[
        dict(order='good > fair > poor', where=dict(task=['x', 'z'])), dict(order='poor > good', where=dict(task='x')),
        dict(order='fair > like', where=dict(task='x')), dict(order='good > fair', where=dict(task='y'))]))


def results(study, noise=.3):
    """Accuracy in x and z, an error in y; `like` is `fair` with other noise."""
    draw, level = np.random.default_rng(0), dict(good=3., fair=2., poor=1., like=2.)
    return [replace(run, state=FINISHED,
                    metric='epe' if run.levels['task'] == 'y' else 'acc', cpu_seconds=1., flops=10**6, params=10,
                    machine=dict(processor='p', gpu='g', torch='t', threads=1),
                    value=(-1 if run.levels['task'] == 'y' else 1) * (
                        10 * run.seed + level[run.levels['attention']] + draw.normal(0, noise) / 10))
            for run in expand(study)]


def test_judge_corrects_all_pairs_as_one_family(claimed):
    verdicts = judge(claimed, results(claimed))
    assert [verdict for verdict, _ in verdicts] == [
        'reproduced', 'not reproduced', 'inside the noise', 'reproduced']
    difference = verdicts[0][1][0].difference
    assert difference.mean == pytest.approx(1, abs=.1)
    assert difference.number == 4  # a seed counts once, not once for each task


def test_claim_without_two_common_seeds_is_untested_unless_another_step_contradicts(claimed):
    done = [result for result in results(claimed) if result.levels['attention'] != 'fair' or result.seed == 0]
    assert [verdict for verdict, _ in judge(claimed, done)] == [
        'too few seeds', 'not reproduced', 'too few seeds', 'too few seeds']
    against = claimed.claims[0].model_copy(update=dict(order=['fair', 'poor', 'good']))
    assert judge(claimed.model_copy(update=dict(claims=[against])), done)[0][0] == 'not reproduced'


def test_judge_refuses_a_claim_over_two_metrics(claimed):
    faulty = claimed.model_copy(update=dict(claims=[claimed.claims[0].model_copy(update=dict(where={}))]))
    with pytest.raises(StudyError, match='claims.*acc, epe'):
        judge(faulty, results(claimed))


def test_seed_means_use_the_tasks_and_seeds_that_all_levels_have(claimed):
    without_z = [result for result in results(claimed)
                 if (result.levels['attention'], result.levels['task']) != ('fair', 'z')]
    values = seed_means(claimed, without_z, 'attention')
    assert values.loc[2, 'good'] == pytest.approx(np.mean([
        claimed.sign(run.metric) * run.value for run in without_z
        if (run.levels['attention'], run.seed) == ('good', 2) and run.levels['task'] != 'z']))
    assert list(values['fair'].dropna().index) == list(values['good'].dropna().index) == [0, 1, 2, 3]
    some = [run for run in results(claimed) if (run.levels['attention'], run.seed) != ('fair', 2)
            or run.levels['task'] == 'x']
    values = seed_means(claimed, some, 'attention')
    assert list(values['good'].dropna().index) == [0, 1, 2, 3] and list(values['fair'].dropna().index) == [0, 1, 3]
    assert seed_means(claimed, [], 'attention').dropna().empty


def rows_of(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split('|')[1:-1]] for line in table.splitlines() if line.startswith('| ')]


@pytest.fixture
def finished(claimed, tmp_path) -> StudyFolder:
    """Folder with the results of the study."""
    folder = StudyFolder(tmp_path)
    for run in results(claimed)[::-1]:
        folder.run(run.name).mkdir(parents=True)
        write_json(folder.run(run.name) / RESULT, run.result())
    return folder


def test_report_shows_results_in_the_order_of_the_file_and_replaces_itself_only(claimed, finished, tmp_path):
    page = tmp_path / 'page.md'
    page.write_text(f'# Results of an earlier report\n\n{NOTE}\n')
    report = write_report([(claimed, finished)], page).read_text()
    pictures = [line.rpartition('(')[2].rstrip(')') for line in report.splitlines() if line.startswith('![')]
    assert len(pictures) == 3 and all((tmp_path / name).stat().st_size > 1000 for name in pictures)
    rows = rows_of(report)
    first = next(row for row in rows if row[0] == 'good')
    assert first[1] == '4' and first[5] == 'the reference'
    assert next(row for row in rows if row[0] == 'poor')[5] == WORSE
    assert next(row[3] for row in rows if row[0] == 'fair > like') == '**inside the noise**'
    lines = (tmp_path / 'page' / f'{claimed.name}.csv').read_text().splitlines()[1:]
    assert [line.split(',')[0] for line in lines] == [run.name for run in expand(claimed)]

    edited = report.replace('\n\n', '\n\nAn erratum.\n\n', 1)
    page.write_text(edited)
    with pytest.raises(StudyError, match='--report.*page.md'):
        write_report([(claimed, finished)], page)
    assert page.read_text() == edited


@pytest.mark.parametrize('changes, words', [
    (dict(metrics={'epe': 'lower', 'top1': 'higher'}), 'metrics: .*acc.* epe, top1'),
    (dict(factors=dict(attention=dict(good={}, fair={}))), r'finished runs.*factors: attention\)')])
def test_report_refuses_a_study_file_of_other_runs(study_file, finished, tmp_path, changes, words):
    factors = dict(attention=dict(good={}), task=dict(x={}))
    study = read_study(study_file(**{'factors': factors, 'metrics': ['acc', 'epe'], **changes}))
    with pytest.raises(StudyError, match=words):
        write_report([(study, finished)], tmp_path / 'page.md')


def test_block_omits_times_of_different_processors(claimed):
    def machine(result: StudyRun) -> dict:
        other = result.levels['task'] == 'z' or result.levels['attention'] == 'fair'
        return {**result.machine, 'processor': 'q' if other else 'p'}

    done = [replace(result, machine=machine(result)) for result in results(claimed)]
    blocks = {block.name: block for block in blocks_of(claimed, done)}
    assert blocks['task x'].devices == ['p, 1 thread', 'q, 1 thread'] and blocks['task z'].devices == ['q, 1 thread']
    header_x, header_z = (rows_of(blocks[f'task {name}'].table())[0] for name in 'xz')
    assert 'seconds' not in header_x and 'seconds' in header_z
    assert len(blocks['task x'].costs) == 1 and len(blocks['task z'].costs) == 2
