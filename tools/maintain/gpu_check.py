"""Check and time the fused kernels on a GPU, in two calls of at most seven minutes.

    python tools/maintain/gpu_check.py --carry FOLDER  # fill a folder for a machine without network
    python tools/maintain/gpu_check.py --out work_dirs/gpu_check.jsonl  # repeat until all is done
    python tools/maintain/gpu_check.py --device cpu --quick  # rehearsal; its times mean nothing

Every result is appended to the file at once, and a repeated call continues after the last one. The
most valuable checks run first. Prints Markdown tables of

- operators and gradients compared with float64, repeated for equal bits, with NaN, on a second GPU;
- every model family in float16 and bfloat16;
- training of classifiers (eager, compiled, as CUDA graphs), of the official code and of Mask R-CNN;
- time and memory of the attention beside eager code, compiled code and softmax attention.

Checks without times run in up to 16 processes, because most of their time is compilation.
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
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import distribution
from itertools import chain, islice, product
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


@dataclass(frozen=True)
class Sizes:
    """Models, images and batches of the checks with times."""

    rounds: int
    backend: str  # of `torch.compile`
    image: tuple[int, int]
    large_image: tuple[int, int]
    batch: int
    small_batch: int
    large_batch: int  # of large images
    twins: dict[str, tuple[str, str]]
    models: dict[str, tuple[str, str]]
    cases: Sequence[speed.Case]
    detector: str
    detector_batch: int


FULL = Sizes(
    rounds=10,
    backend='inductor',
    image=(224, 224),
    large_image=(800, 1280),
    batch=128,
    small_batch=8,
    large_batch=4,
    twins=training.TWINS,
    models=training.OURS,
    cases=speed.CASES,
    detector=training.DETECTOR,
    detector_batch=2,
)
SMALL = 'FLattenSwin:arch=dict(embed_dims=16,depths=(1,1,1,1),num_heads=(1,1,2,2)),img_size=64'
SMALL_TWINS = {'FLatten-Swin-T': (SMALL, f'{SMALL},attn_types=SSSS')}
QUICK = Sizes(
    rounds=1,
    backend='aot_eager',
    image=(64, 64),
    large_image=(32, 96),
    batch=1,
    small_batch=1,
    large_batch=1,
    twins=SMALL_TWINS,
    models=SMALL_TWINS,
    cases=[speed.Case('tiny', B=1, N=49, C=32, h=2, compiler='aot_eager')],
    detector=training.DEMO,
    detector_batch=1,
)
ROOT = Path(__file__).resolve().parents[2]
# For --carry: what classifiers need besides PyTorch, torchvision, NumPy and Pillow.
PACKAGES = (
    'onedl-mmengine addict einops filelock platformdirs rich Pygments markdown-it-py mdurl'
    ' termcolor yapf PyYAML timm huggingface_hub safetensors httpx2 httpcore2 anyio h11 idna'
    ' truststore tqdm packaging'
).split()
RUN = """\
# Run it twice: at most seven minutes each, and the second call continues.
cd "$(dirname "$0")"
export PYTHONPATH=$PWD:$PWD/packages
export TRITON_CACHE_DIR=$PWD/triton TORCHINDUCTOR_CACHE_DIR=$PWD/inductor
timeout 420 python tools/maintain/gpu_check.py --out gpu_check.jsonl "$@"
"""
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
    sizes = correctness.SIZES[:1] if quick else correctness.SIZES
    families, side = ({'small': SMALL}, 64) if quick else (correctness.FAMILIES, 224)
    plan: dict[str, Check] = {}
    for dtype, size in product(('fp16', 'bf16'), sizes):
        # The first sizes are those of all feature maps.
        feature_maps = ACTIVATIONS if size in correctness.SIZES[:2] else ['focused']
        for feature_map in feature_maps:
            plan[f'attention {feature_map} {dtype} {size}'] = partial(
                correctness.attention_rows, size, feature_map, dtype=dtype, device=device
            )
    plan['second device'] = partial(correctness.second_device_rows, device)
    for family, spec in families.items():
        plan[f'family {family}'] = partial(
            correctness.family_rows, family, spec, side=side, device=device
        )
    return plan


def speed_checks(device: str, quick: bool, official: Path | None) -> dict[str, Check]:
    """Return the checks with times by name, the most valuable first."""
    sizes = QUICK if quick else FULL
    rounds = sizes.rounds
    plan: dict[str, Check] = {}

    def add(
        kind: str, models: dict[str, tuple[str, str]], settings: RunSettings, graphs: bool = False
    ) -> None:
        for name, specs in models.items():
            plan[f'{kind} {name} {settings.dtype}'] = partial(
                training.classifier_rows, name, specs, settings, rounds=rounds, graphs=graphs
            )

    step = RunSettings(sizes.batch, sizes.image, dtype='bf16', device=device, train=True)
    compiled = replace(step, compile=sizes.backend)
    small = replace(step, batch=sizes.small_batch)
    large = replace(step, size=sizes.large_image, batch=sizes.large_batch)
    first = dict(islice(sizes.models.items(), 1))
    first_two = dict(islice(sizes.models.items(), 2))

    # The order is that of the value of the results, because a call may end before all are done.
    add('training', sizes.twins, step)
    add('compiled training', first, compiled)
    add('compiled large images', first_two, replace(large, compile=sizes.backend))
    add('graphs, small batch', first, replace(small, compile=sizes.backend), graphs=True)
    add('small batch', first, small)
    if official is not None:
        spec = first['FLatten-Swin-T'][0]
        for name, settings in (('official', step), ('official, compiled', compiled)):
            plan[name] = partial(training.official_rows, official, spec, settings, rounds)
    plan['Mask R-CNN'] = partial(
        training.detector_rows,
        sizes.detector,
        replace(large, batch=sizes.detector_batch),
        rounds=rounds,
        backend=sizes.backend,
    )
    add('large images', sizes.models, large)
    for case in sizes.cases:
        plan[f'speed {case.name}'] = partial(speed.attention_rows, case, device, 2 * rounds)
    add('inference', sizes.twins, replace(step, train=False))
    add('training', sizes.twins, replace(step, dtype='fp16'))
    return plan


def carry(folder: Path) -> None:
    """Copy the repository's code and the installed packages, and write `run.sh`."""
    if folder.exists():
        raise ValueError(
            f'--carry: expected a new folder, got {folder}. Name another one, or delete it.'
        )
    packages = folder / 'packages'
    for file in chain.from_iterable(distribution(name).files or [] for name in PACKAGES):
        if not {'..', '__pycache__'} & set(file.parts):
            (packages / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file.locate(), packages / file)
    for part in ('mmflatten', 'tools/maintain', 'configs'):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns('__pycache__'))
    (folder / 'run.sh').write_text(RUN)


def read_results(path: Path, header: dict) -> dict[str, dict]:
    """Return the results of earlier calls by name of the check.

    Failed and wrong ones are left out, so that they are repeated.

    Raises:
        ValueError: the file is of another machine or other options.
    """
    if not path.exists():
        return {}
    records = []
    for line in path.read_text(encoding='utf-8').splitlines():
        with suppress(json.JSONDecodeError):  # a killed call may have written half a line
            records.append(json.loads(line))
    if records and records[0] != header:
        raise ValueError(
            f'--out: {path} is of {records[0]}, this call of {header}. Name another file.'
        )
    return {record['check']: record for record in records[1:] if _is_right(record)}


def _is_right(record: dict) -> bool:
    return 'rows' in record and all(row.get('ok', True) for row in record['rows'])


class Recorder:
    """Results of checks, which are written to a file as soon as a check ends.

    Attributes:
        results, failed: records by name of the check.
        start: time of the start of the call, of `time.monotonic`.
    """

    def __init__(self, file: TextIO, results: dict[str, dict], start: float) -> None:
        self.file = file
        self.results = results
        self.start = start
        self.failed: dict[str, dict] = {}

    def write(self, record: dict) -> None:
        print(json.dumps(record), file=self.file, flush=True)

    def run(self, name: str, check: Check) -> None:
        try:
            record = dict(check=name, rows=check())
            self.results[name] = record
        except Exception as error:  # the next checks run, and this one is repeated by the next call
            record = dict(check=name, error=f'{type(error).__name__}: {error}'[:500])
            self.failed[name] = record
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
    device = arguments.device
    if torch.device(device).type == 'cuda' and not torch.cuda.is_available():
        raise ValueError(
            f'--device: PyTorch finds no GPU, got {device}. Try it with --device cpu --quick.'
        )
    start = time.monotonic()
    header = dict(machine=describe_machine(device), device=device, quick=arguments.quick)
    results = read_results(arguments.out, header)
    all_side_by_side = correctness_checks(device, arguments.quick)
    all_alone = speed_checks(device, arguments.quick, arguments.official)
    side_by_side = _selected(all_side_by_side, arguments.only)
    alone = _selected(all_alone, arguments.only)
    if not side_by_side and not alone:
        raise ValueError(
            f'--only: no check contains {" or ".join(arguments.only)}. There are '
            f'{", ".join(all_side_by_side | all_alone)}.'
        )
    recorder = _run(arguments, header, results, start=start, plans=(side_by_side, alone))
    done = results.keys() | recorder.failed.keys()
    missing = [name for name in side_by_side | alone if name not in done]
    bandwidth = speed.copy_bandwidth(device, arguments.quick)
    print(sheet(header, results, failed=recorder.failed, missing=missing, bandwidth=bandwidth))
    right = all(map(_is_right, results.values()))
    return 0 if right and not missing and not recorder.failed else 1


def _selected(plan: dict[str, Check], texts: Sequence[str]) -> dict[str, Check]:
    """Return the checks whose name contains one of the texts."""
    selected = {}
    for name, check in plan.items():
        if any(text in name for text in texts):
            selected[name] = check
    return selected


def _run(
    arguments: argparse.Namespace,
    header: dict,
    results: dict[str, dict],
    *,
    start: float,
    plans: tuple[dict[str, Check], dict[str, Check]],
) -> Recorder:
    """Run the checks without a result until the time is over, and add their results."""
    side_by_side, alone = plans
    path = arguments.out.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    limit = start + 60 * arguments.minutes
    with path.open('a', encoding='utf-8') as file:
        recorder = Recorder(file, results, start)
        if file.tell() == 0:
            recorder.write(header)
        elif not path.read_text(encoding='utf-8').endswith('\n'):  # of a killed call
            file.write('\n')
        wanted = {name: check for name, check in side_by_side.items() if name not in results}
        if wanted and time.monotonic() < limit:
            processes = 1 if arguments.quick else min(16, os.cpu_count() or 1)
            run_side_by_side(wanted, recorder, processes=processes, limit=limit)
        for name, check in alone.items():
            if name not in results and time.monotonic() < limit:
                recorder.run(name, check)
    return recorder


if __name__ == '__main__':
    sys.exit(main())
