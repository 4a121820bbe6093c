"""The resource figures of Factorized Attention: its formulas, its contradictions, and the modules themselves."""
import math
from pathlib import Path

import pytest
import torch

from mmflatten.analysis.factorized.cases import BERTS, MAPS, Case, Statement, memory_ratio, statements, work_ratio
from mmflatten.analysis.factorized.formulas import (
    CONSISTENT,
    FORMS,
    TABLE_9,
    Formulas,
    Sizes,
    build_module,
    count_module,
    formula_cost,
)
from mmflatten.analysis.speed.live_memory import peak_bytes
from mmflatten.analysis.speed.memory import peak_memory
from mmflatten.analysis.speed.timing import Subject

MODULES = [f'{kind}-{form}' for form in FORMS for kind in ('FA', 'CA')]

# Of Table 9, which compares them with the modules.
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

# b = k = m = c / 4. FA-Tfm's computation is printed as (c^2 / 7 4h + 7 c^2) s, which has no reading; left out.
TABLE_11: Formulas = {
    'FA-multi': (lambda z: 3 * z.c * z.s + z.c ** 2 / (16 * z.h),
                 lambda z: (2 * z.c ** 2 + z.c ** 2 / (4 * z.h)) * z.s),
    'CA-multi': (lambda z: 3 * z.c * z.s + z.h * z.s ** 2,
                 lambda z: 2 * z.c ** 2 * z.s + (z.h * z.c / 2 + z.m / 2) * z.s ** 2),
    'CA-Tfm': (lambda z: 7 * z.c * z.s + z.h * z.s ** 2, lambda z: 7 * z.c ** 2 * z.s + z.c * z.s ** 2),
}


@pytest.fixture(scope='module')
def said() -> dict[str, Statement]:
    return {statement.text: statement for statement in statements()}


def test_the_papers_ratios_at_64x64_follow_from_its_formulas() -> None:
    memory, work = memory_ratio(MAPS[0]), work_ratio(MAPS[0])
    assert round(memory[0]) == 17 and round(work[0]) == 32
    assert work[2] == pytest.approx(work[1], rel=1e-12) and int(work[2]) == 32
    assert 13 < memory[2] < 17  # the real modules also hold the sum with the residual connection


def test_of_the_papers_ratios_for_64x64x32_one_follows_with_64_channels_and_the_other_with_1024() -> None:
    narrow, wide = Case((32, 64, 64), 64), Case((32, 64, 64), 1024)
    assert round(work_ratio(narrow)[1]) == 1025 and round(work_ratio(narrow)[2]) == 1025
    assert round(work_ratio(narrow)[0]) == 1024  # as printed, with CA-dot's projections counted once
    assert round(memory_ratio(narrow)[0]) == 513
    assert int(memory_ratio(wide)[0]) == 32 and round(work_ratio(wide)[0]) == 64


def test_the_papers_absolute_figures(said: dict[str, Statement]) -> None:
    for text, factor in (('128x128 map, memory of CA, GB', 1.), ('128x128 map, computation of CA, 1e9', 1.),
                         ('256x256 map, memory of CA, GB', 1.), ('64x64x32 volume, memory of CA, GB', 1.),
                         ('64x64x32 volume, computation of CA, 1e9', 1.),
                         ('256x256 map, computation of CA, 1e9', 2.)):  # 412 alone is in multiply-accumulates
        paper = float(said[text].paper)
        assert factor * paper <= said[text].printed < 1.1 * factor * paper, text
    assert said['256x256 map, computation of CA, 1e9'].counted / 2 == pytest.approx(412.9, abs=.05)


def test_a_factorized_module_at_256x256_needs_less_than_a_conventional_one_at_64x64() -> None:
    small, large = MAPS[0], MAPS[-1]
    for table in (TABLE_9, CONSISTENT):
        conventional, factorized = small.formula('CA', table), large.formula('FA', table)
        assert factorized.nbytes < conventional.nbytes and factorized.operations < conventional.operations
    assert large.counted('FA').macs < small.counted('CA').macs


def test_28x28x4_saves_a_factor_of_2_with_1024_channels_not_with_512() -> None:
    ratios = {c: (memory_ratio(Case((4, 28, 28), c))[0], work_ratio(Case((4, 28, 28), c))[0]) for c in (512, 1024)}
    assert [round(ratio, 1) for ratio in ratios[512]] == [2.5, 3.4]
    assert [round(ratio) for ratio in ratios[1024]] == [2, 2]


def test_bert_saves_the_papers_20_percent_at_128_tokens_with_narrow_keys_alone() -> None:
    case = BERTS['BERT-base'][0]

    def saved(width: int, length: int) -> float:
        sizes = Sizes(length, case.c, width, width, case.h)
        return 1 - formula_cost('FA-Tfm', sizes).nbytes / formula_cost('CA-Tfm', sizes).nbytes

    assert [round(100 * saved(case.c, length), 1) for length in (128, 512)] == [12.5, 43.8]
    assert round(100 * saved(case.c // 4, 128)) == 22
    gaps = [memory_ratio(longer)[0] for longer in BERTS['BERT-large']]
    assert gaps == sorted(gaps) and gaps[-1] > 10


@pytest.mark.parametrize('table, part, missing', [
    (TABLE_10, 2, (4 * 64 ** 2 - 4 * 64) * 37),  # 4 c s in place of 4 c^2 s
    (TABLE_11, 4, (64 - 16) / 2 * 37 ** 2),  # m / 2 in place of c / 2
])
def test_tables_10_and_11_are_table_9_with_fewer_channels_but_for_one_misprint_each(table, part, missing) -> None:
    sizes = Sizes(37, 64, 64 // part, 64 // part, h=4)
    for name in table:
        general, special = formula_cost(name, sizes, {**BLOCKS, **TABLE_9}), formula_cost(name, sizes, table)
        assert special.nbytes == general.nbytes
        assert special.operations + (missing if name == 'CA-multi' else 0) == general.operations


@pytest.mark.parametrize('grid', [(12, 20), (3, 8, 10)])
@pytest.mark.parametrize('name', MODULES)
def test_modules_multiply_and_add_exactly_what_the_consistent_formulas_say(name: str, grid: tuple[int, ...]) -> None:
    c, s, ratio = 32, math.prod(grid), 4
    sizes = Sizes.usual(s, c, h=4 if name.endswith(('multi', 'Tfm')) else 1)
    # A network of two layers with 4 c hidden channels costs 16 c^2, not the 5 c^2 of the formula.
    more = (4 * ratio - 5) * c ** 2 * s if name.endswith('Tfm') else 0
    assert 2 * count_module(name, sizes, grid).macs == formula_cost(name, sizes).operations + more


def test_printed_formulas_of_ca_dot_and_ca_multi_disagree_with_the_modules() -> None:
    sizes = Sizes.usual(256, 32, h=4)
    for name in ('CA-dot', 'CA-multi'):
        assert 2 * count_module(name, sizes, (16, 16)).macs != formula_cost(name, sizes, TABLE_9).operations
    # FA-Tfm is printed with 4 (b m / h) h, FA-multi and Table 11 with 4 b m / h, which heads of b / h channels need.
    assert formula_cost('FA-Tfm', sizes, TABLE_9).operations - formula_cost('FA-Tfm', sizes).operations == (
        4 * sizes.b * sizes.m * (1 - 1 / 4) * sizes.s)


@pytest.mark.parametrize('name', MODULES)
def test_peaks_grow_as_the_formulas_do(name: str) -> None:
    counted, formula = [], []
    for side in (32, 64):
        sizes = Sizes.usual(side * side, 32, h=4 if name.endswith(('multi', 'Tfm')) else 1)
        counted.append(count_module(name, sizes, (side, side)))
        formula.append(formula_cost(name, sizes).nbytes)
    for one, expected in zip(counted, formula):
        assert expected * .9 < one.training_bytes < expected * 1.5
        assert one.inference_bytes <= one.training_bytes
    assert counted[1].training_bytes / counted[0].training_bytes == pytest.approx(formula[1] / formula[0], rel=.1)


@pytest.mark.parametrize('training', [False, True])
@pytest.mark.parametrize('name', ['FA-dot', 'CA-dot', 'CA-multi'])
def test_peaks_known_without_allocating_are_those_of_the_allocator(name: str, training: bool) -> None:
    sizes = Sizes.usual(40 * 40, 64, h=2)
    module, x = build_module(name, sizes), torch.randn(1, 64, 40, 40)

    def run() -> None:
        with torch.set_grad_enabled(training):
            module(x)

    measured = peak_memory(Subject('module', run)) + x.nbytes
    counted = count_module(name, sizes, (40, 40))
    assert (counted.training_bytes if training else counted.inference_bytes) == pytest.approx(measured, rel=1e-3)


def test_views_cost_nothing_and_freed_tensors_are_taken_off() -> None:
    x = torch.empty(1000, device='meta')
    assert peak_bytes(lambda x: x.view(10, 100).t().flatten(0, 0)[3:], x) == 4000
    assert peak_bytes(lambda x: (x + 1).add_(1).view(10, 100), x) == 2 * 4000
    assert peak_bytes(lambda x: ((x + 1) + 1) + 1, x) == 3 * 4000
    assert peak_bytes(lambda x: ((x.requires_grad_() * 2).exp() * 2).exp(), x, training=True) == 4 * 4000


def test_unknown_modules_and_grids_are_refused_with_their_value() -> None:
    sizes = Sizes.usual(16, 8)
    for call in (lambda: build_module('FA-none', sizes), lambda: formula_cost('FA-none', sizes)):
        with pytest.raises(ValueError, match="'FA-none'"):
            call()
    with pytest.raises(ValueError, match=r'grid \(\(4, 5\)\) has 20 locations, sizes.s \(16\)'):
        count_module('FA-dot', sizes, (4, 5))


def test_the_tool_prints_the_tables_and_draws_the_figures(load_tool, tmp_path: Path, capsys) -> None:
    assert load_tool('attention_complexity').main(['--plot', str(tmp_path / 'new' / 'figures.png')]) == 0
    out = capsys.readouterr().out
    for words in ('256x256', '64x64x32', '28x28x4', 'BERT-large', 'CA-multi', '1024.7x', 'not with 64 channels'):
        assert words in out
    assert (tmp_path / 'new' / 'figures.png').read_bytes()[:8] == b'\x89PNG\r\n\x1a\n'
