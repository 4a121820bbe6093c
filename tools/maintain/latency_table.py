"""Latency of models on this machine's CPU, in PyTorch, ONNX Runtime and OpenVINO.

    python tools/maintain/latency_table.py measure
    python tools/maintain/latency_table.py measure --models 'PVTv2-B2 linear' --sizes 1024
    python tools/maintain/latency_table.py page

`measure` adds the missing rows to `latency_cpu.csv` in docs/measurements, each from a process of
its own, so that it can be interrupted at any time. `page` writes `latency_cpu.md` beside it.
"""

import json
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any

from latency.page import render
from latency.rows import (
    HEADS,
    MODELS,
    RUNTIMES,
    SIZES,
    Cell,
    all_cells,
    cell_of,
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
LONGEST = 1800  # seconds of a row, with building and compiling
MAX_ERROR = 200  # characters


def options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add('action', choices=('measure', 'page'), help='measure the missing rows, or write the page')
    add('--models', nargs='+', choices=MODELS, default=list(MODELS), metavar='NAME')
    add('--heads', nargs='+', choices=HEADS, default=list(HEADS))
    add('--sizes', nargs='+', type=int, choices=SIZES, default=list(SIZES))
    add('--runtimes', nargs='+', choices=RUNTIMES, default=list(RUNTIMES))
    add('--threads', type=positive, default=2, metavar='N', help='CPU threads (default: 2)')
    add('--seconds', type=positive, default=5, metavar='S', help='timing of a row (default: 5)')
    add('--again', action='store_true', help='also measure the rows that failed')
    add('--table', type=Path, default=TABLE, metavar='CSV', help=f'default: {TABLE.name}')
    add('--files', type=Path, default=FILES, metavar='DIR', help='folder of the exported files')


def measure_missing(args: Namespace) -> None:
    """Measure the rows that the table lacks, and write it after each."""
    rows = {cell_of(row): row for row in read_rows(args.table)}
    wanted = all_cells(args.models, args.heads, args.sizes, args.runtimes)
    missing = []
    for cell in wanted:
        if cell not in rows or (args.again and rows[cell]['error']):
            missing.append(cell)
    for number, cell in enumerate(missing, 1):
        print_progress(f'[{number}/{len(missing)}] {" ".join(map(str, asdict(cell).values()))}')
        rows[cell] = row_of(cell, measure_one(cell, args))
        order = [known for known in all_cells() if known in rows]
        write_rows(args.table, [rows[known] for known in order])


def measure_one(cell: Cell, args: Namespace) -> dict[str, Any]:
    """Measure a row in processes of its own; an error is its result."""
    folder = args.files / f'{cell.model}, {cell.head}'.lower().replace(', ', '_').replace(' ', '-')
    request = dict(
        folder=str(folder.absolute()),
        model=cell.model,
        head=cell.head,
        cell=None,
        threads=args.threads,
        seconds=args.seconds,
    )
    try:
        run_request(request)
        return run_request(dict(request, cell=asdict(cell)))
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        print_progress(str(error))
        return dict(error=str(error)[:MAX_ERROR])


def run_request(request: dict[str, Any]) -> dict[str, Any]:
    """Run `latency.cell` and return its result.

    Raises:
        RuntimeError: it failed. The message is its last line.
        TimeoutExpired: it took longer than `LONGEST`.
    """
    done = subprocess.run(
        [sys.executable, '-m', 'latency.cell', json.dumps(request)],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f'exit status {done.returncode}']
        raise RuntimeError(lines[-1])
    return json.loads(done.stdout.strip().splitlines()[-1])


@command('latency-table', __doc__, options)
def main(args: Namespace) -> None:
    if args.action == 'measure':
        measure_missing(args)
        return
    rows = read_rows(args.table)
    if not rows:
        raise ValueError(
            f'--table: expected measured rows, got none in {args.table}. Measure them.'
        )
    with atomic_write(args.table.with_suffix('.md')) as partial:
        partial.write_text(render(rows), encoding='utf-8')
    print(args.table.with_suffix('.md'))


if __name__ == '__main__':
    sys.exit(main())
