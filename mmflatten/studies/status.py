"""Status of a study, readable at any time and from any process."""
from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mmflatten.studies.folder import RUN, RUNNING, Result, StudyFolder, read_json
from mmflatten.studies.grid import StudyRun, expand
from mmflatten.studies.study import Study, StudyError
from mmflatten.studies.tuning import best_runs, trials_of
from mmflatten.text_table import align


def collect_results(study: Study, folder: StudyFolder) -> list[Result]:
    """Read the results of all runs, in the order of the study file. Runs that have not ended are running or waiting.

    Raises:
        StudyError: the study has not been started.
    """
    if not (folder.path / 'runs').exists():
        raise StudyError(f'{folder.path}: expected the folder of a study, got no runs in it. Start the study first.')
    results = _read(expand(study) + trials_of(study), folder)
    return list({**results, **_read(best_runs(study, results), folder)}.values())


def _read(runs: Sequence[StudyRun], folder: StudyFolder) -> dict[str, Result]:
    results = {}
    for run in runs:
        result = folder.result(run.name)
        if result is None:
            started = read_json(folder.run(run.name) / RUN).get('result')
            waiting = dict(name=run.name, mode=run.mode, levels=run.levels, seed=run.seed, tuned=run.tuned)
            result = Result(**{**started, 'state': RUNNING} if started else waiting)
        results[run.name] = result
    return results


def status_table(study: Study, folder: StudyFolder) -> str:
    """Format one line per run, with the progress of running ones."""
    rows, states, in_use = [], Counter(), folder.in_use()
    for result in collect_results(study, folder):
        state, progress, done = result.state, {}, ''
        if state == RUNNING:
            state, progress = RUNNING if in_use else 'interrupted', folder.progress(result.name)
        if progress.get('length'):
            done = f'{100 * progress["step"] / progress["length"]:.0f} %'
        rows.append([result.name, state, done, result.metric, '' if result.value is None else f'{result.value:.4g}',
                     f'{progress.get("wall_seconds", result.wall_seconds):.0f}', result.error])
        states[state] += 1
    table = align(rows, ['run', 'state', 'done', 'metric', 'value', 'seconds', 'error'], {0, 1, 3, 6})
    counts = ', '.join(f'{number} {state}' for state, number in states.items())
    return f'{table}\n\n{counts}; {"a driver is at work" if in_use else "no driver is at work"}'
