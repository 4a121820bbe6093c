"""Folder of a study: one folder per run with its result, and a lock against a second driver."""
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from mmengine.config import Config

from mmflatten.engine.checkpoints.saving import atomic_write
from mmflatten.studies.study import StudyError, counted

RESULT, PROGRESS, RUN, CONFIG, STOP, LOCK = 'result.json', 'progress.json', 'run.json', 'config.py', 'stop', 'lock'
FINISHED, PRUNED, FAILED, RUNNING, WAITING = 'finished', 'pruned', 'failed', 'running', 'waiting'
COMPARED = {'config_hash': 'config', 'metrics': 'metrics', 'seconds': 'budget.seconds', 'throughput': 'throughput'}
LOCK_TIMEOUT = 1.  # seconds; `in_use` holds the lock for a moment


@dataclass
class Result:
    """Result of a run, as in `result.json`. Times include all attempts of the run."""

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
    peak_memory: int = 0  # bytes on the GPU if there is one, else of the process
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
        """Lock the folder against other drivers. The lock ends with its process, even if that is killed.

        Raises:
            StudyError: another driver holds the lock; the message gives its process id.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / LOCK, 'a+', encoding='utf-8') as lock:
            end = time.monotonic() + LOCK_TIMEOUT
            while not _acquire(lock, fcntl.LOCK_EX):
                if time.monotonic() > end:
                    lock.seek(0)
                    raise StudyError(f'{self.path}: expected a free study folder, got one in use by process '
                                     f'{lock.read().strip()}. Wait for that process or end it.')
                time.sleep(LOCK_TIMEOUT / 20)
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def in_use(self) -> bool:
        """Return True if a driver is running."""
        with contextlib.suppress(FileNotFoundError), open(self.path / LOCK, encoding='utf-8') as lock:
            return not _acquire(lock, fcntl.LOCK_SH)
        return False

    def result(self, name: str) -> Result | None:
        """Result of a run that has ended."""
        content = read_json(self.run(name) / RESULT)
        return Result(**content) if content else None

    def progress(self, name: str) -> dict[str, Any]:
        """Progress of a run, written about once a second: `step`, `length`, `wall_seconds`, ..."""
        return read_json(self.run(name) / PROGRESS)

    def prepare(self, name: str, config: Config, content: Mapping[str, Any]) -> Path:
        """Write the files that the worker reads, `run.json` last. A run that was started before keeps its files."""
        folder = self.run(name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / STOP).unlink(missing_ok=True)
        if not (folder / RUN).exists():
            with atomic_write(folder / CONFIG) as aside:
                aside.write_text(config.pretty_text, encoding='utf-8')
            write_json(folder / RUN, content)
        return folder

    def reopen(self, name: str, content: Mapping[str, Any]) -> None:
        """Make a failed run ready to run again, with the current settings unless its config was kept."""
        folder = self.run(name)
        if read_json(folder / RUN).get('config_hash') == content['config_hash']:
            write_json(folder / RUN, content)
        (folder / RESULT).unlink()

    def to_discard(self, contents: Mapping[str, Mapping[str, Any]], changed: str | None,
                   retry_failed: bool = False) -> list[str]:
        """Compare the study with the settings that its runs were started with; returns the names of runs to discard.

        Args:
            contents: contents of `run.json` by name of the run.
            changed: `keep` leaves changed runs, `rerun` discards them.
            retry_failed: compare only the config of failed runs, because they will be reopened.

        Raises:
            StudyError: a run changed and `changed` is not set, or a kept run was judged by a metric that was removed.
        """
        differing = {}
        for name, content in contents.items():
            fields = _changed_fields(read_json(self.run(name) / RUN), content)
            result = self.result(name)
            reopened = retry_failed and result is not None and result.state == FAILED
            if 'config' in fields or fields and not reopened:
                differing[name] = fields
        if differing and changed is None:
            name, fields = next(iter(differing.items()))
            raise StudyError(f'{self.path}: expected runs that were started with this study file, got '
                             f'{counted(len(differing), "run")} with another {", ".join(fields)} ({name}, ...). Use '
                             '--changed keep to leave them or --changed rerun to repeat them.')
        if changed == 'rerun':
            return list(differing)
        for name in differing:
            result, metrics = self.result(name), contents[name]['metrics']
            if result and result.metric and result.metric not in metrics:
                raise StudyError(f'metrics: expected {result.metric}, by which {name} was judged, got '
                                 f'{", ".join(metrics)}. Add it, or repeat the runs with --changed rerun.')
        return []


def _acquire(lock: TextIO, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _changed_fields(started: Mapping[str, Any], content: Mapping[str, Any]) -> list[str]:
    """Fields of the study file that changed since a run was started. Fields missing from an older file are ignored."""
    def stated(value: Any) -> Any:  # the image shape follows from the config
        return {key: item for key, item in value.items() if key != 'shape'} if isinstance(value, dict) else value
    return [name for key, name in COMPARED.items() if key in started and stated(started[key]) != stated(content[key])]


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file; {} if it does not exist."""
    try:
        return json.loads(path.read_text(encoding='utf-8'))
    except FileNotFoundError:
        return {}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file whole or not at all."""
    with atomic_write(path) as aside:
        aside.write_text(json.dumps(content, indent=1) + '\n', encoding='utf-8')


def write_result(folder: Path, result: Result) -> None:
    """Write the result of a run, which marks the run as ended."""
    write_json(folder / RESULT, asdict(result))


def git_commit() -> str:
    """Commit of this package, with `-dirty` if its files were changed; '' if git does not track them."""
    def git(*arguments: str) -> str:
        return subprocess.run(['git', *arguments], cwd=Path(__file__).parents[1], capture_output=True,
                              text=True).stdout.strip()
    try:
        if not git('ls-files', '__init__.py'):
            return ''
        changes = git('--no-optional-locks', 'status', '--porcelain', '.')
        return git('rev-parse', 'HEAD') + ('-dirty' if changes else '')
    except FileNotFoundError:  # git is not installed
        return ''
