"""The model zoo as records: the papers' rows beside what their configs cost here, then the configs without a row."""
from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from mmengine.config import Config

from mmflatten.analysis.zoo.costs import ConfigCost, count_beside_papers
from mmflatten.analysis.zoo.tables import PaperRow, paper_rows

# Columns of a paper's row that the CSV renames, so that nobody takes the paper's numbers for ours.
PAPERS_NUMBERS = {name: f'paper_{name}' for name in (
    'flops_input_hw', 'params_m', 'flops_g', 'top1', 'ap_box', 'ap_mask', 'miou', 'macc', 'miou_ms', 'epe')}
LABELS = ('paper', 'table', 'task', 'dataset', 'method', 'backbone', 'schedule', 'config', 'cause')
OURS = ('image', 'params', 'macs', 'flops')
COLUMNS = (*LABELS[:-1], *OURS, 'paper_flops_input_hw', 'paper_params_m', 'params_diff_percent', 'paper_flops_g',
           'flops_diff_percent', 'agrees', 'cause', *list(PAPERS_NUMBERS.values())[3:])
TASKS = {'mmpretrain': 'classification', 'mmdet': 'detection', 'mmseg': 'segmentation', 'mmflatten': 'stereo'}
DATASETS = {'ImageNet': 'imagenet1k', 'ImageNet21k': 'imagenet22k', 'mmflatten.CheckedCocoDataset': 'coco',
            'ADE20KDataset': 'ade20k'}

Say = Callable[[int, int, str], None]  # done, total, what


@dataclass(frozen=True)
class ZooEntry:
    """A row of a paper, or a config that no paper has, and what was counted, if anything."""

    row: PaperRow  # its `paper` is '' for a config of our own
    image: str = ''  # 'HxW'
    params: int | None = None
    macs: int | None = None
    flops: int | None = None  # the same operations as the row's paper counts them

    @property
    def counted(self) -> bool:
        return self.params is not None

    @property
    def agrees(self) -> bool | None:
        """Whether parameters and FLOPs are the paper's; None where nothing is counted or nothing is printed."""
        if not self.counted:
            return None
        verdicts = {self.row.params_agree(self.params), self.row.flops_agree(self.flops)} - {None}
        return all(verdicts) if verdicts else None

    def cells(self) -> dict[str, str]:
        """The entry as a row of the CSV."""
        row = self.row.cells
        return {**{name: row[name] for name in LABELS}, **{new: row[old] for old, new in PAPERS_NUMBERS.items()},
                **{name: '' if (value := getattr(self, name)) is None else str(value) for name in OURS},
                'params_diff_percent': _percent(self.params, self.row.params_m, 1e6),
                'flops_diff_percent': _percent(self.flops, self.row.flops_g, 1e9),
                'agrees': {None: '', True: 'yes', False: 'no'}[self.agrees]}

    @classmethod
    def of_cells(cls, cells: dict[str, str]) -> ZooEntry:
        """The entry of a row of the CSV."""
        row = {**{name: cells[name] for name in LABELS}, **{old: cells[new] for old, new in PAPERS_NUMBERS.items()}}
        return cls(PaperRow(row), cells['image'], *(int(cells[name]) if cells[name] else None for name in OURS[1:]))


def _percent(value: int | None, printed: float | None, unit: float) -> str:
    return '' if value is None or printed is None else f'{100 * (value / unit / printed - 1):+.2f}'


def to_csv(entries: Iterable[ZooEntry]) -> str:
    """All entries as CSV."""
    text = StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator='\n')
    writer.writeheader()
    writer.writerows(entry.cells() for entry in entries)
    return text.getvalue()


def from_csv(path: Path) -> tuple[ZooEntry, ...]:
    """The entries of a CSV that `to_csv` wrote."""
    with path.open(newline='', encoding='utf-8') as file:
        return tuple(ZooEntry.of_cells(cells) for cells in csv.DictReader(file))


def zoo_rows(root: Path) -> tuple[PaperRow, ...]:
    """Every row of the papers' tables, then one without a paper for each config below `root` that no row names."""
    named = {row.config for row in paper_rows()}
    paths = sorted(path for path in root.glob('configs/*/*.py') if path.parent.name != '_base_')
    others = []
    for path in paths:
        config = path.relative_to(root).as_posix()
        if config not in named:
            task, dataset = _task_and_dataset(path)
            empty = dict.fromkeys(paper_rows()[0].cells, '')
            others.append(PaperRow({**empty, 'task': task, 'dataset': dataset, 'config': config}))
    return (*paper_rows(), *others)


def _task_and_dataset(path: Path) -> tuple[str, str]:
    try:
        config = Config.fromfile(path)
    except Exception:  # counting it will say which
        return '', ''
    dataset = config.get('train_dataloader', {}).get('dataset', {})
    while 'dataset' in dataset:
        dataset = dataset['dataset']
    return TASKS.get(config.get('default_scope'), ''), DATASETS.get(dataset.get('type'), '')


def count_rows(rows: Sequence[PaperRow], root: Path, say: Say) -> tuple[list[ZooEntry], list[str]]:
    """Count the config of every row, each config once for each image size, and say how far it is.

    Returns:
        The entries in the order of `rows`, and a message for every config that could not be counted.
    """
    wanted = list(dict.fromkeys((row.config, row.shape) for row in rows if row.config))
    costs: dict[tuple, ConfigCost] = {}
    failures = []
    for number, (config, shape) in enumerate(wanted, 1):
        try:
            costs[config, shape] = count_beside_papers(root / config, shape)
        except Exception as error:  # one broken config, in whatever way, must not hide the others
            failures.append(str(error) if config in str(error) else f'config {config}: {error}')
        say(number, len(wanted), config if (config, shape) in costs else f'{config} failed')
    return [_entry(row, costs.get((row.config, row.shape))) for row in rows], failures


def _entry(row: PaperRow, found: ConfigCost | None) -> ZooEntry:
    if found is None:
        return ZooEntry(row)
    cost = found.cost
    return ZooEntry(row, 'x'.join(map(str, cost.shape)), cost.params, cost.counts.macs, found.papers_convention(row))
