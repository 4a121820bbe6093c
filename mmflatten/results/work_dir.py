"""Contents of a work dir: config, log, checkpoint, predictions and their analysis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmflatten.checkpoints.run_files import newest_checkpoint
from mmflatten.config import read_config
from mmflatten.console import explain
from mmflatten.measure.flops.model_cost import ModelCost, count_config
from mmflatten.results.analysis import Analysis, analyze
from mmflatten.results.curves import LOGS, name_runs, read_scalars
from mmflatten.results.progress import trained_iterations, training_seconds
from mmflatten.results.reading import Results, read_results
from mmflatten.tasks import Task, find_task
from mmflatten.untrusted.files import problem_of

RESULTS = 'results.pkl'


@dataclass
class TrainedRun:
    """Contents of a work dir. Missing parts are None or empty and listed in `missing`."""

    work_dir: Path
    name: str
    config: Config | None = None
    records: list[dict] = field(default_factory=list)  # of the training's log, merged over resumes
    iterations: int | None = None  # that the training finished
    wall_time: float = 0  # seconds of the training, without iterations that a resumed run repeated
    checkpoint: Path | None = None  # the newest one
    results: Results | None = None
    analysis: Analysis | None = None
    cost: ModelCost | None = None
    # name of a part -> command that creates it, or error
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def task(self) -> Task | None:
        if self.results is not None:
            return self.results.task
        if self.config is None:
            return None
        return find_task(self.config.get('default_scope'), self.config.get('model'))

    @property
    def tested(self) -> str | None:
        """Checkpoint of the predictions if it is known and not the newest one."""
        if self.results is None:
            return None
        tested = self.results.origin.get('checkpoint')
        newest = self.checkpoint and self.checkpoint.resolve()
        return tested if tested and Path(tested).resolve() != newest else None

    @property
    def model(self) -> str:
        """Types of the model and its backbone."""
        return model_name(self.config)

    def attempt(self, what: str, function: Callable[..., Any], *args: Any) -> Any:
        """Return the result of a function, or None after adding its error to `missing`."""
        try:
            return function(*args)
        except Exception as error:  # the page is written without this part
            self.missing[what] = explain(error)
            return None


def read_work_dirs(work_dirs: Sequence[str | Path], score: float) -> list[TrainedRun]:
    """Read work dirs; arguments and errors are those of `write_report`."""
    runs = [TrainedRun(path, name) for name, path in name_runs(work_dirs).items()]
    # A wrong folder is an error before the first run is read.
    for run in runs:
        _require_work_dir(run.work_dir)
    for run in runs:
        _read(run, score)
    return runs


def _require_work_dir(path: Path) -> None:
    if not path.is_dir():
        problem = problem_of(path) or 'is a file'
        raise FileNotFoundError(f'work dir: {path} {problem}. Give the work_dir of a training.')
    has_log = any(path.glob(LOGS))
    has_results = (path / RESULTS).exists()
    if not has_log and not has_results and find_config_file(path) is None:
        raise ValueError(
            f'work dir: {path} has no config (*.py), no log ({LOGS}) and no {RESULTS}. Give the'
            ' work_dir of a training.'
        )


def _read(run: TrainedRun, score: float) -> None:
    folder = run.work_dir
    config_file = find_config_file(folder)
    results_file = folder / RESULTS
    has_log = any(folder.glob(LOGS))
    has_results = results_file.exists()
    run.checkpoint = run.attempt('checkpoint', newest_checkpoint, folder)

    # Each missing part is listed with the command that creates it.
    config = config_file or 'CONFIG'
    train = f'mmflatten train {config} --work-dir {folder}'
    test = f'mmflatten test {config} {run.checkpoint or "CHECKPOINT"} --out {results_file}'
    if config_file is None:
        run.missing.setdefault('config', train)
    if not has_log:
        run.missing.setdefault('log', train)
    if run.checkpoint is None:
        run.missing.setdefault('checkpoint', train)
    if not has_results:
        run.missing.setdefault('predictions', test)

    if config_file is not None:
        run.config = run.attempt('config', read_config, str(config_file))
        run.cost = run.attempt('FLOPs', count_config, config_file)
    if has_log:
        run.records = run.attempt('log', read_scalars, folder) or []
        run.iterations = trained_iterations(folder, run.records)
        run.wall_time = training_seconds(folder)
    if has_results:
        run.results = run.attempt('predictions', read_results, results_file)
    if run.results is not None:
        run.analysis = run.attempt('metrics', analyze, run.results, len(run.results.entries), score)


def model_name(config: Config) -> str:
    """Return the types of a config's model and its backbone."""
    model = config.get('model') or {}
    parts = [model]
    for name in ('backbone', 'features'):
        if isinstance(model.get(name), dict):
            parts.append(model[name])
    return ' with '.join(str(part.get('type')).rpartition('.')[2] for part in parts)


def find_config_file(work_dir: Path) -> Path | None:
    """Return the newest config file of a work dir."""
    files = [*work_dir.glob('*.py')] or [*work_dir.glob('*/vis_data/config.py')]
    # mmpretrain's vis_scheduler.py leaves an empty file
    files = [path for path in files if path.stat().st_size]
    return max(files, key=lambda path: path.stat().st_mtime_ns, default=None)
