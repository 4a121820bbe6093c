"""The claims of docs/factorized.md on memory and computation."""

import attention_complexity as tool
import pytest

SMALL = tool.FIGURE_4[0]


@pytest.mark.parametrize('case', [SMALL, tool.FIGURE_5['BERT-base'][0]], ids=['map', 'BERT'])
def test_formula_equals_the_counted_operations(case):
    for row in tool.rows_of(case):
        assert row[3] == row[4]


def test_memory_on_the_small_map_is_that_of_the_page():
    found = {kind: tool.measured_bytes(SMALL, kind) for kind in tool.KINDS}
    times = {kind: size / (4 * SMALL.floats(kind)) for kind, size in found.items()}
    assert times == pytest.approx({'FA': 1.25, 'CA': 1.02}, abs=0.005)
    assert found['CA'] / found['FA'] == pytest.approx(13.9, abs=0.05)
    assert SMALL.floats('CA') / SMALL.floats('FA') == pytest.approx(16.97, abs=0.005)


def test_bert_saves_the_memory_of_the_page():
    saved = []
    for case in tool.FIGURE_5['BERT-base'][:2]:
        saved.append(100 * (1 - case.floats('FA') / case.floats('CA')))
    assert saved == pytest.approx([12.5, 43.7], abs=0.05)
