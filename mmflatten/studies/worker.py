"""One run of a study, in a process of its own: train, or go on with the training, test, and time the model.

    python -m mmflatten.studies.worker work_dirs/studies/STUDY/runs/RUN

The folder holds `config.py` and `run.json`; the last thing that is written is `result.json`.
"""
from __future__ import annotations

import argparse
import fcntl
import math
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmflatten.console import command_line

NO_SPACE = 75  # exit status, BSD's EX_TEMPFAIL: the run is to be repeated when there is room


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, prog='python -m mmflatten.studies.worker',
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('folder', type=Path, help='folder of the run')
    made.add_argument('--cores', type=int, nargs='+', help='cores to run on')
    made.add_argument('--with-parent', action='store_true', help='end when the standard input is closed')
    return made


@command_line
def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    if args.cores:
        os.sched_setaffinity(0, args.cores)
    if args.with_parent:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    from mmflatten.errors import OUT_OF_SPACE, explain
    from mmflatten.studies.folder import RESULT
    with open(args.folder / 'lock', 'w', encoding='utf-8') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the process of a driver that was killed ends in a moment
        if (args.folder / RESULT).exists():
            return 0
        try:
            work(args.folder)
        except OSError as error:
            if error.errno not in OUT_OF_SPACE:
                raise
            sys.stderr.write(explain(error) + '\n')
            return NO_SPACE
    return 0


def _end_with_parent() -> None:
    while os.read(0, 1):  # not sys.stdin, whose lock this thread would hold at the end of the process
        pass
    os._exit(1)


def work(folder: Path) -> None:
    """Train, test and measure a run, and write its result."""
    from mmflatten.studies.folder import CONFIG, FINISHED, PRUNED, RUN, Result, git_commit, read_json, write_result
    from mmflatten.studies.grid import TRIAL
    from mmflatten.studies.progress import ProgressHook, Pruned
    run, config = read_json(folder / RUN), folder / CONFIG
    if not run:
        raise ValueError(f'folder ({folder}) is not that of a run: it holds no {RUN}')
    hook = ProgressHook(folder, run['metrics'], run['seconds'])
    result = Result(**run['result'], machine=_machine())
    result.state, result.git_commit = FINISHED, git_commit()
    try:
        checkpoint = _train(folder, config, hook)
        result.metrics = _test(folder, config, checkpoint)
        result.metric = next((name for name in run['metrics'] if name in result.metrics), '')
        if not result.metric:
            raise ValueError(f'metrics ({", ".join(run["metrics"])}) are none of the test: {", ".join(result.metrics)}')
        result.value = result.metrics[result.metric]
        validated = hook.state.get('metric', result.metric)
        if result.mode == TRIAL and validated != result.metric:
            raise ValueError(f'metrics ({", ".join(run["metrics"])}): a validation has {validated} first and the test '
                             f'{result.metric}, but a search needs one; name first what both measure')
        found = [*list(hook.state['validations'].values())[-1:], result.value]
        if not all(map(math.isfinite, found)):
            raise ValueError(f'{result.metric} ({", ".join(map(str, found))}) must be finite in the last validation '
                             'and in the test; the training has diverged, or the data hold nothing to measure')
    except Pruned:
        result.state, result.metric = PRUNED, hook.state['metric']
    result.validations = hook.state['validations']
    vars(result).update(hook.meter.costs())
    if result.state == FINISHED:
        result.throughput = _throughput(config, **run['throughput'])
    write_result(folder, result)


def _train(folder: Path, config: Path, hook: Any) -> str:
    """Train to the end, from the last whole checkpoint where there is one; returns the checkpoint to test."""
    from mmflatten.engine.checkpoints.files import newest_checkpoint
    from mmflatten.engine.setup import build_runner, load_config
    from mmflatten.engine.train import NEWEST, set_resume
    from mmflatten.studies.progress import STOPPED_CHECKPOINT, TimeIsUp
    stopped = folder / 'train' / STOPPED_CHECKPOINT
    if stopped.exists() and hook.time_is_up():
        return str(stopped)
    cfg = load_config(str(config), work_dir=str(folder / 'train'))
    set_resume(cfg, NEWEST)
    runner = build_runner(cfg)
    runner.register_hook(hook)
    try:
        runner.train()
    except TimeIsUp:
        return str(stopped)
    return str(newest_checkpoint(folder / 'train'))


def _test(folder: Path, config: Path, checkpoint: str) -> dict[str, float]:
    from mmflatten.engine.setup import load_config
    from mmflatten.engine.test import test
    metrics = test(load_config(str(config), work_dir=str(folder / 'test')), checkpoint)
    return {name: float(value) for name, value in metrics.items()}


def _throughput(config: Path, shape: list[int], scales: list[float], batch: int, seconds: float) -> dict[str, float]:
    """Images per second, in inference, by the shortest time at each size, which other programs lengthen least."""
    from mmflatten.measure.speed.models import RunSettings, model_subject
    from mmflatten.measure.speed.timing import measure
    speed = {}
    for scale in scales:
        size = (round(shape[0] * scale), round(shape[1] * scale))
        subject = model_subject(str(config), RunSettings(batch, size, device=_device()))
        times, = measure([subject], seconds=seconds, device=_device())
        speed[f'{size[0]}x{size[1]}'] = batch / min(times)
    return speed


def _machine() -> dict[str, Any]:
    from mmflatten.measure.speed.machine import describe_machine
    from mmflatten.requirements import LIBRARIES, inspect
    versions = {name: inspect(library).version for name, library in LIBRARIES.items()}
    return {**{name: version for name, version in versions.items() if version}, **describe_machine(_device())}


def _device() -> str:
    import torch
    return 'cuda' if torch.cuda.is_available() else 'cpu'


if __name__ == '__main__':
    sys.exit(main())
