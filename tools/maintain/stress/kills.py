"""Kills with -9 and full disks: what is repeated ends as if it had not been killed."""
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch
from cases import Results, command, run
from world import World

from mmflatten.checkpoints.torch_file import read_torch

SECONDS = 180.  # limit of a single process
LIMITS = (0, 100, 1000, 2500, 4000, 6000, 8000, 12_000, 20_000, 40_000)  # bytes of a file


def training(world: World, results: Results, number: int, end: float) -> None:
    """Kill a training again and again. It resumes, and its weights equal those of an undisturbed one, bit for bit."""
    def train(folder: Path) -> Callable[[], int]:
        return command(['train', world.config, '--work-dir', folder / 'work', '--resume'], folder)

    def weights(folder: Path) -> dict:
        return read_torch(folder / 'work' / 'epoch_12.pth')[0]['state_dict']

    def same(folder: Path) -> str:
        found = weights(folder)
        return '' if found.keys() == whole.keys() and all(torch.equal(found[key], whole[key]) for key in whole) else (
            'weights differ from those of the undisturbed training')

    undisturbed, start = world.place('training'), time.monotonic()
    _require(run(train(undisturbed), undisturbed / 'output.txt', SECONDS))
    whole, duration = weights(undisturbed), time.monotonic() - start
    _repeat('kills of a training', world, results, number, end, duration, train, same)


def study(world: World, results: Results, number: int, end: float) -> None:
    """Kill the driver of a study, with its workers. All runs end, with the metrics of an undisturbed study."""
    def drive(folder: Path) -> Callable[[], int]:
        return command(['study', world.study, '--work-dir', folder / 'work', '--workers', '2'], folder)

    undisturbed, start = world.place('study'), time.monotonic()
    _require(run(drive(undisturbed), undisturbed / 'output.txt', SECONDS))
    whole, duration = _study_results(undisturbed), time.monotonic() - start
    _repeat('kills of a study driver', world, results, number, end, duration, drive,
            lambda folder: '' if _study_results(folder) == whole else 'results differ from the undisturbed study')


def full_disk(world: World, results: Results, number: int, end: float) -> None:
    """Limit the size of a file that a study may write. It says so, and ends as usual once the limit is gone."""
    def drive(folder: Path) -> Callable[[], int]:
        return command(['study', world.study, '--work-dir', folder / 'work', '--workers', '2'], folder)

    whole = None
    for limit in (None, *LIMITS[:number]):
        if time.monotonic() > end:
            break
        start, folder = time.monotonic(), world.place(f'disk{limit}')
        if limit is not None:
            ended = run(drive(folder), folder / 'full.txt', SECONDS, file_bytes=limit)
            lost = 'no error' if ended.status == 0 and limit < 2000 else ''
            if 'Traceback' in ended.output:
                lost = 'traceback'
        ended = run(drive(folder), folder / 'output.txt', SECONDS)
        if limit is None:
            _require(ended)
            whole = _study_results(folder)
            continue
        if not lost and (ended.status != 0 or _study_results(folder) != whole):
            lost = ended.last_line or 'results differ'
        results.add('full disk in a study', f'files of at most {limit} bytes', lost, time.monotonic() - start)


def _repeat(campaign: str, world: World, results: Results, number: int, end: float, duration: float,
            call: Callable[[Path], Callable[[], int]], check: Callable[[Path], str]) -> None:
    """Kill a command `number` times. After each kill it goes on where it was; when it has ended, it is checked."""
    kills, chain = [], 0
    while len(kills) < number and time.monotonic() < end:
        chain += 1
        folder, done = world.place(f'{campaign.replace(" ", "_")}{chain:03d}'), False
        first = len(kills)
        while not done:
            start = time.monotonic()
            # A process needs time to start, so that kills that are always early would never let it end.
            after = world.random.uniform(0, 1.2) * duration if len(kills) < number and time.monotonic() < end else None
            ended = run(call(folder), folder / 'output.txt', SECONDS, kill_after=after)
            done = not ended.killed
            if not done:
                kills.append((f'chain {chain}, after {after:.1f} s', time.monotonic() - start))
        lost = f'status {ended.status}: {ended.last_line[:200]}' if ended.status != 0 else check(folder)
        for name, seconds in kills[first:]:
            results.add(campaign, name, lost, seconds)


def _study_results(folder: Path) -> dict[str, tuple]:
    """State and metrics of each run by name."""
    files = sorted(folder.glob('work/runs/*/result.json'))
    found = [json.loads(file.read_text()) for file in files]
    return {run_of_study['name']: (run_of_study['state'], run_of_study['metrics'], run_of_study['validations'])
            for run_of_study in found}


def _require(ended: object) -> None:
    if ended.status != 0:
        raise RuntimeError(f'the undisturbed command failed: {ended.output[-2000:]}')
