"""Folder of a study: one folder per run with its result, a lock against a second driver, and the
status of all runs.
"""

import contextlib
import json
import logging
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from mmengine.config import Config
from mmengine.logging import print_log

from mmflatten.checkpoints.run_files import atomic_write
from mmflatten.locks import lock_file
from mmflatten.text import align
from mmflatten.untrusted.files import DamagedFile
from mmflatten.untrusted.json_files import read_json
from mmflatten_lab.studies.claims import added_runs
from mmflatten_lab.studies.runs import RUNNING, StudyRun, expand
from mmflatten_lab.studies.study import Study
from mmflatten_lab.studies.study_fields import StudyError

RESULT = 'result.json'
PROGRESS = 'progress.json'
RUN = 'run.json'
CONFIG = 'config.py'
LOCK = 'lock'
TRAIN = 'train'  # work dir of the training
LOCK_TIMEOUT = 1.0  # seconds; `in_use` holds the lock for a moment


class StudyFolder:
    """`work_dirs/studies/NAME`, where every run has `runs/RUN`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def run(self, name: str) -> Path:
        return self.path / 'runs' / name

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other drivers. The lock ends with its process, even if that is
        killed.

        Raises:
            StudyError: another driver holds the lock; the message gives its process id.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / LOCK, 'a+', encoding='utf-8') as lock:
            end = time.monotonic() + LOCK_TIMEOUT
            while not lock_file(lock):
                if time.monotonic() > end:
                    lock.seek(0)
                    raise StudyError(
                        f'{self.path}: expected a free study folder, got one in use by process '
                        f'{lock.read().strip()}. Wait for that process or end it.'
                    )
                time.sleep(LOCK_TIMEOUT / 20)
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def in_use(self) -> bool:
        """Return True if a driver is running."""
        with (
            contextlib.suppress(FileNotFoundError),
            open(self.path / LOCK, encoding='utf-8') as lock,
        ):
            return not lock_file(lock, shared=True)
        return False

    def read(self, run: StudyRun) -> StudyRun:
        """Read a run: its result, or the content of `run.json` if it has not ended."""
        folder = self.run(run.name)
        result = read_file(folder / RESULT)
        started = read_file(folder / RUN).get('result')
        if not result and started:
            result = {**started, 'state': RUNNING}
        return run.with_result(result)

    def prepare(self, name: str, config: Config, content: Mapping[str, Any]) -> Path:
        """Write the files that the worker reads, `run.json` last. A run that was started before
        keeps its files.

        Without `run.json` the settings of other files are unknown, so the next training does not
        use them.
        """
        folder = self.run(name)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / RUN).exists():
            (folder / PROGRESS).unlink(missing_ok=True)
            if (folder / TRAIN).exists():
                (folder / TRAIN).rename(folder / f'{TRAIN}_{time.time_ns()}.bad')
            with atomic_write(folder / CONFIG) as aside:
                aside.write_text(config.pretty_text, encoding='utf-8')
            write_json(folder / RUN, content)
        return folder


class Progress(TypedDict, total=False):
    """Fields of `progress.json`."""

    step: int
    length: int
    metric: str
    validations: dict[str, float]  # epoch or iteration -> metric
    wall_seconds: float
    cpu_seconds: float
    gpu_seconds: float


class Started(TypedDict):
    """Fields of `run.json`, the settings that a run was started with."""

    result: StudyRun
    config_hash: str
    metrics: list[str]


KINDS: dict[str, tuple[type, Sequence[str]]] = {  # with the required fields
    RESULT: (StudyRun, ('name', 'state')),
    PROGRESS: (Progress, ()),
    RUN: (Started, ('result',)),
}


def read_file(path: Path) -> dict[str, Any]:
    """Read a file of a run; {} if it does not exist. A damaged file is renamed, with a warning that
    names it.
    """
    try:
        return read_json(path, *KINDS[path.name])
    except DamagedFile as error:
        bad = path.replace(path.with_name(f'{path.name}.bad'))
        print_log(f'{error} It is now {bad.name}.', logger='current', level=logging.WARNING)
        return {}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file atomically."""
    with atomic_write(path) as aside:
        aside.write_text(json.dumps(content, indent=1) + '\n', encoding='utf-8')


def collect_runs(
    study: Study, folder: StudyFolder, published: Mapping[str, Any] | None = None
) -> list[StudyRun]:
    """Read the results of all runs, in the order of the study file. Runs that have not ended are
    running or waiting.

    Args:
        published: results by name, for runs that are not in the folder.

    Raises:
        StudyError: the study has not been started.
    """

    def read(run: StudyRun) -> StudyRun:
        found = folder.read(run)
        known = (published or {}).get(run.name)
        if known and found.value is None:
            return found.with_result(known)
        return found

    if not (folder.path / 'runs').exists() and not published:
        raise StudyError(
            f'{folder.path}: expected the folder of a study, got no runs in it. Start the study'
            ' first.'
        )
    known: dict[str, StudyRun] = {}
    more = expand(study)
    while more:
        for run in more:
            known[run.name] = read(run)
        more = [run for run in added_runs(study, known) if run.name not in known]
    return list(known.values())


def status_table(study: Study, folder: StudyFolder) -> str:
    """Format one line per run, with the progress of running ones."""
    in_use = folder.in_use()
    rows = []
    states: Counter[str] = Counter()
    for run in collect_runs(study, folder):
        state = run.state
        done = ''
        seconds = run.wall_seconds
        if state == RUNNING:
            progress = read_file(folder.run(run.name) / PROGRESS)
            if not in_use:
                state = 'interrupted'
            seconds = progress.get('wall_seconds', seconds)
            if progress.get('length'):
                done = f'{100 * progress["step"] / progress["length"]:.0f} %'
        states[state] += 1
        value = '' if run.value is None else f'{run.value:.4g}'
        rows.append([run.name, state, done, run.metric, value, f'{seconds:.0f}', run.error])
    header = ['run', 'state', 'done', 'metric', 'value', 'seconds', 'error']
    table = align(rows, header, {0, 1, 3, 6})
    counts = ', '.join(f'{number} {state}' for state, number in states.items())
    return f'{table}\n\n{counts}; {"a driver is running" if in_use else "no driver is running"}'
