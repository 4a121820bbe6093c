"""Check and time the fused kernels on a GPU, in calls of at most ten minutes.

    python tools/maintain/gpu_check.py --out work_dirs/gpu_check.jsonl   # repeat it until it says that all is done
    python tools/maintain/gpu_check.py --device cpu --quick   # rehearses this program; its times mean nothing

Every result is appended to the file as it comes, and a repeated call continues after the last one. Prints Markdown:
operators and gradients compared with float64, three times with the same bits, with NaN and on a second GPU; every model
family in float16 and bfloat16; time and memory of the attention, compared with eager and compiled code, softmax
attention and flash_bla (if installed); training of classifiers, of Mask R-CNN and of the demo. Checks without times run
in up to 16 processes, because compiling the kernels takes most of their time.
"""
import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TextIO

import torch
from gpu_sheet import correctness, speed, training
from gpu_sheet.sheet import sheet

from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line
from mmflatten.measure.speed.machine import describe_machine
from mmflatten.measure.speed.models import RunSettings
from mmflatten.ops.kernels.options import ACTIVATIONS

# Sizes of --quick.
TINY = speed.Case('tiny', 1, 49, 32, 2, 'aot_eager')
SMALL = 'FLattenSwin:arch=dict(embed_dims=16,depths=(1,1,1,1),num_heads=(1,1,2,2)),img_size=64'
SMALL_TWINS = {'small': (SMALL, f'{SMALL},attn_types=SSSS')}
Check = Callable[[], list[dict]]


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--device', default='cuda', help='cuda, cuda:N or cpu (default: %(default)s)')
    parser.add_argument('--quick', action='store_true', help='tiny sizes, to rehearse this program')
    parser.add_argument('--only', metavar='TEXT', nargs='+', default=[''], help='checks whose name contains a text')
    parser.add_argument('--minutes', type=float, default=9,
                        help='start no check after this time, and end the demo half a minute later '
                             '(default: %(default)s)')
    parser.add_argument('--out', type=Path, metavar='FILE', default=Path('work_dirs/gpu_check.jsonl'),
                        help='results, a JSON object per line, also of earlier calls (default: %(default)s)')
    return parser.parse_args(argv)


def correctness_checks(device: str, quick: bool) -> dict[str, Check]:
    """Return the checks without times by name; each returns rows of results."""
    plan: dict[str, Check] = {}
    sizes = correctness.SIZES[:1 if quick else None]
    for dtype in ('fp16', 'bf16'):
        for size in sizes:
            for feature_map in ACTIVATIONS if size in correctness.SIZES[:2] else ['focused']:
                plan[f'attention {feature_map} {dtype} {size}'] = partial(
                    correctness.attention_rows, size, feature_map, dtype, device)
    plan['second device'] = partial(correctness.second_device_rows, device)
    for family, spec in ({'small': SMALL} if quick else correctness.FAMILIES).items():
        plan[f'family {family}'] = partial(correctness.family_rows, family, spec, 64 if quick else 224, device)
    return plan


def speed_checks(device: str, quick: bool, folder: Path, end: float) -> dict[str, Check]:
    """Return the checks with times by name, in order. The demo stops at `end`."""
    rounds, side, batch = (1, 64, 1) if quick else (10, 224, 128)
    plan: dict[str, Check] = {f'speed {case.name}': partial(speed.attention_rows, case, device, 2 * rounds)
                              for case in ([TINY] if quick else speed.CASES)}

    def add(kind: str, models: dict[str, tuple[str, str]], settings: RunSettings) -> None:
        for name, specs in models.items():
            plan[f'{kind} {name} {settings.dtype}'] = partial(training.classifier_rows, name, specs, settings, rounds)

    twins, large = (SMALL_TWINS, SMALL_TWINS) if quick else (training.TWINS, training.LARGE)
    step = RunSettings(batch, (side, side), 'bf16', device, train=True)
    add('training', twins, step)
    add('inference', twins, replace(step, train=False))
    big = replace(step, size=(32, 96) if quick else (800, 1280), batch=1 if quick else 4)
    add('large images', large, big)
    detector = training.DEMO.stem if quick else training.DETECTOR
    plan['Mask R-CNN'] = partial(training.detector_rows, detector, replace(big, batch=1 if quick else 2), rounds)
    plan['demo'] = partial(training.demo_rows, device, quick, folder, end)
    backend = 'aot_eager' if quick else 'inductor'
    add('compiled training', twins, replace(step, compile=backend))
    add('training', twins, replace(step, dtype='fp16'))
    add('compiled training', twins, replace(step, dtype='fp16', compile=backend))
    return plan


def read_results(path: Path, header: dict) -> dict[str, dict]:
    """Return the results of earlier calls by name of the check; failed and wrong ones are left out and run again.

    Raises:
        ValueError: the file is of another machine or other options.
    """
    lines = path.read_text(encoding='utf-8').splitlines() if path.exists() else []
    records = []
    for line in lines:
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:  # a killed call may have written half a line
            continue
    if records and records[0] != header:
        raise ValueError(f'--out: {path} is of {records[0]}, this call of {header}. Name another file.')
    return {record['check']: record for record in records[1:]
            if 'rows' in record and all(row.get('ok', True) for row in record['rows'])}


class Recorder:
    """Results of checks, which are written to a file as soon as a check ends."""

    def __init__(self, file: TextIO, results: dict[str, dict], start: float) -> None:
        self.file, self.results, self.start = file, results, start
        self.failed: dict[str, dict] = {}

    def write(self, record: dict) -> None:
        self.file.write(json.dumps(record) + '\n')
        self.file.flush()

    def run(self, name: str, check: Check) -> None:
        try:
            record = dict(check=name, rows=check())
            self.results[name] = record
        except Exception as error:  # the next checks run, and this one is repeated by the next call
            record = self.failed[name] = dict(check=name, error=f'{type(error).__name__}: {error}'[:500])
        seconds = time.monotonic() - self.start
        self.write(dict(record, at=round(seconds, 1)))
        print(f'{seconds:.0f} s: {name}', file=sys.stderr, flush=True)


def run_side_by_side(checks: dict[str, Check], recorder: Recorder, processes: int, limit: float) -> None:
    """Run checks in processes until the time `limit`. The next call runs the others."""
    pool = ProcessPoolExecutor(processes, mp_context=get_context('spawn'))
    futures: dict[Future, str] = {pool.submit(check): name for name, check in checks.items()}
    try:
        for future in as_completed(futures, timeout=limit - time.monotonic()):
            recorder.run(futures[future], future.result)
    except TimeoutError:
        pass
    finally:
        pool.shutdown(cancel_futures=True)


@command_line
def main(argv: Sequence[str]) -> int:
    arguments = parse_arguments(argv)
    device, path = arguments.device, arguments.out.resolve()
    if torch.device(device).type == 'cuda' and not torch.cuda.is_available():
        raise ValueError(f'--device: PyTorch finds no GPU, got {device}. Try it with --device cpu --quick.')
    start = time.monotonic()
    header = dict(machine=describe_machine(device), device=device, quick=arguments.quick)
    results = read_results(path, json.loads(json.dumps(header)))
    path.parent.mkdir(parents=True, exist_ok=True)
    limit = start + 60 * arguments.minutes
    plans = (correctness_checks(device, arguments.quick),
             speed_checks(device, arguments.quick, path.parent, limit + 30))
    side_by_side, alone = ({name: check for name, check in plan.items() if any(text in name for text in arguments.only)}
                           for plan in plans)
    if not side_by_side and not alone:
        raise ValueError(f'--only: no check contains {" or ".join(arguments.only)}. There are '
                         f'{", ".join(plans[0] | plans[1])}.')
    with path.open('a', encoding='utf-8') as file:
        recorder = Recorder(file, results, start)
        if file.tell() == 0:
            recorder.write(header)
        elif not path.read_text(encoding='utf-8').endswith('\n'):
            file.write('\n')
        wanted = {name: check for name, check in side_by_side.items() if name not in results}
        if wanted and time.monotonic() < limit:
            processes = 1 if arguments.quick else min(16, os.cpu_count() or 1)
            run_side_by_side(wanted, recorder, processes, limit)
        for name, check in alone.items():
            if name not in results and time.monotonic() < limit:
                recorder.run(name, check)
    failed = recorder.failed
    missing = [name for name in side_by_side | alone if name not in results and name not in failed]
    print(sheet(header, results, failed, missing, speed.copy_bandwidth(device, arguments.quick)))
    rows = [row for record in results.values() for row in record['rows']]
    return 0 if not missing and not failed and all(row.get('ok', True) for row in rows) else 1


if __name__ == '__main__':
    sys.exit(main())
