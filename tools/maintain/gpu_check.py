"""Check and time the fused kernels on a GPU, in two calls of at most seven minutes.

    python tools/maintain/gpu_check.py --carry FOLDER   # fills a folder for a machine without network, with run.sh
    python tools/maintain/gpu_check.py --out work_dirs/gpu_check.jsonl   # repeat it until it says that all is done
    python tools/maintain/gpu_check.py --device cpu --quick   # rehearses this program; its times mean nothing

Every result is appended to the file as it comes, and a repeated call continues after the last one,
the most valuable first. Prints Markdown: operators and gradients compared with float64, three times
with the same bits, with NaN and on a second GPU; every model family in float16 and bfloat16;
training of classifiers, eager, compiled and as CUDA graphs, of the official code and of Mask R-CNN;
time and memory of the attention, compared with eager and compiled code and softmax attention.
Checks without times run in up to 16 processes, because compiling the kernels takes most of their
time.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.metadata import distribution
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
from mmflatten.ops.linear.kernels.options import ACTIVATIONS

# Sizes of --quick.
TINY = speed.Case('tiny', 1, 49, 32, 2, 'aot_eager')
SMALL = 'FLattenSwin:arch=dict(embed_dims=16,depths=(1,1,1,1),num_heads=(1,1,2,2)),img_size=64'
SMALL_TWINS = {'FLatten-Swin-T': (SMALL, f'{SMALL},attn_types=SSSS')}
ROOT = Path(__file__).resolve().parents[2]
# For --carry: what classifiers need besides PyTorch, torchvision, NumPy and Pillow.
PACKAGES = (
    'onedl-mmengine addict einops filelock platformdirs rich Pygments markdown-it-py mdurl'
    ' termcolor yapf PyYAML timm huggingface_hub safetensors httpx2 httpcore2 anyio h11 idna'
    ' truststore tqdm packaging'
).split()
Check = Callable[[], list[dict]]


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        '--device', default='cuda', help='cuda, cuda:N or cpu (default: %(default)s)'
    )
    parser.add_argument('--quick', action='store_true', help='tiny sizes, to rehearse this program')
    parser.add_argument(
        '--only', metavar='TEXT', nargs='+', default=[''], help='checks whose name contains a text'
    )
    parser.add_argument(
        '--minutes', type=float, default=6, help='start no check after that (default: %(default)s)'
    )
    parser.add_argument(
        '--official', type=Path, metavar='FOLDER', help='also time the official FLatten code there'
    )
    parser.add_argument(
        '--carry',
        type=Path,
        metavar='FOLDER',
        help=(
            'only fill a new folder with what a GPU machine '
            'with PyTorch, torchvision and the same Python needs for the classifiers'
        ),
    )
    parser.add_argument(
        '--out',
        type=Path,
        metavar='FILE',
        default=Path('work_dirs/gpu_check.jsonl'),
        help='results, a JSON object per line, also of earlier calls (default: %(default)s)',
    )
    return parser.parse_args(argv)


def correctness_checks(device: str, quick: bool) -> dict[str, Check]:
    """Return the checks without times by name; each returns rows of results."""
    plan: dict[str, Check] = {}
    sizes = correctness.SIZES[: 1 if quick else None]
    for dtype in ('fp16', 'bf16'):
        for size in sizes:
            for feature_map in ACTIVATIONS if size in correctness.SIZES[:2] else ['focused']:
                plan[f'attention {feature_map} {dtype} {size}'] = partial(
                    correctness.attention_rows, size, feature_map, dtype, device
                )
    plan['second device'] = partial(correctness.second_device_rows, device)
    for family, spec in ({'small': SMALL} if quick else correctness.FAMILIES).items():
        plan[f'family {family}'] = partial(
            correctness.family_rows, family, spec, 64 if quick else 224, device
        )
    return plan


def speed_checks(device: str, quick: bool, official: Path | None) -> dict[str, Check]:
    """Return the checks with times by name, the most valuable first."""
    rounds, side, batch, backend = (1, 64, 1, 'aot_eager') if quick else (10, 224, 128, 'inductor')
    plan: dict[str, Check] = {}

    def add(
        kind: str, models: dict[str, tuple[str, str]], settings: RunSettings, graphs: bool = False
    ) -> None:
        for name, specs in models.items():
            plan[f'{kind} {name} {settings.dtype}'] = partial(
                training.classifier_rows, name, specs, settings, rounds, graphs
            )

    twins, ours = (SMALL_TWINS, SMALL_TWINS) if quick else (training.TWINS, training.OURS)
    first = dict(list(ours.items())[:1])
    step = RunSettings(batch, (side, side), 'bf16', device, train=True)
    big = replace(step, size=(32, 96) if quick else (800, 1280), batch=1 if quick else 4)
    add('training', twins, step)
    add('compiled training', first, replace(step, compile=backend))
    add('compiled large images', dict(list(ours.items())[:2]), replace(big, compile=backend))
    add(
        'graphs, small batch',
        first,
        replace(step, batch=1 if quick else 8, compile=backend),
        graphs=True,
    )
    add('small batch', first, replace(step, batch=1 if quick else 8))
    if official is not None:
        for name, settings in {
            'official': step,
            'official, compiled': replace(step, compile=backend),
        }.items():
            plan[name] = partial(
                training.official_rows, official, first['FLatten-Swin-T'][0], settings, rounds
            )
    plan['Mask R-CNN'] = partial(
        training.detector_rows,
        training.DEMO if quick else training.DETECTOR,
        replace(big, batch=1 if quick else 2),
        rounds,
        backend,
    )
    add('large images', ours, big)
    for case in [TINY] if quick else speed.CASES:
        plan[f'speed {case.name}'] = partial(speed.attention_rows, case, device, 2 * rounds)
    add('inference', twins, replace(step, train=False))
    add('training', twins, replace(step, dtype='fp16'))
    return plan


def carry(folder: Path) -> None:
    """Copy the repository's code and installed packages of pure Python, with the commands in
    `run.sh`.
    """
    if folder.exists():
        raise ValueError(
            f'--carry: expected a new folder, got {folder}. Name another one, or delete it.'
        )
    for name in PACKAGES:
        for file in distribution(name).files or []:
            if not {'..', '__pycache__'} & set(file.parts):
                (folder / 'packages' / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file.locate(), folder / 'packages' / file)
    for part in ('mmflatten', 'tools/maintain', 'configs'):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns('__pycache__'))
    (folder / 'run.sh').write_text(
        'cd "$(dirname "$0")"  # run it twice: at most seven minutes each, and the second call'
        ' continues\nexport PYTHONPATH=$PWD:$PWD/packages TRITON_CACHE_DIR=$PWD/triton'
        ' TORCHINDUCTOR_CACHE_DIR=$PWD/inductor\ntimeout 420 python tools/maintain/gpu_check.py'
        ' --out gpu_check.jsonl "$@"\n'
    )


def read_results(path: Path, header: dict) -> dict[str, dict]:
    """Return the results of earlier calls by name of the check; failed and wrong ones are left out
    and run again.

    Raises:
        ValueError: the file is of another machine or other options.
    """
    lines = path.read_text(encoding='utf-8').splitlines() if path.exists() else []
    records = []
    for line in lines:
        with suppress(json.JSONDecodeError):  # a killed call may have written half a line
            records.append(json.loads(line))
    if records and records[0] != header:
        raise ValueError(
            f'--out: {path} is of {records[0]}, this call of {header}. Name another file.'
        )
    return {
        record['check']: record
        for record in records[1:]
        if 'rows' in record and all(row.get('ok', True) for row in record['rows'])
    }


class Recorder:
    """Results of checks, which are written to a file as soon as a check ends."""

    def __init__(self, file: TextIO, results: dict[str, dict], start: float) -> None:
        self.file, self.results, self.start = file, results, start
        self.failed: dict[str, dict] = {}

    def write(self, record: dict) -> None:
        print(json.dumps(record), file=self.file, flush=True)

    def run(self, name: str, check: Check) -> None:
        try:
            record = dict(check=name, rows=check())
            self.results[name] = record
        except Exception as error:  # the next checks run, and this one is repeated by the next call
            record = self.failed[name] = dict(
                check=name, error=f'{type(error).__name__}: {error}'[:500]
            )
        seconds = time.monotonic() - self.start
        self.write(dict(record, at=round(seconds, 1)))
        print(f'{seconds:.0f} s: {name}', file=sys.stderr, flush=True)


def run_side_by_side(
    checks: dict[str, Check], recorder: Recorder, processes: int, limit: float
) -> None:
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
    if arguments.carry is not None:
        carry(arguments.carry)
        return 0
    device, path = arguments.device, arguments.out.resolve()
    if torch.device(device).type == 'cuda' and not torch.cuda.is_available():
        raise ValueError(
            f'--device: PyTorch finds no GPU, got {device}. Try it with --device cpu --quick.'
        )
    start = time.monotonic()
    header = dict(machine=describe_machine(device), device=device, quick=arguments.quick)
    results = read_results(path, header)
    path.parent.mkdir(parents=True, exist_ok=True)
    limit = start + 60 * arguments.minutes
    plans = (
        correctness_checks(device, arguments.quick),
        speed_checks(device, arguments.quick, arguments.official),
    )
    side_by_side, alone = (
        {
            name: check
            for name, check in plan.items()
            if any(text in name for text in arguments.only)
        }
        for plan in plans
    )
    if not side_by_side and not alone:
        raise ValueError(
            f'--only: no check contains {" or ".join(arguments.only)}. There are '
            f'{", ".join(plans[0] | plans[1])}.'
        )
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
