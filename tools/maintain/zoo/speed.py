"""Images per second of the configs, from the tables of the machines in `docs/measurements`.

A new table of a machine is an entry of `TABLES`.
"""

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path, PurePosixPath

from zoo.records import ZooEntry

from mmflatten.text import align

FOLDER = 'docs/measurements'
FILE = f'{FOLDER}/config_speed.csv'
# Name of a model in the tables -> config with its architecture.
CONFIGS = {
    'FLatten-Swin-T': 'configs/flatten_swin/flatten-swin-t_8xb128_in1k.py',
    'FLatten-PVT-T': 'configs/flatten_pvt/flatten-pvt-t_8xb128_in1k.py',
    'FLatten-PVTv2-B2': 'configs/flatten_pvt_v2/flatten-pvtv2-b2_8xb128_in1k.py',
    'FLatten-CSwin-T': 'configs/flatten_cswin/flatten-cswin-t_8xb256_in1k.py',
    'L2ViT-T': 'configs/l2vit/l2vit-t_32xb128_in1k.py',
    'Focal-T': 'configs/focal/focal-t_8xb128_in1k.py',
    'DeiT-T': 'configs/flatten_deit/deit-t_8xb128_in1k.py',
    'FLatten-DeiT-T': 'configs/flatten_deit/flatten-deit-t_8xb128_in1k.py',
}

PAGE = """\
# Speed of the configs

Images of 224 x 224 per second, beside the accuracy that the papers print. This project has not
trained these models on ImageNet. Compare speeds within a column: machines, batch sizes and
precisions differ. [config_speed.csv](../measurements/config_speed.csv) has the rows with device and
PyTorch.

{settings}

{table}

Configs that are not listed were not measured. `mmflatten benchmark CONFIG` measures one, and the
pages of the machines describe the runs. This page is generated from their tables by
`python tools/maintain/reproduce_tables.py --pages`.
"""


@dataclass(frozen=True)
class Table:
    """A table of a machine's page. Tables of CPUs have milliseconds per call, those of GPUs images
    per second and the call.
    """

    name: str
    device: str
    torch: str
    precision: str
    batch: int

    @property
    def page(self) -> str:
        return self.name.partition('_')[0]


TABLES = (
    Table('epyc_models', 'AMD EPYC, 2 cores', '2.12.1', 'float32', batch=8),
    Table('xeon_models', 'Intel Xeon, 2 cores', '2.12.1', 'float32', batch=8),
    Table('h200_models', 'NVIDIA H200', '2.11.0', 'bfloat16', batch=128),
)


@dataclass(frozen=True)
class Speed:
    """Speed of a config at 224 x 224."""

    config: str
    device: str
    torch: str
    call: str
    precision: str
    batch: int
    images_per_s: str


def measured_speeds(root: Path) -> Iterator[Speed]:
    """Read the tables of the machines."""
    for table in TABLES:
        text = (root / FOLDER / f'{table.name}.csv').read_text(encoding='utf-8')
        for row in csv.DictReader(StringIO(text)):
            call, size, images = _call(row, table)
            if row['model'] in CONFIGS and size == f'{table.batch} x 224 x 224':
                yield Speed(
                    config=CONFIGS[row['model']],
                    device=table.device,
                    torch=table.torch,
                    call=call,
                    precision=table.precision,
                    batch=table.batch,
                    images_per_s=images,
                )


def _call(row: Mapping[str, str], table: Table) -> tuple[str, str, str]:
    """Return the call, the size of its images, and images per second."""
    if 'ms' in row:
        images = f'{1000 * table.batch / float(row["ms"]):.3g}'
        return 'inference', f'{table.batch} x 224 x 224', images
    call, _, size = row['call'].partition(', ')
    return call, size, row['kernels_images_per_s']


def to_csv(speeds: Iterable[Speed]) -> str:
    """Return the text of `config_speed.csv`."""
    text = StringIO()
    writer = csv.DictWriter(text, Speed.__dataclass_fields__, lineterminator='\n')
    writer.writeheader()
    writer.writerows(asdict(speed) for speed in speeds)
    return text.getvalue()


def render_speed(speeds: Iterable[Speed], entries: Iterable[ZooEntry]) -> str:
    """Render the page with images per second beside the papers' accuracy."""
    speeds = list(speeds)
    settings = [f'- {_setting(table)}' for table in TABLES]
    return PAGE.format(settings='\n'.join(settings), table=_table(speeds, entries))


def _setting(table: Table) -> str:
    return (
        f'[{table.device}](../measurements/{table.page}.md): batch {table.batch},'
        f' {table.precision}, PyTorch {table.torch}'
    )


def _table(speeds: Iterable[Speed], entries: Iterable[ZooEntry]) -> str:
    accuracies = _accuracies(entries)
    cells: defaultdict[str, dict[str, str]] = defaultdict(dict)
    columns: dict[str, None] = {}  # distinct, in the order of the tables
    for speed in speeds:
        column = f'{speed.device}, {speed.call}'
        columns[column] = None
        cells[speed.config][column] = speed.images_per_s
    rows = []
    for config, measured in cells.items():
        link = f'[{PurePosixPath(config).stem}](../../{config})'
        values = [measured.get(column, '-') for column in columns]
        rows.append([link, accuracies.get(config, '-'), *values])
    return align(rows, ['config', "paper's top-1 (%)", *columns], {0}, markdown=True)


def _accuracies(entries: Iterable[ZooEntry]) -> dict[str, str]:
    """Return the first top-1 accuracy that a paper prints for a config."""
    found: dict[str, str] = {}
    for entry in entries:
        cells = entry.row.cells
        if cells['top1']:
            found.setdefault(cells['config'], cells['top1'])
    return found
