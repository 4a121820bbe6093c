"""Memory and computation of factorized attention: the paper's formulas, their contradictions, and the modules."""
from pathlib import Path

import attention_complexity
import pytest
import torch
from factorized_costs.cases import BERTS, MAPS, Statement, ratio, statements
from factorized_costs.formulas import (
    CONSISTENT,
    FORMS,
    TABLE_9,
    Case,
    Formulas,
    build_module,
    counted_cost,
    formula_cost,
)
from factorized_costs.live_memory import live_peak

from mmflatten.measure.speed.memory import peak_memory

KINDS = ('FA', 'CA')
HEADS = {'dot': 1, 'bot': 1, 'multi': 4, 'Tfm': 4}

# Rows of Table 9 for comparison with the attention modules.
BLOCKS: Formulas = {
    'ResBlock': (lambda z: 5 * z.c * z.s, lambda z: 36 * z.c ** 2 * z.s),
    'ResBlock-bot': (lambda z: (4 * z.m + 3 * z.c) * z.s, lambda z: (4 * z.m * z.c + 18 * z.m ** 2) * z.s),
}

# b = k = m = c / 2.
TABLE_10: Formulas = {
    'ResBlock': (lambda z: 5 * z.c * z.s, lambda z: 36 * z.c ** 2 * z.s),
    'ResBlock-bot': (lambda z: 5 * z.c * z.s, lambda z: 13 / 2 * z.c ** 2 * z.s),
    'FA-dot': (lambda z: 4 * z.c * z.s + z.c ** 2 / 2, lambda z: 6 * z.c ** 2 * z.s),
    'CA-dot': (lambda z: 4 * z.c * z.s + z.s ** 2, lambda z: 2 * z.c ** 2 * z.s + 3 * z.c * z.s ** 2),
    'FA-bot': (lambda z: 4 * z.c * z.s + z.c ** 2 / 4, lambda z: 5 * z.c ** 2 * z.s),
    'CA-bot': (lambda z: 4 * z.c * z.s + z.s ** 2, lambda z: 4 * z.c ** 2 * z.s + 2 * z.c * z.s ** 2),
    'FA-multi': (lambda z: 4 * z.c * z.s + z.c ** 2 / (4 * z.h), lambda z: (4 * z.c ** 2 + z.c ** 2 / z.h) * z.s),
    'CA-multi': (lambda z: 4 * z.c * z.s + z.h * z.s ** 2, lambda z: 4 * z.c * z.s + (z.h * z.c + z.c) * z.s ** 2),
}

# b = k = m = c / 4. The computation of FA-Tfm is omitted: it is printed as (c^2 / 7 4h + 7 c^2) s, which is garbled.
TABLE_11: Formulas = {
    'FA-multi': (lambda z: 3 * z.c * z.s + z.c ** 2 / (16 * z.h),
                 lambda z: (2 * z.c ** 2 + z.c ** 2 / (4 * z.h)) * z.s),
    'CA-multi': (lambda z: 3 * z.c * z.s + z.h * z.s ** 2,
                 lambda z: 2 * z.c ** 2 * z.s + (z.h * z.c / 2 + z.m / 2) * z.s ** 2),
    'CA-Tfm': (lambda z: 7 * z.c * z.s + z.h * z.s ** 2, lambda z: 7 * z.c ** 2 * z.s + z.c * z.s ** 2),
}


@pytest.fixture(scope='module')
def stated() -> dict[str, Statement]:
    return {statement.text: statement for statement in statements()}


def test_printed_formulas_give_the_ratios_at_64x64() -> None:
    memory, work = ratio(MAPS[0], 'nbytes'), ratio(MAPS[0], 'operations')
    assert round(memory[0]) == 17 and round(work[0]) == 32
    assert work[2] == pytest.approx(work[1], rel=1e-12) and int(work[2]) == 32
    assert 13 < memory[2] < 17  # the modules also store the sum with the residual connection


def test_ratios_at_64x64x32_need_64_and_1024_channels() -> None:
    narrow, wide = Case((32, 64, 64), 64), Case((32, 64, 64), 1024)
    # The printed formula of CA-dot counts projections once.
    assert list(map(round, ratio(narrow, 'operations'))) == [1024, 1025, 1025]
    assert round(ratio(narrow, 'nbytes')[0]) == 513
    assert int(ratio(wide, 'nbytes')[0]) == 32 and round(ratio(wide, 'operations')[0]) == 64


@pytest.mark.parametrize('text, factor', [
    ('128x128 map, memory of CA, GB', 1), ('128x128 map, computation of CA, 1e9', 1),
    ('256x256 map, memory of CA, GB', 1), ('64x64x32 volume, memory of CA, GB', 1),
    ('64x64x32 volume, computation of CA, 1e9', 1),
    ('256x256 map, computation of CA, 1e9', 2),  # 412 alone is in multiply-accumulates
])
def test_printed_formulas_give_the_absolute_numbers(stated: dict[str, Statement], text: str, factor: int) -> None:
    paper = factor * float(stated[text].paper)
    assert paper <= stated[text].figures[0] < 1.1 * paper


def test_factorized_at_256x256_costs_less_than_conventional_at_64x64() -> None:
    small, large = MAPS[0], MAPS[-1]
    for table in (TABLE_9, CONSISTENT):
        conventional, factorized = formula_cost('CA', small, table), formula_cost('FA', large, table)
        assert factorized.nbytes < conventional.nbytes and factorized.operations < conventional.operations
    assert counted_cost('FA', large).operations < counted_cost('CA', small).operations


def test_ratios_at_28x28x4_need_1024_channels() -> None:
    for c, memory, work in ((512, 2.5, 3.4), (1024, 1.7, 1.9)):
        case = Case((4, 28, 28), c)
        assert ratio(case, 'nbytes')[0] == pytest.approx(memory, abs=.05)
        assert ratio(case, 'operations')[0] == pytest.approx(work, abs=.05)


def test_bert_saves_20_percent_only_with_narrow_keys() -> None:

    def saved(length: int, part: int) -> float:
        case = Case((length, 1), 768, 'Tfm', h=12, part=part)
        return 1 - formula_cost('FA', case).nbytes / formula_cost('CA', case).nbytes

    assert [round(100 * saved(length, part=1), 1) for length in (128, 512)] == [12.5, 43.8]
    assert round(100 * saved(128, part=4)) == 22
    gaps = [ratio(longer, 'nbytes')[0] for longer in BERTS['BERT-large']]
    assert gaps == sorted(gaps) and gaps[-1] > 10


@pytest.mark.parametrize('table, part, missing', [
    (TABLE_10, 2, (4 * 64 ** 2 - 4 * 64) * 37),  # 4 c s in place of 4 c^2 s
    (TABLE_11, 4, (64 - 16) / 2 * 37 ** 2),  # m / 2 in place of c / 2
])
def test_tables_10_and_11_equal_table_9_except_for_one_misprint_each(table, part, missing) -> None:
    case = Case((37, 1), 64, h=4, part=part)
    for name, (floats, operations) in table.items():
        general_floats, general_operations = {**BLOCKS, **TABLE_9}[name]
        assert floats(case) == general_floats(case)
        assert operations(case) + (missing if name == 'CA-multi' else 0) == general_operations(case)


@pytest.mark.parametrize('grid', [(12, 20), (3, 8, 10)])
@pytest.mark.parametrize('form', FORMS)
@pytest.mark.parametrize('kind', KINDS)
def test_modules_cost_what_the_consistent_formulas_give(
        kind: str, form: str, grid: tuple[int, ...]) -> None:
    case = Case(grid, 32, form, h=HEADS[form])
    # A network of two layers with 4 c hidden channels costs 16 c^2, not 5 c^2 as in the formula.
    missing = (4 * 4 - 5) * case.c ** 2 * case.s if form == 'Tfm' else 0
    assert counted_cost(kind, case).operations == formula_cost(kind, case).operations + missing


def test_printed_formulas_of_ca_dot_ca_multi_and_fa_tfm_are_wrong() -> None:
    for form in ('dot', 'multi'):
        case = Case((16, 16), 32, form, h=4)
        assert counted_cost('CA', case).operations != formula_cost('CA', case, TABLE_9).operations
    # FA-Tfm is printed with 4 (b m / h) h, FA-multi and Table 11 with 4 b m / h, as heads have b / h channels.
    case = Case((16, 16), 32, 'Tfm', h=4)
    printed, consistent = formula_cost('FA', case, TABLE_9), formula_cost('FA', case)
    assert printed.operations - consistent.operations == 4 * case.b * case.m * (1 - 1 / 4) * case.s


@pytest.mark.parametrize('form', FORMS)
@pytest.mark.parametrize('kind', KINDS)
def test_counted_peaks_grow_like_the_formulas(kind: str, form: str) -> None:
    cases = [Case((side, side), 32, form, h=HEADS[form]) for side in (32, 64)]
    counted, formula = ([cost(kind, case) for case in cases] for cost in (counted_cost, formula_cost))
    for one, expected in zip(counted, formula):
        assert expected.nbytes * .9 < one.nbytes < expected.nbytes * 1.5
        assert one.inference_nbytes <= one.nbytes
    assert counted[1].nbytes / counted[0].nbytes == pytest.approx(formula[1].nbytes / formula[0].nbytes, rel=.1)


@pytest.mark.parametrize('training', [False, True])
@pytest.mark.parametrize('kind, form', [('FA', 'dot'), ('CA', 'dot'), ('CA', 'multi')])
def test_live_peak_equals_the_peak_of_the_allocator(kind: str, form: str, training: bool) -> None:
    case = Case((40, 40), 64, form, h=2)
    module, x = build_module(kind, case), torch.randn(1, 64, 40, 40)

    def run() -> None:
        with torch.set_grad_enabled(training):
            module(x)

    counted = counted_cost(kind, case)
    known = counted.nbytes if training else counted.inference_nbytes
    assert known == pytest.approx(peak_memory(run) + x.nbytes, rel=1e-3)


def test_live_peak_ignores_views_and_freed_tensors() -> None:
    x = torch.empty(1000, device='meta')
    assert live_peak(lambda x: x.view(10, 100).t().flatten(0, 0)[3:], x) == 4000
    assert live_peak(lambda x: (x + 1).add_(1).view(10, 100), x) == 2 * 4000
    assert live_peak(lambda x: ((x + 1) + 1) + 1, x) == 3 * 4000
    assert live_peak(lambda x: ((x.requires_grad_() * 2).exp() * 2).exp(), x, training=True) == 4 * 4000


def test_attention_complexity_prints_tables_and_draws_figures(tmp_path: Path, capsys) -> None:
    assert attention_complexity.main(['--plot', str(tmp_path / 'new' / 'figures.png')]) == 0
    out = capsys.readouterr().out
    for words in ('256x256', '64x64x32', '28x28x4', 'BERT-large', 'CA-multi', '1024.7x', 'not with 64 channels'):
        assert words in out
    assert (tmp_path / 'new' / 'figures.png').read_bytes()[:8] == b'\x89PNG\r\n\x1a\n'
