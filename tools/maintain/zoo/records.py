"""Records of the model zoo: the papers' rows with the cost of their configs, then the configs
without a row.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path, PurePosixPath

import pandas as pd
from mmengine.config import Config
from torch import nn
from zoo.names import ACCURACIES

from mmflatten.engine.datasets import first_config
from mmflatten.measure.papers.costs import PaperCost, count_beside_papers
from mmflatten.measure.papers.tables import PaperRow, paper_rows
from mmflatten.models.attention import MapAttention, TokenMixer
from mmflatten.tasks import find_task

LABELS = ('paper', 'table', 'task', 'dataset', 'method', 'backbone', 'schedule', 'config')
RESULTS = ('top1', 'ap_box', 'ap_mask', 'miou', 'macc', 'miou_ms', 'epe')
DATASETS = {
    'ImageNet': 'imagenet1k',
    'ImageNet21k': 'imagenet22k',
    'mmflatten.CheckedCocoDataset': 'coco',
    'mmflatten.PanopticDataset': 'coco',
    'ADE20KDataset': 'ade20k',
}
FLOPS_TOLERANCE = 0.02  # relative; papers differ by this much in how they count
# From best to worst: ours rounds to the printed digits, is less than one unit of the last digit
# away, or has FLOPs within the tolerance; none of these.
AGREEMENTS = ('yes', 'unit', 'near', 'no')


@dataclass(frozen=True)
class ZooEntry(PaperCost):
    """A row of a paper, or a config without a row, with its counted cost."""

    attention: str = ''  # from `attentions_of`

    @property
    def params_agree(self) -> str:
        """Agreement of the parameters with the printed ones; '' if either is missing."""
        printed = self.row.cells['params_m']
        if not printed or not self.is_counted:
            return ''
        return _agreement(self.params / 1e6, printed)

    @property
    def flops_agree(self) -> str:
        """Agreement of the FLOPs with the printed ones; '' if either is missing."""
        printed = self.row.cells['flops_g']
        if not printed or not self.is_counted:
            return ''
        return _agreement(self.flops / 1e9, printed, FLOPS_TOLERANCE)

    @property
    def agrees(self) -> str:
        """The worse agreement of parameters and FLOPs; '' if either side has no numbers."""
        return max(self.params_agree, self.flops_agree, key=('', *AGREEMENTS).index)

    def csv_cells(self) -> dict[str, object]:
        cells = self.row.cells
        record: dict[str, object] = {name: cells[name] for name in LABELS}
        record |= {
            'attention': self.attention,
            'image': self.image,
            'params': self.params,
            'macs': self.macs,
            'flops': self.flops,
            'paper_flops_input_hw': cells['flops_input_hw'],
            'paper_params_m': cells['params_m'],
            'params_diff_percent': _percent(self.params, cells['params_m'], 1e6),
            'paper_flops_g': cells['flops_g'],
            'flops_diff_percent': _percent(self.flops, cells['flops_g'], 1e9),
            'agrees': self.agrees,
            'cause': cells['cause'],
        }
        for name in RESULTS:
            record[f'paper_{name}'] = cells[name]
        return record


def _agreement(value: float, printed: str, tolerance: float = 0.0) -> str:
    """Return the first of `AGREEMENTS` that holds; `tolerance` is relative."""
    unit = 10 ** -len(printed.partition('.')[2])
    distance = abs(value - float(printed))
    if distance <= unit / 2:
        return 'yes'
    if distance < unit:
        return 'unit'
    return 'near' if distance <= tolerance * float(printed) else 'no'


def _percent(value: int | None, printed: str, unit: float) -> str:
    if value is None or not printed:
        return ''
    return f'{100 * (value / unit / float(printed) - 1):+.2f}'


def to_csv(entries: Iterable[ZooEntry]) -> str:
    rows = pd.DataFrame([entry.csv_cells() for entry in entries], dtype=object)
    return rows.to_csv(index=False, lineterminator='\n')


def from_csv(text: str) -> list[ZooEntry]:
    """Read the entries that `to_csv` wrote."""
    names = list(paper_rows()[0].cells)
    entries = []
    for cells in csv.DictReader(StringIO(text)):
        row = PaperRow({name: cells.get(f'paper_{name}', cells.get(name)) for name in names})
        entries.append(
            ZooEntry(
                row,
                cells['image'],
                params=_count(cells['params']),
                macs=_count(cells['macs']),
                flops=_count(cells['flops']),
                attention=cells['attention'],
            )
        )
    return entries


def _count(cell: str) -> int | None:
    return int(cell) if cell else None


def printed_accuracies(entries: Iterable[ZooEntry]) -> list[str]:
    """Return the columns of `ACCURACIES` that have a result in any of the entries."""
    printed = set()
    for entry in entries:
        printed.update(name for name in ACCURACIES if entry.row.cells[name])
    return [name for name in ACCURACIES if name in printed]


def by_config(entries: Iterable[ZooEntry]) -> list[tuple[str, list[ZooEntry]]]:
    """Group entries by their config, in alphabetical order."""
    return _grouped(entries, lambda entry: entry.row.config)


def by_folder(entries: Iterable[ZooEntry]) -> list[tuple[str, list[ZooEntry]]]:
    """Group entries by the folder of their config; both are in alphabetical order."""
    in_order = sorted(entries, key=lambda entry: entry.row.config)
    return _grouped(in_order, lambda entry: str(PurePosixPath(entry.row.config).parent))


def _grouped(
    entries: Iterable[ZooEntry], key: Callable[[ZooEntry], str]
) -> list[tuple[str, list[ZooEntry]]]:
    groups: defaultdict[str, list[ZooEntry]] = defaultdict(list)
    for entry in entries:
        groups[key(entry)].append(entry)
    return sorted(groups.items())


def written_by_hand(name: str) -> list[dict[str, str]]:
    """Read a table of this folder.

    `printed_rows` has the number of `results` in each `table` of each `paper`, with an optional
    `note`; `without_config` has the results without a row: `paper`, `table`, `task`, `model`, and
    the `reason` why there is no config.
    """
    with Path(__file__).with_name(f'{name}.csv').open(newline='', encoding='utf-8') as file:
        return list(csv.DictReader(file))


def zoo_rows(root: Path) -> list[PaperRow]:
    """Return every row of the papers' tables, then an empty row for each other config."""
    rows = [*paper_rows()]
    in_papers = {row.config for row in rows}
    for path in sorted(root.glob('configs/*/*.py')):
        config = path.relative_to(root).as_posix()
        if path.parent.name != '_base_' and config not in in_papers:
            rows.append(_row_without_paper(config, path))
    return rows


def _row_without_paper(config: str, path: Path) -> PaperRow:
    try:
        content = Config.fromfile(path)
    except Exception:  # reported when the config is counted
        return PaperRow.of(config=config)
    dataset = first_config(content.get('train_dataloader', {}).get('dataset', {}))
    return PaperRow.of(
        config=config,
        task=getattr(find_task(content.get('default_scope'), content.get('model')), 'name', ''),
        dataset=DATASETS.get(dataset.get('type'), ''),
    )


def attentions_of(model: nn.Module) -> str:
    """List the distinct attention classes, such as 'FocusedLinear, Softmax'.

    The suffix `Attention` is omitted.
    """
    names = [
        type(module).__name__.removesuffix('Attention')
        for module in model.modules()
        if isinstance(module, TokenMixer | MapAttention)
    ]
    return ', '.join(dict.fromkeys(names))


def count_rows(
    rows: Sequence[PaperRow], root: Path, report: Callable[[int, int, str], None]
) -> tuple[list[ZooEntry], list[str]]:
    """Count the config of every row, each config once per image size.

    Args:
        report: called after each config with the number done, the total and the config.

    Returns:
        The entries in the order of `rows`, and a message for every config that could not be
        counted.
    """
    tasks = list(dict.fromkeys((row.config, row.shape) for row in rows if row.config))
    costs: dict[tuple, tuple] = {}
    failures = []
    for done, (config, shape) in enumerate(tasks, 1):
        try:
            cost = count_beside_papers(root / config, shape)
            costs[config, shape] = cost, attentions_of(cost.model)
        except Exception as error:  # a broken config must not stop the others
            failures.append(str(error) if config in str(error) else f'config {config}: {error}')
        report(done, len(tasks), config if (config, shape) in costs else f'{config} failed')
    entries = []
    for row in rows:
        cost, attention = costs.get((row.config, row.shape), (None, ''))
        entries.append(ZooEntry.of(row, cost, attention))
    return entries, failures
