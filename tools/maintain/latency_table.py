"""Latency of models on this machine's CPU, in PyTorch, ONNX Runtime and OpenVINO.

    python tools/maintain/latency_table.py prepare
    python tools/maintain/latency_table.py measure
    python tools/maintain/latency_table.py measure --models 'PVTv2-B2 linear' --sizes 1024
    python tools/maintain/latency_table.py profile --models 'PVTv2-B2 linear' --sizes 1024
    python tools/maintain/latency_table.py page

`prepare` writes the exported files and times nothing, so that it may run beside other work.
`measure` adds the missing rows to `latency_cpu.csv` in docs/measurements, those of short calls
first, each from a process of its own. `profile` adds the shares of the operators in the time of
files to `latency_profile.csv` beside it. These can be interrupted at any time and continue when
called again. `page` writes `latency_cpu.md` beside the tables.
"""

import itertools
import json
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any

from latency.page import render
from latency.rows import (
    FILE_RUNTIMES,
    HEADS,
    MODELS,
    PROFILE_COLUMNS,
    RUNTIMES,
    SIZES,
    Cell,
    all_cells,
    cell_of,
    cost,
    is_prepared,
    read_rows,
    row_of,
    write_rows,
)

from mmflatten.checkpoints.run_files import atomic_write
from mmflatten.cli.common import command, positive
from mmflatten.console import print_progress

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / 'docs' / 'measurements' / 'latency_cpu.csv'
FILES = ROOT / 'work_dirs' / 'latency'
LONGEST = 1800  # seconds of the preparation of a model, and of a row with compiling
MAX_ERROR = 200  # characters
PROFILE = 'latency_profile.csv'
NUM_OPERATORS = 6  # of a profile, those that take most time


def options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add('action', choices=tuple(ACTIONS), help='write files, measure, profile, write the page')
    add('--models', nargs='+', choices=MODELS, default=list(MODELS), metavar='NAME')
    add('--heads', nargs='+', choices=HEADS, default=list(HEADS))
    add('--sizes', nargs='+', type=int, choices=SIZES, default=list(SIZES))
    add('--runtimes', nargs='+', choices=RUNTIMES, default=list(RUNTIMES))
    add('--threads', type=positive, default=2, metavar='N', help='CPU threads (default: 2)')
    add('--seconds', type=positive, default=5, metavar='S', help='timing of a row (default: 5)')
    add('--longest', type=positive, default=LONGEST, metavar='S', help='longest time of a row')
    add('--again', action='store_true', help='also measure the rows that failed')
    add('--table', type=Path, default=TABLE, metavar='CSV', help=f'default: {TABLE.name}')
    add('--files', type=Path, default=FILES, metavar='DIR', help='folder of the exported files')


def prepare_files(args: Namespace) -> None:
    """Write the files of each model and head that lack."""
    for model, head in itertools.product(args.models, args.heads):
        print_progress(f'{model} {head}')
        try:
            run_request(request_of(model, head, args), args.longest)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print_progress(str(error))


def measure_missing(args: Namespace) -> None:
    """Measure the rows that the table lacks, and write it after each."""
    rows = {cell_of(row): row for row in read_rows(args.table)}
    wanted = all_cells(args.models, args.heads, args.sizes, args.runtimes)
    missing = []
    for cell in sorted(wanted, key=cost):
        if cell not in rows or (args.again and rows[cell]['error']):
            missing.append(cell)
    for number, cell in enumerate(missing, 1):
        print_progress(f'[{number}/{len(missing)}] {" ".join(map(str, asdict(cell).values()))}')
        rows[cell] = row_of(cell, measure_one(cell, args))
        order = [known for known in all_cells() if known in rows]
        write_rows(args.table, [rows[known] for known in order])


def measure_one(cell: Cell, args: Namespace) -> dict[str, Any]:
    """Measure a row in processes of its own; an error is its result."""
    request = request_of(cell.model, cell.head, args)
    try:
        if not is_prepared(Path(request['folder']), cell):
            run_request(request, args.longest)
        return run_request(dict(request, cell=asdict(cell)), longest=args.longest)
    except subprocess.TimeoutExpired:  # its text is the whole command
        print_progress(f'stopped after {args.longest} s; --longest sets more')
        return dict(error=f'stopped after {args.longest} s')
    except RuntimeError as error:
        print_progress(str(error))
        return dict(error=str(error)[:MAX_ERROR])


def profile_missing(args: Namespace) -> None:
    """Add the shares of the operators to the profiles that the table lacks, of prepared files."""
    table = args.table.with_name(PROFILE)
    lines = read_rows(table)
    known = {cell_of(line) for line in lines}
    runtimes = [name for name in args.runtimes if name in FILE_RUNTIMES]
    for cell in all_cells(args.models, args.heads, args.sizes, runtimes):
        request = request_of(cell.model, cell.head, args)
        is_missing = cell not in known and cell.precision in ('float32', 'int8')
        if not is_missing or not is_prepared(Path(request['folder']), cell):
            continue
        print_progress(' '.join(map(str, asdict(cell).values())))
        request['cell'] = asdict(cell)
        shares = run_request(request, longest=args.longest, module='latency.profile')
        for operator, share in list(shares.items())[:NUM_OPERATORS]:
            lines.append(row_of(cell, dict(operator=operator, percent=f'{100 * share:.0f}')))
        write_rows(table, lines, columns=PROFILE_COLUMNS)


def request_of(model: str, head: str, args: Namespace) -> dict[str, Any]:
    """Return the request to prepare the files of a model."""
    folder = args.files / f'{model}, {head}'.lower().replace(', ', '_').replace(' ', '-')
    return dict(
        folder=str(folder.absolute()),
        model=model,
        head=head,
        cell=None,
        threads=args.threads,
        seconds=args.seconds,
    )


def run_request(
    request: dict[str, Any], longest: float, module: str = 'latency.cell'
) -> dict[str, Any]:
    """Run `latency.cell` or `latency.profile`, and return its result.

    Raises:
        RuntimeError: it failed. The message is its last line.
        TimeoutExpired: it took longer than `longest` seconds.
    """
    done = subprocess.run(
        [sys.executable, '-m', module, json.dumps(request)],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=longest,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f'exit status {done.returncode}']
        raise RuntimeError(lines[-1])
    return json.loads(done.stdout.strip().splitlines()[-1])


def write_page(args: Namespace) -> None:
    """Write the page of the measured rows.

    Raises:
        ValueError: there are none.
    """
    rows = read_rows(args.table)
    if not rows:
        raise ValueError(
            f'--table: expected measured rows, got none in {args.table}. Measure them.'
        )
    with atomic_write(args.table.with_suffix('.md')) as partial:
        profiles = read_rows(args.table.with_name(PROFILE))
        partial.write_text(render(rows, profiles), encoding='utf-8')
    print(args.table.with_suffix('.md'))


ACTIONS = dict(
    prepare=prepare_files, measure=measure_missing, profile=profile_missing, page=write_page
)


@command('latency-table', __doc__, options)
def main(args: Namespace) -> None:
    ACTIONS[args.action](args)


if __name__ == '__main__':
    sys.exit(main())
