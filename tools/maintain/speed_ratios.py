"""A guard against models that become slower: their ratios to timm's Swin-T against those of a committed table.

Ratios hold for a family of processors, so a family has rows of its own. All is measured by CPU time in one thread,
which other processes disturb little.
"""
from __future__ import annotations

import csv
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

from mmflatten.measure.speed.machine import cpuinfo
from mmflatten.measure.speed.models import REFERENCE, ZOO, RunSettings, model_subject
from mmflatten.measure.speed.timing import cpu_clock, measure

TABLE = Path(__file__).with_name('speed_ratios.csv')
TOLERANCE = 0.1
BATCH = 2
TRAINED = {
    'FLatten-Swin-T': ZOO['FLatten-Swin-T'],
    'Swin-T': 'FLattenSwin:arch=tiny,attn_types=SSSS',
    'PVTv2-B2': 'FLattenPVTv2:arch=b2,attn_types=SSSS',
    'Focal-T': ZOO['Focal-T'],
}

Ratios = dict[str, float]  # 'inference FLatten-Swin-T' -> throughput relative to timm's Swin-T


def processor_family() -> str:
    """Vendor, family and model of the processor, such as 'GenuineIntel family 6 model 207'."""
    info = cpuinfo()
    if 'vendor_id' not in info:
        return platform.processor() or platform.machine()
    return f'{info["vendor_id"]} family {info["cpu family"]} model {info["model"]}'


def measure_ratios(rounds: int, say: Callable[[str], None]) -> Ratios:
    """The ratio of each guarded model, the median over the rounds."""
    ratios = {}
    for train, models in ((False, ZOO), (True, TRAINED)):
        mode = 'training' if train else 'inference'
        say(f'{mode}: {len(models)} models in {rounds} rounds')
        settings = RunSettings(BATCH, train=train)
        subjects = [model_subject(spec, settings) for spec in (REFERENCE, *models.values())]
        reference, *times = measure(subjects, rounds=rounds, clock=cpu_clock)
        for name, seconds in zip(models, times):
            ratios[f'{mode} {name}'] = median(ours / own for ours, own in zip(reference, seconds))
    return ratios


def read_table(family: str, path: Path = TABLE) -> Ratios:
    """The ratios of a family of processors; empty if it has none."""
    return {row['what']: float(row['ratio']) for row in _rows(path) if row['family'] == family}


def write_table(family: str, ratios: Mapping[str, float], path: Path = TABLE) -> None:
    """Put a family's ratios in the place of its old ones; other families keep theirs."""
    rows = [row for row in _rows(path) if row['family'] != family]
    rows += [dict(family=family, what=what, ratio=f'{ratio:.3f}') for what, ratio in ratios.items()]
    with path.open('w', newline='', encoding='utf-8') as file:
        writer = csv.DictWriter(file, ('family', 'what', 'ratio'), lineterminator='\n')
        writer.writeheader()
        writer.writerows(rows)


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(newline='', encoding='utf-8') as file:
        return list(csv.DictReader(file))


def slower(measured: Mapping[str, float], table: Mapping[str, float], tolerance: float = TOLERANCE) -> list[str]:
    """What has lost more than a share `tolerance` of its ratio in the table, or is missing on one of both sides."""
    return [what for what in {**table, **measured}
            if what not in table or what not in measured or measured[what] < (1 - tolerance) * table[what]]
