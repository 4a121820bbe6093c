"""The folders of `mmflatten.analysis` import one way, and nothing above them."""
import ast
from pathlib import Path

import pytest

ANALYSIS = Path(__file__).parents[2] / 'mmflatten' / 'analysis'
BELOW = {'flops': set(), 'recipes': {'flops'}, 'zoo': {'flops'}, 'speed': {'flops'}, 'factorized': {'flops', 'speed'},
         'results': set()}


@pytest.mark.parametrize('folder', BELOW)
def test_a_folder_imports_only_what_lies_below_it(folder: str) -> None:
    nodes = [node for file in (ANALYSIS / folder).glob('*.py') for node in ast.walk(ast.parse(file.read_text()))]
    modules = [node.module.split('.') for node in nodes if isinstance(node, ast.ImportFrom)]
    ours = [[*parts[1:], ''] for parts in modules if parts[0] == 'mmflatten']
    assert {parts[1] for parts in ours if parts[0] == 'analysis'} - {'text_table', folder} <= BELOW[folder]
    assert not {parts[0] for parts in ours} & {'engine', 'apis', 'studies', 'report', 'cli', 'datasets'}
