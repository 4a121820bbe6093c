"""Records of the model zoo: the papers' rows with the cost of their configs, then the configs
without a row.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pandas as pd
from mmengine.config import Config
from torch import nn

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
    'ADE20KDataset': 'ade20k',
}
FLOPS_TOLERANCE = 0.02  # relative; papers differ by this much in how they count
# Ours rounds to the printed digits; less than one unit of the last digit away; FLOPs within the
# tolerance; neither.
AGREEMENTS = ('yes', 'unit', 'near', 'no')


@dataclass(frozen=True)
class ZooEntry(PaperCost):
    """A row of a paper, or a config without a row, with its counted cost."""

    attention: str = ''  # from `attentions_of`

    @property
    def params_agree(self) -> str:
        """How the parameters agree with the printed ones; '' if none are printed or nothing was
        counted.
        """
        printed = self.row.cells['params_m']
        return _agreement(self.params / 1e6, printed) if printed and self.is_counted else ''

    @property
    def flops_agree(self) -> str:
        """How the FLOPs agree with the printed ones; '' as for `params_agree`."""
        printed = self.row.cells['flops_g']
        return (
            _agreement(self.flops / 1e9, printed, FLOPS_TOLERANCE)
            if printed and self.is_counted
            else ''
        )

    @property
    def agrees(self) -> str:
        """The worse agreement of parameters and FLOPs; '' if either side has no numbers."""
        return max(self.params_agree, self.flops_agree, key=('', *AGREEMENTS).index)

    def csv_cells(self) -> dict[str, object]:
        cells = self.row.cells
        return {
            **{name: cells[name] for name in LABELS},
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
            **{f'paper_{name}': cells[name] for name in RESULTS},
        }


def _agreement(value: float, printed: str, tolerance: float = 0.0) -> str:
    """Return the first of `AGREEMENTS` that holds; `tolerance` is relative."""
    unit, distance = 10 ** -len(printed.partition('.')[2]), abs(value - float(printed))
    holds = (distance <= unit / 2, distance < unit, distance <= tolerance * float(printed), True)
    return AGREEMENTS[holds.index(True)]


def _percent(value: int | None, printed: str, unit: float) -> str:
    return (
        '' if value is None or not printed else f'{100 * (value / unit / float(printed) - 1):+.2f}'
    )


def to_csv(entries: Iterable[ZooEntry]) -> str:
    rows = pd.DataFrame([entry.csv_cells() for entry in entries], dtype=object)
    return rows.to_csv(index=False, lineterminator='\n')


def from_csv(text: str) -> list[ZooEntry]:
    """Read the entries that `to_csv` wrote."""
    entries = []
    for cells in csv.DictReader(StringIO(text)):
        row = PaperRow(
            {name: cells.get(f'paper_{name}', cells.get(name)) for name in paper_rows()[0].cells}
        )
        numbers = (
            int(cells[name]) if cells[name] else None for name in ('params', 'macs', 'flops')
        )
        entries.append(ZooEntry(row, cells['image'], *numbers, cells['attention']))
    return entries


def written_by_hand(name: str) -> list[dict[str, str]]:
    """Read a table of this folder.

    `printed_rows` has the number of `results` in each `table` of each `paper`, with an optional
    `note`; `without_config` has the results without a row: `paper`, `table`, `task`, `model`, and
    the `reason` why there is no config.
    """
    with Path(__file__).with_name(f'{name}.csv').open(newline='', encoding='utf-8') as file:
        return list(csv.DictReader(file))


def zoo_rows(root: Path) -> list[PaperRow]:
    """Return every row of the papers' tables, then an empty row for each other config below
    `root`.
    """
    in_papers = {row.config for row in paper_rows()}
    paths = {
        path.relative_to(root).as_posix(): path
        for path in sorted(root.glob('configs/*/*.py'))
        if path.parent.name != '_base_'
    }
    return [
        *paper_rows(),
        *(
            _row_without_paper(config, path)
            for config, path in paths.items()
            if config not in in_papers
        ),
    ]


def _row_without_paper(config: str, path: Path) -> PaperRow:
    try:
        content = Config.fromfile(path)
    except Exception:  # reported when the config is counted
        return PaperRow.of(config=config)
    dataset = first_config(content.get('train_dataloader', {}).get('dataset', {}))
    return PaperRow.of(
        config=config,
        task=getattr(find_task(content.get('default_scope')), 'name', ''),
        dataset=DATASETS.get(dataset.get('type'), ''),
    )


def attentions_of(model: nn.Module) -> str:
    """List the distinct attention classes without the suffix `Attention`, such as 'FocusedLinear,
    Softmax'.
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
    return [
        ZooEntry.of(row, *costs.get((row.config, row.shape), (None, ''))) for row in rows
    ], failures
