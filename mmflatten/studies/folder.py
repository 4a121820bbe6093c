"""The folder of a study on the disk: a folder for each run, its result, and a lock against a second driver."""
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from mmflatten.engine.checkpoints.saving import atomic_write
from mmflatten.studies.study import StudyError, counted

RESULT, PROGRESS, RUN, CONFIG, LOG, STOP, LOCK = (
    'result.json', 'progress.json', 'run.json', 'config.py', 'log.txt', 'stop', 'lock')
FINISHED, PRUNED, FAILED, RUNNING, WAITING = 'finished', 'pruned', 'failed', 'running', 'waiting'
CHANGES = ('keep', 'rerun')
DECIDED = {'config_hash': 'config', 'metrics': 'metrics', 'seconds': 'budget.seconds', 'throughput': 'throughput'}
PATIENCE = 1.  # seconds that a driver waits for the lock, which `in_use` holds for a moment


@dataclass
class Result:
    """What is known of a run, a row of the table; times include what was lost to interruptions, but for seconds."""

    name: str
    mode: str = ''
    levels: dict[str, str] = field(default_factory=dict)
    seed: int = 0
    tuned: dict[str, float] | None = None
    state: str = WAITING
    metric: str = ''
    value: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    validations: dict[str, float] = field(default_factory=dict)  # epoch or iteration -> metric
    wall_seconds: float = 0.
    cpu_seconds: float = 0.
    gpu_seconds: float = 0.
    peak_memory: int = 0  # bytes, of the process, or on the GPU where it has one
    throughput: dict[str, float] = field(default_factory=dict)  # height x width -> images per second
    params: int = 0
    flops: int = 0  # multiply-accumulates of one image
    config_hash: str = ''
    git_commit: str = ''
    machine: dict[str, Any] = field(default_factory=dict)
    error: str = ''


class StudyFolder:
    """`work_dirs/studies/NAME`, where every run has `runs/RUN`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def run(self, name: str) -> Path:
        return self.path / 'runs' / name

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder against other drivers; a lock ends with its process, however that ends.

        Raises:
            StudyError: another driver works here; names its process.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / LOCK, 'a+', encoding='utf-8') as lock:
            end = time.monotonic() + PATIENCE
            while not _take(lock, fcntl.LOCK_EX):
                if time.monotonic() > end:
                    lock.seek(0)
                    raise StudyError(f'study folder {self.path} is in use by process {lock.read().strip()}; wait for '
                                     'it, look with --status, or end that process')
                time.sleep(PATIENCE / 20)
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def in_use(self) -> bool:
        """Whether a driver works here."""
        with contextlib.suppress(FileNotFoundError), open(self.path / LOCK, encoding='utf-8') as lock:
            return not _take(lock, fcntl.LOCK_SH)
        return False

    def result(self, name: str) -> Result | None:
        """The result of a run that has ended."""
        content = read_json(self.run(name) / RESULT)
        return Result(**content) if content else None

    def progress(self, name: str) -> dict:
        """How far a run is, as it says itself about once a second: `step`, `length`, `wall_seconds`, ..."""
        return read_json(self.run(name) / PROGRESS)

    def prepare(self, name: str, config: Any, content: Mapping[str, Any]) -> Path:
        """Write what the process of a run reads, `run.json` last; a run that has one keeps both files."""
        folder = self.run(name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / STOP).unlink(missing_ok=True)
        if not (folder / RUN).exists():
            with atomic_write(folder / CONFIG) as aside:
                aside.write_text(config.pretty_text, encoding='utf-8')
            write_json(folder / RUN, content)
        return folder

    def reopen(self, name: str, content: Mapping[str, Any]) -> None:
        """Let a failed run be run again, with what the study says now; one whose config was kept stays as it is."""
        folder = self.run(name)
        if read_json(folder / RUN).get('config_hash') == content['config_hash']:
            write_json(folder / RUN, content)
        (folder / RESULT).unlink()

    def to_discard(self, contents: Mapping[str, Mapping[str, Any]], changed: str | None,
                   retry_failed: bool = False) -> list[str]:
        """Compare what the study says of its runs with what runs of this folder began with.

        Args:
            contents: of `run.json`, by the names of runs.
            changed: `keep` leaves runs that have begun as they are, `rerun` discards those that differ.
            retry_failed: failed runs will be reopened, so that of them the config alone is compared.

        Returns:
            The names of the runs that are to be discarded.

        Raises:
            StudyError: a run differs, and `changed` does not say what to do, or it has a metric that is no more named.
        """
        differing = {}
        for name, content in contents.items():
            found = _changes(read_json(self.run(name) / RUN), content)
            failed = retry_failed and (self.result(name) or Result(name)).state == FAILED
            if 'config' in found or found and not failed:
                differing[name] = found
        if differing and changed not in CHANGES:
            name, found = next(iter(differing.items()))
            raise StudyError(f'{counted(len(differing), "run")} of {self.path} began with another {", ".join(found)} '
                             f'({name}, ...): --changed keep leaves them as they are, --changed rerun runs them anew')
        if changed == 'rerun':
            return list(differing)
        for name in differing:
            result, named = self.result(name), contents[name]['metrics']
            if result and result.metric and result.metric not in named:
                raise StudyError(f'{name} was judged by {result.metric}, which metrics ({", ".join(named)}) does not '
                                 'name: name it too to keep such runs, or run them anew with --changed rerun')
        return []


def _take(lock: TextIO, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _changes(begun: Mapping[str, Any], content: Mapping[str, Any]) -> list[str]:
    """What the study file says otherwise than when a run began; what an older `run.json` does not hold is no change."""
    def said(value: Any) -> Any:  # the shape of the images is no word of the file
        return {key: item for key, item in value.items() if key != 'shape'} if isinstance(value, dict) else value
    return [name for key, name in DECIDED.items() if key in begun and said(begun[key]) != said(content[key])]


def read_json(path: Path) -> dict:
    """The content of a file, {} where there is none."""
    try:
        return json.loads(path.read_text(encoding='utf-8'))
    except FileNotFoundError:
        return {}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file whole or not at all."""
    with atomic_write(path) as aside:
        aside.write_text(json.dumps(content, indent=1) + '\n', encoding='utf-8')


def write_result(folder: Path, result: Result) -> None:
    """Write the result of a run, after which it has ended."""
    write_json(folder / RESULT, asdict(result))


def last_line(log: Path) -> str:
    """The last line of a log that says something."""
    lines = log.read_text(encoding='utf-8', errors='replace').split('\n') if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), '')


def git_commit() -> str:
    """The commit of this package, with `-dirty` where its files differ; '' where git does not track them."""
    if shutil.which('git') is None or not _git('ls-files', '__init__.py'):
        return ''
    return _git('rev-parse', 'HEAD') + ('-dirty' if _git('--no-optional-locks', 'status', '--porcelain', '.') else '')


def _git(*arguments: str) -> str:
    package = Path(__file__).parents[1]
    return subprocess.run(['git', *arguments], cwd=package, capture_output=True, text=True).stdout.strip()
