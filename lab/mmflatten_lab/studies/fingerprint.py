"""Accuracy of one attention in the synthetic tasks, compared with the stored results of all
others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from mmflatten.measure.speed.machine import available_cpus
from mmflatten.measure.speed.operators import SOFTMAX, mixer_config
from mmflatten.models.attention import LocalTerm, build_mixer
from mmflatten.text import align
from mmflatten_lab.datasets.synthetic_tasks import SyntheticTasks
from mmflatten_lab.models.factors import gates_of
from mmflatten_lab.studies.comparisons import ALPHA, Interval
from mmflatten_lab.studies.configs import config_of
from mmflatten_lab.studies.controls import CONTROLS, NONE
from mmflatten_lab.studies.driver import Driver
from mmflatten_lab.studies.executors import LocalExecutor
from mmflatten_lab.studies.folder import StudyFolder
from mmflatten_lab.studies.runs import FINISHED, StudyRun, expand, finished_runs
from mmflatten_lab.studies.study import Study
from mmflatten_lab.studies.study_fields import StudyError
from mmflatten_lab.studies.study_file import read_study

FOLDER = Path(__file__).parents[1] / 'synthetic_tasks'
SUITE = FOLDER / 'suite.yaml'
REFERENCES = FOLDER / 'references.csv'
FIELD = 'model.backbone.linear_attention'
WIDTH, HEADS = 64, 2  # of the models
LINEAR = 'linear'
# Part of the way from chance to softmax. A task in which the control without attention gets so far
# does not measure what an attention can do.
ENOUGH = 0.5
RECALL = {8: 'recall-8', 16: 'recall-16', 32: 'recall-32'}  # number of pairs -> task
PAGE = """# Fingerprint of {name}

`{mixer}`: accuracy in % with a 95 % interval. *{reference}* is softmax with the same local term \
and gate; the rank is
among the stored attentions, with *none* and *mean*. *none* lets no token read another one, *mean* \
gives every token the mean of all.
lab/docs/fingerprint.md describes the tasks; `mmflatten benchmark --operators` measures time and \
memory.

![accuracy in the tasks]({picture})

{table}
{remark}"""


def task_suite(mixer: str, name: str, seeds: int) -> Study:
    """Make the study of all tasks for one attention.

    Args:
        mixer: name or class with arguments, as in `mmflatten benchmark --operators`, or the path by
            which Python imports a class: `my_attention.MyAttention:power=2`.
        name: name of the level.
        seeds: number of seeds for each task.

    Raises:
        ValueError: the attention is unknown or cannot be built.
    """
    cfg = mixer_config(mixer)
    try:
        build_mixer(cfg, embed_dims=WIDTH, num_heads=HEADS, grid_size=(4, 4))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f'MIXER: {mixer} cannot be built for 16 tokens of width {WIDTH}: {error}'
        ) from error
    study = read_study(SUITE)
    factors = dict(study.factors)
    attention = next(iter(factors))
    factors[attention] = {name: {FIELD: {'_delete_': True, **cfg}}}
    return study.model_copy(update=dict(factors=factors, seeds=list(range(seeds))))


def run_tasks(
    study: Study, folder: Path, workers: int | None, log: Callable[[str], None]
) -> list[StudyRun]:
    """Run or resume the study.

    Args:
        workers: number of simultaneous trainings; None for one on each core. Models of this size
            share a GPU.

    Raises:
        StudyError: a run failed.
    """
    place = StudyFolder(folder)
    with place.locked():
        runs = Driver(study, place, LocalExecutor(workers or available_cpus()), log).run()
    failed = [run for run in runs if run.state != FINISHED]
    if failed:
        raise StudyError(
            f'{len(failed)} of {len(runs)} runs failed ({failed[0].name}: {failed[0].error}).'
            f' Correct the attention, and remove {folder} to start again.'
        )
    return runs


def accuracies(runs: Sequence[StudyRun]) -> pd.DataFrame:
    """Columns `attention`, `task`, `seed`, `accuracy`."""
    rows = [(*run.levels.values(), run.seed, run.value) for run in finished_runs(runs)]
    return pd.DataFrame(rows, columns=['attention', 'task', 'seed', 'accuracy'])


def chance_levels(study: Study) -> dict[str, float]:
    """Accuracy of the most frequent answer, for each task."""
    found = {}
    for run in expand(study):
        task = list(run.levels.values())[1]
        if task not in found:
            dataset = dict(config_of(run, study.budget).test_dataloader.dataset)
            del dataset['type']
            found[task] = SyntheticTasks(**dataset).chance()
    return found


def softmax_counterpart(mixer: str) -> str:
    """Name of the softmax attention that has a local term and a gate if the attention has them."""
    module = build_mixer(mixer_config(mixer), embed_dims=WIDTH, num_heads=HEADS, grid_size=(8, 8))
    name = SOFTMAX
    if any(isinstance(part, LocalTerm) for part in module.modules()):
        name += '-local'
    if gates_of(module):
        name += '-gate'
    return name


def intervals(values: pd.DataFrame) -> dict[tuple[str, str], Interval]:
    """Mean of each attention and task with its 95 % interval. The variance over seeds is pooled for
    each task.
    """
    found = {}
    for task, rows in values.groupby('task'):
        groups = rows.groupby('attention').accuracy
        freedom = len(rows) - groups.ngroups
        squares = ((rows.accuracy - groups.transform('mean')) ** 2).sum()
        half = math.nan
        if freedom:
            half = (squares / freedom) ** 0.5 * stats.t.ppf(1 - ALPHA / 2, freedom)
        for attention, group in groups:
            mean = group.mean()
            error = half / len(group) ** 0.5
            low, high = np.clip([mean - error, mean + error], 0, 100)  # keeps NaN
            found[attention, task] = Interval(mean, low, high, len(group))
    return found


def write_page(
    name: str, mixer: str, measured: pd.DataFrame, chance: Mapping[str, float], page: Path
) -> None:
    """Write `page`, a Markdown file, and a figure beside it."""
    stored = pd.read_csv(REFERENCES)
    others = stored[stored.attention != name]
    found = intervals(pd.concat([others, measured]))
    reference = softmax_counterpart(mixer)
    columns = [*CONTROLS, name, reference]
    rows = []
    for task, percent in chance.items():
        cells = [_cell(found, level, task) for level in columns]
        rows.append([task, f'{percent:.1f}', *cells, _rank(name, task, found)])
    picture = page.with_suffix('.png')
    draw(name, reference, found, chance).savefig(picture, dpi=100)
    text = PAGE.format(
        name=name,
        mixer=mixer,
        reference=reference,
        picture=picture.name,
        table=align(rows, ['task', 'chance', *columns, 'rank'], {0}, markdown=True),
        remark=unmeasured(found, chance),
    )
    page.write_text(text, encoding='utf-8')


def _cell(found: Mapping[tuple[str, str], Interval], attention: str, task: str) -> str:
    if (attention, task) not in found:
        return 'not stored'
    return found[attention, task].text()


def _rank(name: str, task: str, found: Mapping[tuple[str, str], Interval]) -> str:
    """Rank of an attention in a task among all attentions: `2 of 9`."""
    attentions = [attention for attention, other in found if other == task]
    mean = found[name, task].mean
    better = [other for other in attentions if found[other, task].mean > mean]
    return f'{1 + len(better)} of {len(attentions)}'


def unmeasured(found: Mapping[tuple[str, str], Interval], chance: Mapping[str, float]) -> str:
    """Name the tasks that a model without attention learns at least half as well as softmax."""
    tasks = []
    for task, percent in chance.items():
        if not {(NONE, task), (SOFTMAX, task)} <= found.keys():
            continue
        gain = found[NONE, task].mean - percent
        if gain >= ENOUGH * (found[SOFTMAX, task].mean - percent):
            tasks.append(task)
    if not tasks:
        return ''
    return f'\nNo measure of an ability, because *none* does well: {", ".join(tasks)}.\n'


def draw(
    name: str,
    reference: str,
    found: Mapping[tuple[str, str], Interval],
    chance: Mapping[str, float],
) -> Figure:
    """Draw all tasks with the stored attentions in grey, and recall over the number of pairs."""
    figure = Figure(figsize=(10, 4.5), layout='constrained')
    tasks, recall = figure.subplots(1, 2, width_ratios=(2, 1))
    styles = {
        reference: dict(label=reference, fmt='D', color='C1', capsize=3),
        name: dict(label=name, fmt='o', color='C0', capsize=3),
    }
    _draw_tasks(tasks, styles, found, chance)
    _draw_recall(recall, styles, found)
    for axes in (tasks, recall):
        axes.legend(fontsize=8)
    return figure


def _draw_tasks(
    axes: Axes,
    styles: Mapping[str, dict[str, Any]],
    found: Mapping[tuple[str, str], Interval],
    chance: Mapping[str, float],
) -> None:
    """Draw a row for each task, the first on top."""
    rows = {task: row for row, task in enumerate(reversed(chance))}
    drawn = [key for key in found if key[1] in rows]
    axes.scatter(
        [found[key].mean for key in drawn],
        [rows[task] for _, task in drawn],
        color='0.8',
        s=14,
        label='stored attentions',
    )
    axes.scatter(
        list(chance.values()),
        [rows[task] for task in chance],
        marker='|',
        color='k',
        s=120,
        label='chance',
    )
    for control, line in zip(CONTROLS, ('-', ':')):
        known = [task for task in rows if (control, task) in found]
        axes.plot(
            [found[control, task].mean for task in known],
            [rows[task] for task in known],
            line,
            color='0.4',
            label=control,
        )
    for attention, style in styles.items():
        points = [found[attention, task] for task in rows]
        axes.errorbar(_means(points), list(rows.values()), xerr=_lengths(points), **style)
    axes.set_yticks(range(len(rows)), rows)
    axes.set(xlabel='accuracy (%)', xlim=(0, 102))


def _draw_recall(
    axes: Axes,
    styles: Mapping[str, dict[str, Any]],
    found: Mapping[tuple[str, str], Interval],
) -> None:
    """Draw the accuracy of recall over the number of pairs, also of linear attention."""
    linear = dict(label=LINEAR, fmt='s', color='C7', capsize=3)
    for attention, style in {LINEAR: linear, **styles}.items():
        points = [found[attention, task] for task in RECALL.values()]
        axes.errorbar(list(RECALL), _means(points), yerr=_lengths(points), linestyle='-', **style)
    rank = WIDTH // HEADS
    axes.axvline(rank, color='0.6', linestyle=':')
    axes.annotate(
        'rank of the state of a head',
        (rank, 0.02),
        xycoords=('data', 'axes fraction'),
        rotation=90,
        ha='right',
        size=8,
        color='0.4',
    )
    axes.set(xlabel='pairs among 64 tokens', ylabel='recall (%)', ylim=(0, 102))


def _means(points: Sequence[Interval]) -> list[float]:
    return [point.mean for point in points]


def _lengths(points: Sequence[Interval]) -> list[list[float]]:
    """Lengths of error bars on both sides, 0 if unknown."""
    below = [point.mean - point.low for point in points]
    above = [point.high - point.mean for point in points]
    return np.nan_to_num([below, above]).tolist()
