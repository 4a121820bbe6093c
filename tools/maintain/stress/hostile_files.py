"""Hostile files, each given to the command that reads its kind."""
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from cases import Ended, Results, command, memory_now, one_line, run
from content import Case, hostile
from world import World

from mmflatten_lab.studies.runs import expand
from mmflatten_lab.studies.study_file import read_study

SECONDS = 30.
CAMPAIGN = 'hostile files'


def campaign(world: World, results: Results, number: int, end: float) -> None:
    """Give each hostile file to its command, which must refuse it in a line that names it."""
    canary = world.folder / 'canary'
    read = dict(pth=_convert, pkl=_analyze, json=_origin, yaml=_study, run=_status)
    before = memory_now()
    for count, case in enumerate(hostile(world, canary)[:number]):
        if time.monotonic() > end:
            break
        start, folder = time.monotonic(), world.place(f'file{count:03d}')
        call, names = read[case.kind](world, folder, case)
        ended = run(call, folder / 'output.txt', SECONDS)
        lost = ended.fault(before)
        if canary.exists():
            canary.unlink()
            lost = lost or 'code of the file ran'
        if not lost and case.kind == 'run':
            lost = _set_aside(ended, folder, case)
        elif not lost and (case.refused or ended.status != 0):
            lost = one_line(ended, *names)
        for escaped in world.folder.rglob('escaped*'):
            escaped.rename(folder / f'outside{count}')
            lost = lost or 'a file was written outside'
        results.add(CAMPAIGN, f'{case.kind}: {case.name}', lost, time.monotonic() - start)


def _set_aside(ended: Ended, folder: Path, case: Case) -> str:
    """Describe what is wrong after the status of a study with damaged files; '' if nothing is."""
    if ended.status != 0:
        return ended.last_line[:200]
    try:
        whole = isinstance(json.loads(case.content), dict)
    except (ValueError, RecursionError):
        whole = False
    named = case.name.split()[0] in ended.output and any(folder.rglob('*.bad'))
    return '' if named or whole else 'a damaged file was not set aside and named'


Reader = tuple[Callable[[], int], tuple[str, ...]]  # a call, and names of which its error must hold one


def _convert(world: World, folder: Path, case: Case) -> Reader:
    file, classes = _write(folder, f'hostile.{case.kind}', case.content), _write(folder, 'classes.txt', b'0\n')
    return command(['convert', file, folder / 'out.pth', '--head-map', classes], folder), ('hostile',)


def _analyze(world: World, folder: Path, case: Case) -> Reader:
    file = _write(folder, 'hostile.pkl', case.content)
    shutil.copy(world.predictions.with_suffix('.json'), folder / 'hostile.json')
    return command(['analyze', file, '--out', folder / 'out'], folder), ('hostile', 'entries')


def _origin(world: World, folder: Path, case: Case) -> Reader:
    shutil.copy(world.predictions, folder / 'hostile.pkl')
    _write(folder, 'hostile.json', case.content)
    return command(['analyze', folder / 'hostile.pkl', '--out', folder / 'out'], folder), ('hostile.json', 'classes')


def _study(world: World, folder: Path, case: Case) -> Reader:
    file = _write(folder, 'hostile.yaml', case.content)
    (folder / 'work' / 'runs').mkdir(parents=True)
    fields = ('factors', 'seed:', 'name:', 'budget', 'base:', 'options', 'metrics')
    return command(['study', file, '--status', '--work-dir', folder / 'work'], folder), ('hostile.yaml', *fields)


def _status(world: World, folder: Path, case: Case) -> Reader:
    for run_of_study in expand(read_study(world.study)):
        place = folder / 'work' / 'runs' / run_of_study.name
        place.mkdir(parents=True)
        started = json.dumps(dict(result=dict(name=run_of_study.name, state='waiting')))
        _write(place, 'run.json', started.encode())  # the progress of a run is read if it was started
        _write(place, case.name.split()[0], case.content)
    return command(['study', world.study, '--status', '--work-dir', folder / 'work'], folder), ()


def _write(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name
