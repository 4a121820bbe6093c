"""The papers' results in tables.csv."""

import operator
from collections import Counter
from pathlib import Path

import pytest
from zoo.names import PAPERS
from zoo.records import ZooEntry, written_by_hand

from mmflatten.measure.papers.tables import (
    PaperRow,
    paper_rows,
    rows_of_config,
    within_printed_precision,
)

ROOT = Path(__file__).parents[2]


def test_printed_results_have_a_row_or_a_reason() -> None:
    printed = {
        (table['paper'], table['table']): int(table['results'])
        for table in written_by_hand('printed_rows')
    }
    carried = Counter((row.cells['paper'], row.cells['table']) for row in paper_rows())
    without = Counter(
        (result['paper'], result['table']) for result in written_by_hand('without_config')
    )
    assert printed == carried + without
    assert {paper for paper, _ in printed} == set(PAPERS) - {''}


def test_rows_have_a_config_and_are_unique() -> None:
    assert [row.config for row in paper_rows() if not (ROOT / row.config).is_file()] == []
    columns = ('paper', 'table', 'task', 'method', 'backbone', 'schedule', 'flops_input_hw')
    rows = Counter(operator.itemgetter(*columns)(row.cells) for row in paper_rows())
    others = Counter(
        (other['paper'], other['table'], other['model'])
        for other in written_by_hand('without_config')
    )
    assert [label for label, times in (rows + others).items() if times > 1] == []
    assert all(other['reason'] for other in written_by_hand('without_config'))


def test_row_shape_may_be_missing() -> None:
    shapes = {row.label: row.shape for row in paper_rows()}
    assert shapes['flatten 2a'] == (800, 1280) and shapes['factorized 1'] is None


def test_rows_of_config_need_its_path_below_configs(tmp_path: Path) -> None:
    rows = rows_of_config(tmp_path / 'configs/flatten_swin/flatten-swin-t_8xb128_in1k.py')
    assert [row.label for row in rows] == [
        'flatten 8',
        'flatten 3b',
        'flatten 5',
        'flatten 6',
        'flatten 7',
        'l2vit 2',
    ]
    assert rows_of_config(tmp_path / 'flatten-swin-t_8xb128_in1k.py') == ()
    assert rows_of_config(tmp_path / 'configs/flatten_swin/mine.py') == ()


def test_products_are_excluded_for_rows_that_exclude_them() -> None:
    def with_products(label: str, backbone: str) -> bool:
        rows = [
            row for row in paper_rows() if row.label == label and row.cells['backbone'] == backbone
        ]
        return rows[0].with_products

    assert not with_products('focal 5', 'swin-t') and with_products('focal 5', 'focal-t')
    assert not with_products('l2vit 4', 'l2vit-t') and with_products('flatten 2b', 'flatten-swin-t')
    assert not with_products('mala notes', 'mavit-t') and with_products('mala notes', 'mala-deit-t')


@pytest.mark.parametrize(
    'value, printed, agrees',
    [
        (28.29, '28', True),
        (28.29, '29', True),
        (28.29, '30', False),
        (4.49, '4.5', True),
        (4.38, '4.5', False),
    ],
)
def test_printed_precision_allows_rounding_up_or_down(
    value: float, printed: str, agrees: bool
) -> None:
    assert within_printed_precision(value, printed) is agrees


@pytest.mark.parametrize(
    'flops, printed, agrees',
    [
        (1_149_000_000, '1.1', 'yes'),  # rounded, 4.5 % off
        (1_258_000_000, '1.2', 'unit'),  # cut off, 4.8 %
        (1_258_000_000, '1.3', 'yes'),
        (1_300_000_000, '1.2', 'no'),
        (9_453_000_000, '9.1', 'no'),
        (254_900_000_000, '250', 'near'),  # 1.96 %
        (255_100_000_000, '250', 'no'),  # 2.04 %
        (1, '', ''),
    ],
)
def test_flops_agree_in_printed_digits_within_a_unit_or_2_percent(flops, printed, agrees) -> None:
    assert ZooEntry(PaperRow.of(flops_g=printed), params=0, flops=flops).flops_agree == agrees
