"""How far a study is, at any time and from any process."""
from __future__ import annotations

from collections import Counter
from pathlib import Path

from mmflatten.studies.folder import RUNNING, StudyFolder
from mmflatten.studies.table import read_table
from mmflatten.text_table import align


def status_table(path: Path) -> str:
    """A line for each run, from the table and from what running processes say of themselves.

    Raises:
        StudyError: the study has not begun.
    """
    results = read_table(path)
    folder, rows, states = StudyFolder(path), [], Counter()
    in_use = folder.in_use()
    for result in results:
        state = result.state if result.state != RUNNING or in_use else 'interrupted'
        progress = folder.progress(result.name) if result.state == RUNNING else {}
        share = f'{100 * progress["step"] / progress["length"]:.0f} %' if progress.get('length') else ''
        rows.append([result.name, state, share, result.metric, '' if result.value is None else f'{result.value:.4g}',
                     f'{progress.get("wall_seconds", result.wall_seconds):.0f}', result.error])
        states[state] += 1
    table = align(rows, ['run', 'state', 'done', 'metric', 'value', 'seconds', 'error'], {0, 1, 3, 6})
    counts = ', '.join(f'{number} {state}' for state, number in states.items())
    return f'{table}\n\n{counts}; {"a driver is at work" if in_use else "no driver is at work"}'
