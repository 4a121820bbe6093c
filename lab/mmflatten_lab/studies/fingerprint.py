"""Abilities and costs of one attention, beside those of all others."""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from mmflatten.measure.speed.machine import available_cpus
from mmflatten.measure.speed.memory import peak_memory
from mmflatten.measure.speed.models import RunSettings
from mmflatten.measure.speed.operators import SOFTMAX, mixer_config, operator_subject
from mmflatten.measure.speed.timing import measure
from mmflatten.models.attention import LocalTerm, build_mixer
from mmflatten.text import align
from mmflatten_lab.datasets.synthetic_tasks import AbilityGrids
from mmflatten_lab.models.factors import gates_of
from mmflatten_lab.studies.configs import config_of
from mmflatten_lab.studies.driver import Driver
from mmflatten_lab.studies.executors import LocalExecutor
from mmflatten_lab.studies.folder import StudyFolder
from mmflatten_lab.studies.runs import FINISHED, StudyRun, expand
from mmflatten_lab.studies.statistics import ALPHA, Interval
from mmflatten_lab.studies.study import Study, StudyError
from mmflatten_lab.studies.study_file import read_study

FOLDER = Path(__file__).parents[1] / 'synthetic_tasks'
BATTERY, REFERENCES = FOLDER / 'battery.yaml', FOLDER / 'references.csv'
FIELD = 'model.backbone.linear_attention'
TOKENS = (64, 196, 784, 3136)
WIDTH, HEADS = 64, 2  # of the models that learn
SECONDS = 2.  # of timing for each attention and number of tokens
LINEAR = 'linear'
RECALL = {8: 'recall-8', 16: 'recall-16', 32: 'recall-32'}  # by the number of pairs


class Cost(NamedTuple):
    """Time and memory of one forward pass of an attention with its projections, and those of softmax."""

    tokens: int
    milliseconds: float
    softmax_milliseconds: float
    mebibytes: float
    softmax_mebibytes: float


def battery(mixer: str, name: str, seeds: int) -> Study:
    """The study of all abilities for one attention.

    Args:
        mixer: name or class with arguments, as in `mmflatten benchmark --operators`, or the path by which Python
            imports a class: `my_attention.MyAttention:power=2`.
        name: of the level.
        seeds: of each ability.

    Raises:
        ValueError: the attention is unknown or cannot be built.
    """
    cfg = mixer_config(mixer)
    try:
        build_mixer(cfg, embed_dims=WIDTH, num_heads=HEADS, grid_size=(4, 4))
    except (TypeError, ValueError) as error:
        raise ValueError(f'MIXER: {mixer} cannot be built for 16 tokens of width {WIDTH}: {error}') from error
    study = read_study(BATTERY)
    attention, *others = study.factors
    factors = {attention: {name: {FIELD: {'_delete_': True, **cfg}}}}
    factors.update((other, study.factors[other]) for other in others)
    return study.model_copy(update=dict(factors=factors, seeds=list(range(seeds))))


def take(study: Study, folder: Path, workers: int | None, say: Callable[[str], None]) -> list[StudyRun]:
    """Run the study, or what is left of it.

    Args:
        workers: trainings at once; None for one on each core, also with a GPU, which models of this size share.

    Raises:
        StudyError: a run failed.
    """
    place = StudyFolder(folder)
    with place.locked():
        runs = Driver(study, place, LocalExecutor(workers or available_cpus()), say).go()
    failed = [run for run in runs if run.state != FINISHED]
    if failed:
        raise StudyError(f'{len(failed)} of {len(runs)} runs failed ({failed[0].name}: {failed[0].error}). Correct the '
                         f'attention, and remove {folder} to begin anew.')
    return runs


def costs(mixer: str, say: Callable[[str], None]) -> list[Cost]:
    """Measure an attention and softmax side by side, in inference on one map with the threads that PyTorch has."""
    rows, settings = [], RunSettings(batch=1)
    for tokens in TOKENS:
        say(f'timing {tokens} tokens')
        subjects = [operator_subject(name, tokens, WIDTH, HEADS, settings) for name in (mixer, SOFTMAX)]
        times = [1000 * min(seconds) for seconds in measure(subjects, seconds=SECONDS)]
        rows.append(Cost(tokens, *times, *(peak_memory(subject.call) / 2**20 for subject in subjects)))
    return rows


def accuracies(runs: Sequence[StudyRun]) -> pd.DataFrame:
    """Columns `attention`, `task`, `seed`, `accuracy`."""
    return pd.DataFrame([(*run.levels.values(), run.seed, run.value) for run in runs if run.state == FINISHED],
                        columns=['attention', 'task', 'seed', 'accuracy'])


def chances(study: Study) -> dict[str, float]:
    """Accuracy of the most frequent answer, for each ability."""
    found = {}
    for run in expand(study):
        task = list(run.levels.values())[1]
        if task not in found:
            dataset = dict(config_of(run, study.budget).test_dataloader.dataset)
            del dataset['type']
            found[task] = AbilityGrids(**dataset).chance()
    return found


def upper_line(mixer: str) -> str:
    """The level of softmax with a local term and a gate where the attention has them."""
    module = build_mixer(mixer_config(mixer), embed_dims=WIDTH, num_heads=HEADS, grid_size=(8, 8))
    local = any(isinstance(part, LocalTerm) for part in module.modules())
    return SOFTMAX + '-local' * local + '-gate' * bool(gates_of(module))


def intervals(values: pd.DataFrame) -> dict[tuple[str, str], Interval]:
    """Mean of each attention and task with its 95 % interval, from one spread over seeds for each task."""
    found = {}
    for task, rows in values.groupby('task'):
        groups = rows.groupby('attention').accuracy
        freedom = len(rows) - groups.ngroups
        spread = ((rows.accuracy - groups.transform('mean')) ** 2).sum()
        half = (spread / freedom) ** .5 * stats.t.ppf(1 - ALPHA / 2, freedom) if freedom else math.nan
        for attention, group in groups:
            mean, error = group.mean(), half / len(group) ** .5
            low, high = np.clip([mean - error, mean + error], 0, 100)  # which keeps NaN
            found[attention, task] = Interval(mean, low, high, len(group))
    return found


def write_page(name: str, mixer: str, own: pd.DataFrame, chance: Mapping[str, float], spent: Sequence[Cost],
               page: Path) -> None:
    """Write `page`, a Markdown file, and a picture beside it."""
    stored = pd.read_csv(REFERENCES)
    found, line = intervals(pd.concat([stored[stored.attention != name], own])), upper_line(mixer)
    rows = []
    for task, share in chance.items():
        others = [item.mean for (who, what), item in found.items() if what == task and who != name]
        place = 1 + sum(mean > found[name, task].mean for mean in others)
        rows.append([task, f'{share:.1f}', found[name, task].text(), found[line, task].text(),
                     f'{place} of {1 + len(others)}'])
    picture = page.with_suffix('.png')
    draw(name, line, found, chance, spent).savefig(picture, dpi=100)
    prices = [[str(cost.tokens), f'{cost.milliseconds:.3g}', f'{cost.milliseconds / cost.softmax_milliseconds:.2f}',
               f'{cost.mebibytes:.3g}', f'{cost.mebibytes / cost.softmax_mebibytes:.2f}'] for cost in spent]
    header = ['tokens', 'ms', 'ms / softmax', 'MiB', 'MiB / softmax']
    page.write_text(f"""# Fingerprint of {name}

`{mixer}`: accuracy in % with a 95 % interval. *{line}* is softmax with the same helpers, place the rank among the
stored attentions. lab/docs/fingerprint.md describes the abilities.

![abilities and costs]({picture.name})

{align(rows, ['ability', 'chance', name, line, 'place'], {0}, markdown=True)}

One forward pass with projections on one map, {WIDTH} channels and {HEADS} heads, beside softmax, on this machine.

{align(prices, header, set(), markdown=True)}
""", encoding='utf-8')


def draw(name: str, line: str, found: Mapping[tuple[str, str], Interval], chance: Mapping[str, float],
         spent: Sequence[Cost]) -> Figure:
    """Draw all abilities with the stored attentions in grey, recall over the number of pairs, and the costs."""
    figure = Figure(figsize=(13, 4.5), layout='constrained')
    abilities, recall, price = figure.subplots(1, 3, width_ratios=(2, 1, 1))
    own, upper = dict(label=name, fmt='o', color='C0', capsize=3), dict(label=line, fmt='D', color='C1', capsize=3)
    rows = {task: row for row, task in enumerate(reversed(chance))}
    abilities.scatter([item.mean for (_, task), item in found.items() if task in rows],
                      [rows[task] for _, task in found if task in rows], color='0.8', s=14, label='stored attentions')
    abilities.scatter(list(chance.values()), list(rows.values())[::-1], marker='|', color='k', s=120, label='chance')
    for who, style in ((line, upper), (name, own)):
        items = [found[who, task] for task in rows]
        abilities.errorbar([item.mean for item in items], list(rows.values()), xerr=_lengths(items), **style)
    abilities.set_yticks(range(len(rows)), rows)
    abilities.set(xlabel='accuracy (%)', xlim=(0, 102))
    for who, style in ((LINEAR, dict(label=LINEAR, fmt='s', color='C7', capsize=3)), (line, upper), (name, own)):
        items = [found[who, task] for task in RECALL.values()]
        recall.errorbar(list(RECALL), [item.mean for item in items], yerr=_lengths(items), linestyle='-', **style)
    recall.axvline(WIDTH // HEADS, color='0.6', linestyle=':')
    recall.annotate('rank of the state of a head', (WIDTH // HEADS, .02), xycoords=('data', 'axes fraction'),
                    rotation=90, ha='right', size=8, color='0.4')
    recall.set(xlabel='pairs among 64 tokens', ylabel='recall (%)', ylim=(0, 102))
    tokens = [cost.tokens for cost in spent]
    price.loglog(tokens, [cost.milliseconds for cost in spent], 'o-C0', label=name)
    price.loglog(tokens, [cost.softmax_milliseconds for cost in spent], 'D-C1', label=SOFTMAX)
    price.set(xlabel='tokens', ylabel='ms of a forward pass')
    for axes in (abilities, recall, price):
        axes.legend(fontsize=8)
    return figure


def _lengths(items: Sequence[Interval]) -> list[list[float]]:
    """Lengths of error bars to both sides, 0 where nothing is known."""
    return np.nan_to_num([[item.mean - item.low for item in items], [item.high - item.mean for item in items]]).tolist()
