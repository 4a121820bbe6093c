"""Compare the speed of models with a committed table of ratios, in one thread.

    python tools/maintain/speed_guard.py            # fails if a ratio is 10 % below the table
    python tools/maintain/speed_guard.py --write    # writes the ratios of this processor family

Models of the zoo are compared with timm's Swin-T. Linear models are compared with the same model
with softmax attention, too: PVT at 224 x 224, and a plain ViT at 640 x 640, where linear attention
pays. Ratios depend on the processor, so each processor family has its own rows. Times are CPU
times, which other processes hardly affect.
"""

import argparse
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from timeit import timeit

import pandas as pd
import torch

from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line, print_progress
from mmflatten.measure.speed.machine import cpuinfo, keep_freed_memory
from mmflatten.measure.speed.models import REFERENCE, ZOO, RunSettings, model_subject
from mmflatten.measure.speed.timing import Call, measure
from mmflatten.text import align

TABLE = Path(__file__).with_name('speed_ratios.csv')
TOLERANCE = 0.1
BATCH = 2
ROUNDS = 15
TRAINED = {
    'FLatten-Swin-T': ZOO['FLatten-Swin-T'],
    'Swin-T': 'FLattenSwin:arch=tiny,attn_types=SSSS',
    'PVTv2-B2': 'FLattenPVTv2:arch=b2,attn_types=SSSS',
    'Focal-T': ZOO['Focal-T'],
}
PVT = {'FLatten-PVT-T over PVT-T': ZOO['FLatten-PVT-T']}
SOFTMAX_PVT = 'FLattenPVT:arch=tiny,attn_types=SSSS'
_VIT = 'ViT:arch=small,img_size=640,out_type=featmap,with_cls_token=False'
SOFTMAX_VIT = f'{_VIT},attn_types=S'
VIT = {
    'ViT-S ReLU over softmax': f'{_VIT},attn_types=L,linear_attention=dict(type=LinearAttention)',
    'ViT-S focused over softmax': (
        f'{_VIT},attn_types=L,linear_attention=dict(type=FocusedLinearAttention)'
    ),
    'ViT-S MALA over softmax': (
        f'{_VIT},attn_types=L,linear_attention=dict(type=MagnitudeAwareLinearAttention)'
    ),
}
AT_224 = RunSettings(BATCH)
AT_640 = RunSettings(batch=1, size=(640, 640))

Ratios = dict[str, float]  # 'inference FLatten-Swin-T' -> throughput relative to a reference


def cpu_clock(call: Call, number: int) -> float:
    """CPU time of this process over all threads; with one thread, robust on a busy machine."""
    return timeit(call, timer=time.process_time, number=number) / number


def processor_family() -> str:
    """Return vendor, family and model of the processor.

    For example: 'GenuineIntel family 6 model 207'.
    """
    info = cpuinfo()
    if 'vendor_id' not in info:
        return platform.processor() or platform.machine()
    return f'{info["vendor_id"]} family {info["cpu family"]} model {info["model"]}'


def measure_ratios() -> Ratios:
    """Measure the ratio of each model in inference and in training."""
    trained = replace(AT_224, train=True)
    ratios = median_ratios(ZOO, reference=REFERENCE, settings=AT_224)
    ratios |= median_ratios(TRAINED, reference=REFERENCE, settings=trained)
    ratios |= median_ratios(PVT, reference=SOFTMAX_PVT, settings=trained)
    ratios |= median_ratios(VIT, reference=SOFTMAX_VIT, settings=AT_640, rounds=5)
    return ratios


def median_ratios(
    models: Mapping[str, str], *, reference: str, settings: RunSettings, rounds: int = ROUNDS
) -> Ratios:
    """Return the median over the rounds of each model's speed relative to the reference."""
    mode = 'training' if settings.train else 'inference'
    print_progress(f'{mode}, {settings.size[0]} pixels: {len(models)} models in {rounds} rounds')
    subjects = [model_subject(spec, settings) for spec in (reference, *models.values())]
    base, *times = measure(subjects, rounds=rounds, clock=cpu_clock)
    ratios = {}
    for name, seconds in zip(models, times):
        ratios[f'{mode} {name}'] = median(whole / own for whole, own in zip(base, seconds))
    return ratios


def read_table(family: str, path: Path = TABLE) -> Ratios:
    """Read the ratios of a processor family; empty if there are none."""
    return _rows(path).query('family == @family').set_index('what').ratio.to_dict()


def write_table(family: str, ratios: Mapping[str, float], path: Path = TABLE) -> None:
    """Replace the ratios of a processor family, and keep those of other families."""
    new = pd.DataFrame(dict(family=family, what=list(ratios), ratio=list(ratios.values())))
    rows = pd.concat([_rows(path).query('family != @family'), new])
    rows.to_csv(path, index=False, float_format='%.3f', lineterminator='\n')


def _rows(path: Path) -> pd.DataFrame:
    if not path.is_file():
        return pd.DataFrame(columns=['family', 'what', 'ratio'])
    return pd.read_csv(path)


def slower(
    measured: Mapping[str, float], table: Mapping[str, float], tolerance: float = TOLERANCE
) -> list[str]:
    """List the models of the table whose ratio is more than `tolerance` below it, or missing.

    Ratios that the table does not have yet are not compared.
    """
    failed = []
    for name, ratio in table.items():
        if name not in measured or measured[name] < (1 - tolerance) * ratio:
            failed.append(name)
    return failed


@command_line
def main(argv: Sequence[str]) -> int:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        '--write', action='store_true', help='write the table instead of comparing with it'
    )
    arguments = parser.parse_args(argv)
    family = processor_family()
    table = read_table(family)
    if not arguments.write and not table:
        raise ValueError(
            f'{TABLE.name}: no ratios for this processor family, got {family}. Write them at a'
            ' commit that is fast enough: python tools/maintain/speed_guard.py --write'
        )
    torch.set_num_threads(1)
    keep_freed_memory()
    ratios = measure_ratios()
    failed = [] if arguments.write else slower(ratios, table)
    cells = []
    for name in table | ratios:
        now = f'{ratios[name]:.3f}' if name in ratios else '-'
        before = f'{table[name]:.3f}' if name in table else '-'
        verdict = 'FAILED' if name in failed else ''
        if name not in table:
            verdict = 'not in the table yet'
        cells.append((name, now, before, verdict))
    header = ('speed relative to the reference', 'now', 'table', '')
    print(f'{family}\n\n{align(cells, header, {0, 3})}')
    if arguments.write:
        write_table(family, ratios)
        print(f'\nwritten to {TABLE}')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
