"""The model zoo as records: the papers' rows beside what their configs cost here, then the configs without a row."""
from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from mmengine.config import Config

from mmflatten.measure.flops.model_cost import ModelCost, count_config
from mmflatten.measure.papers.attentions import attentions_of
from mmflatten.measure.papers.tables import PaperRow, difference, paper_rows, rows_of_config
from mmflatten.tasks import find_task
from mmflatten.text_table import giga

LABELS = ('paper', 'table', 'task', 'dataset', 'method', 'backbone', 'schedule', 'config', 'cause')
PRINTED = ('flops_input_hw', 'params_m', 'flops_g', 'top1', 'ap_box', 'ap_mask', 'miou', 'macc', 'miou_ms', 'epe')
COLUMNS = ('paper', 'table', 'task', 'dataset', 'method', 'backbone', 'schedule', 'config', 'attention', 'image',
           'params', 'macs', 'flops', 'paper_flops_input_hw', 'paper_params_m', 'params_diff_percent', 'paper_flops_g',
           'flops_diff_percent', 'agrees', 'cause', 'paper_top1', 'paper_ap_box', 'paper_ap_mask', 'paper_miou',
           'paper_macc', 'paper_miou_ms', 'paper_epe')
DATASETS = {'ImageNet': 'imagenet1k', 'ImageNet21k': 'imagenet22k', 'mmflatten.CheckedCocoDataset': 'coco',
            'ADE20KDataset': 'ade20k'}


@dataclass(frozen=True)
class ZooEntry:
    """A row of a paper, or a config that no paper has, and what was counted, if anything."""

    row: PaperRow
    image: str = ''  # 'HxW'
    params: int | None = None
    macs: int | None = None
    flops: int | None = None  # the same operations as the row's paper counts them
    attention: str = ''  # of the config's model, as `attentions_of` names them

    @classmethod
    def of(cls, row: PaperRow, cost: ModelCost | None, attention: str = '') -> ZooEntry:
        if cost is None:
            return cls(row)
        return cls(row, 'x'.join(map(str, cost.shape)), cost.params, cost.counts.macs,
                   cost.counts.papers_convention(row.with_products), attention)

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

    def params_cells(self, decimals: int) -> tuple[str, str, str]:
        """Parameters in millions, the paper's, and the difference."""
        printed = self.row.cells['params_m']
        if not self.counted:
            return '-', printed or '-', '-'
        value = self.params / 1e6
        return f'{value:.{decimals}f}', printed or '-', difference(value, printed)

    def flops_cells(self) -> tuple[str, str, str]:
        """FLOPs in 1e9, '*' where the paper leaves out products; the paper's, if at this image size; the difference."""
        printed = self.row.cells['flops_g']
        if not self.counted:
            return '-', printed or '-', '-'
        if self.image != self.row.cells['flops_input_hw']:
            printed = ''
        star = '' if self.row.with_products else '*'
        return giga(self.flops) + star, printed or '-', difference(self.flops / 1e9, printed)

    def csv_cells(self) -> dict[str, object]:
        """The entry as a row of the CSV."""
        row = self.row.cells
        printed = {f'paper_{name}': row[name] for name in PRINTED}
        return {**{name: row[name] for name in LABELS}, **printed,
                'attention': self.attention, 'image': self.image,
                'params': self.params, 'macs': self.macs, 'flops': self.flops,
                'params_diff_percent': _percent(self.params, row['params_m'], 1e6),
                'flops_diff_percent': _percent(self.flops, row['flops_g'], 1e9),
                'agrees': {None: '', True: 'yes', False: 'no'}[self.agrees]}


def _percent(value: int | None, printed: str, unit: float) -> str:
    return '' if value is None or not printed else f'{100 * (value / unit / float(printed) - 1):+.2f}'


def to_csv(entries: Iterable[ZooEntry]) -> str:
    """All entries as CSV."""
    text = StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator='\n')
    writer.writeheader()
    writer.writerows(entry.csv_cells() for entry in entries)
    return text.getvalue()


def zoo_rows(root: Path) -> list[PaperRow]:
    """Every row of the papers' tables, then one without a paper for each config below `root` that no row names."""
    named = {row.config for row in paper_rows()}
    paths = {path.relative_to(root).as_posix(): path for path in sorted(root.glob('configs/*/*.py'))
             if path.parent.name != '_base_'}
    return [*paper_rows(), *(_row_without_paper(config, path) for config, path in paths.items() if config not in named)]


def _row_without_paper(config: str, path: Path) -> PaperRow:
    try:
        content = Config.fromfile(path)
    except Exception:  # counting it will say which
        return PaperRow.of(config=config)
    dataset = content.get('train_dataloader', {}).get('dataset', {})
    while 'dataset' in dataset:
        dataset = dataset['dataset']
    return PaperRow.of(config=config, task=getattr(find_task(content.get('default_scope')), 'name', ''),
                       dataset=DATASETS.get(dataset.get('type'), ''))


def count_beside_papers(config: str | Path, shape: tuple[int, int] | None = None) -> ModelCost:
    """`count_config`; by default at the image size of the first of the papers' rows, if that names any."""
    rows = rows_of_config(config)
    return count_config(config, shape or (rows[0].shape if rows else None))


def count_rows(rows: Sequence[PaperRow], root: Path, say: Callable[[int, int, str], None]
               ) -> tuple[list[ZooEntry], list[str]]:
    """Count the config of every row, each config once for each image size.

    Args:
        say: told after each config how many are done, of how many, and which.

    Returns:
        The entries in the order of `rows`, and a message for every config that could not be counted.
    """
    wanted = list(dict.fromkeys((row.config, row.shape) for row in rows if row.config))
    counted: dict[tuple, tuple[ModelCost, str]] = {}
    failures = []
    for done, (config, shape) in enumerate(wanted, 1):
        try:
            counted[config, shape] = count_beside_papers(root / config, shape), attentions_of(root / config)
        except Exception as error:  # one broken config, in whatever way, must not hide the others
            failures.append(str(error) if config in str(error) else f'config {config}: {error}')
        say(done, len(wanted), config if (config, shape) in counted else f'{config} failed')
    return [ZooEntry.of(row, *counted.get((row.config, row.shape), (None,))) for row in rows], failures
