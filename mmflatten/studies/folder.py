"""The folder of a study on the disk: a folder for each run, its result, and a lock against a second driver."""
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mmflatten.engine.checkpoints.files import written_aside
from mmflatten.studies.study import StudyError

RESULT, PROGRESS, RUN, CONFIG, LOG, STOP, LOCK = (
    'result.json', 'progress.json', 'run.json', 'config.py', 'log.txt', 'stop', 'lock')
FINISHED, PRUNED, FAILED, RUNNING, WAITING = 'finished', 'pruned', 'failed', 'running', 'waiting'
CHANGES = ('keep', 'rerun')


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
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                raise StudyError(f'study folder {self.path} is in use by process {lock.read().strip()}; wait for it, '
                                 'look with --status, or end that process') from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def in_use(self) -> bool:
        """Whether a driver works here."""
        with contextlib.suppress(FileNotFoundError), open(self.path / LOCK, encoding='utf-8') as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def result(self, name: str) -> Result | None:
        """The result of a run that has ended."""
        content = read_json(self.run(name) / RESULT)
        return Result(**content) if content else None

    def progress(self, name: str) -> dict:
        """How far a run is, as it says itself about once a second: `step`, `length`, `wall_seconds`, ..."""
        return read_json(self.run(name) / PROGRESS)

    def prepare(self, name: str, config: Any, content: Mapping[str, Any]) -> Path:
        """Write what the process of a run reads; a run that has begun keeps its config."""
        folder = self.run(name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / STOP).unlink(missing_ok=True)
        if not (folder / CONFIG).exists():
            with written_aside(folder / CONFIG) as aside:
                aside.write_text(config.pretty_text, encoding='utf-8')
            write_json(folder / RUN, content)
        return folder

    def settle_changes(self, hashes: Mapping[str, str], changed: str | None) -> None:
        """Compare the configs with those that runs of this folder began with.

        Args:
            hashes: of the config of each run.
            changed: `keep` leaves runs that have begun as they are, `rerun` discards those that differ.

        Raises:
            StudyError: a config differs, and `changed` does not say what to do.
        """
        begun = {name: read_json(self.run(name) / RUN).get('config_hash') for name in hashes}
        differing = [name for name, known in begun.items() if known not in (None, hashes[name])]
        if differing and changed not in CHANGES:
            raise StudyError(f'{len(differing)} runs of {self.path} began with another config ({differing[0]}, ...): '
                             '--changed keep leaves them as they are, --changed rerun runs them anew')
        for name in differing if changed == 'rerun' else ():
            shutil.rmtree(self.run(name))


def read_json(path: Path) -> dict:
    """The content of a file, {} where there is none."""
    try:
        return json.loads(path.read_text(encoding='utf-8'))
    except FileNotFoundError:
        return {}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file whole or not at all."""
    with written_aside(path) as aside:
        aside.write_text(json.dumps(content, indent=1) + '\n', encoding='utf-8')


def write_result(folder: Path, result: Result) -> None:
    """Write the result of a run, after which it has ended."""
    write_json(folder / RESULT, asdict(result))


def last_line(log: Path) -> str:
    """The last line of a log that says something."""
    lines = log.read_text(encoding='utf-8', errors='replace').split('\n') if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), '')


def git_commit() -> str:
    """The commit of the checkout that runs; '' for an installed package, and where there is no git."""
    if shutil.which('git') is None:
        return ''
    found = subprocess.run(['git', 'rev-parse', 'HEAD'], cwd=Path(__file__).parent, capture_output=True, text=True)
    return found.stdout.strip()
