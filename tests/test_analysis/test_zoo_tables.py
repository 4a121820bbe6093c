"""The papers' results as carried data."""
from pathlib import Path

import pytest

from mmflatten.analysis.zoo.tables import paper_rows, rows_of_config, within_printed_precision

SWIN_FAMILY = ('swin-t', 'swin-s', 'swin-b', 'flatten-swin-t', 'flatten-swin-s', 'flatten-swin-b')


def test_all_rows_are_carried() -> None:
    assert len(paper_rows()) == 199
    assert {row.cells['paper'] for row in paper_rows()} == {'flatten', 'factorized', 'l2vit', 'focal'}


def test_numbers_are_read_and_gaps_are_none() -> None:
    row = next(row for row in paper_rows() if row.label == 'flatten 2a' and row.cells['backbone'] == 'swin-t')
    assert (row.params_m, row.flops_g, row.shape) == (48, 267, (800, 1280))
    factorized = next(row for row in paper_rows() if row.label == 'factorized 1')
    assert (factorized.params_m, factorized.flops_g, factorized.shape) == (None, None, None)


def test_every_row_of_swin_and_flatten_swin_in_flatten_names_a_config() -> None:
    rows = [row for row in paper_rows() if row.cells['paper'] == 'flatten' and row.cells['backbone'] in SWIN_FAMILY
            and not row.cells['table'].startswith('3')]
    assert len(rows) == 33
    assert all(row.config.startswith('configs/flatten_swin/') for row in rows)


@pytest.mark.parametrize('method, config', [
    ('focusing factor 8', 'flatten-swin-t_8xb128_in1k_focusing-factor-8.py'),
    ('focusing factor 3', 'flatten-swin-t_8xb128_in1k.py'),
    ('linear window 7', 'flatten-swin-t_8xb128_in1k_linear-window-7.py'),
    ('attention types LLLL', 'flatten-swin-t_8xb128_in1k_llll.py'),
])
def test_ablations_name_their_config(method: str, config: str) -> None:
    row = next(row for row in paper_rows() if row.cells['method'] == method)
    assert row.config == f'configs/flatten_swin/{config}'


def test_config_is_found_from_anywhere_and_may_serve_several_rows(tmp_path: Path) -> None:
    rows = rows_of_config(tmp_path / 'configs/flatten_swin/flatten-swin-t_8xb128_in1k.py')
    assert [row.label for row in rows] == ['flatten 8', 'flatten 3b', 'flatten 5', 'flatten 6', 'flatten 7']
    assert rows_of_config(tmp_path / 'flatten-swin-t_8xb128_in1k.py') == ()
    assert rows_of_config(tmp_path / 'configs/flatten_swin/mine.py') == ()


def test_products_are_left_out_where_the_tables_leave_them_out() -> None:
    def with_products(label: str, backbone: str) -> bool:
        rows = [row for row in paper_rows() if row.label == label and row.cells['backbone'] == backbone]
        return rows[0].with_products

    assert not with_products('focal 5', 'swin-t') and with_products('focal 5', 'focal-t')
    assert not with_products('l2vit 4', 'l2vit-t') and with_products('flatten 2b', 'flatten-swin-t')


@pytest.mark.parametrize('value, printed, agrees', [
    (28.29, '28', True), (28.29, '29', True), (28.29, '30', False), (4.49, '4.5', True), (4.38, '4.5', False),
])
def test_printed_precision_allows_rounding_up_or_down(value: float, printed: str, agrees: bool) -> None:
    assert within_printed_precision(value, printed) is agrees
