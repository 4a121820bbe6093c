"""Tables: cells that a spreadsheet would run are text, all others stay as they are, and all come
back.
"""

import ast
from pathlib import Path

import pytest

from mmflatten.untrusted.csv_files import csv_line, read_csv, write_csv
from mmflatten.untrusted.files import UnusableFile

ROOT = Path(__file__).parents[2]
FORMULAS = [
    '=1+1',
    '+1+1',
    '-1+1',
    '@SUM(1)',
    '\t=1',
    '\r=1',
    "=cmd|' /C calc'!A0",
    '＝1',
    '＋1',
    '－1',
    '＠A1',
    '-',
    '--1',
    '=',
]
OTHERS = [
    'a',
    'a=1',
    '',
    "'",
    "'a'",
    'naïve',
    'a,b',
    'a"b',
    'line\nbreak',
    'line\rbreak',
    ' =1',
    '-0.5',
    '+1e-5',
    '-nan',
    '-inf',
]


@pytest.mark.parametrize('text', FORMULAS)
def test_formula_gets_an_apostrophe(text):
    assert csv_line([text]).strip('"').startswith("'")


@pytest.mark.parametrize('text', OTHERS)
def test_other_text_and_numbers_stay(text, tmp_path):
    write_csv(tmp_path / 'a.csv', ['x', 'y'], [[text, 1]])
    assert (
        (tmp_path / 'a.csv')
        .read_bytes()
        .decode()
        .startswith(f'x,y\n{text}' if text.isalnum() else 'x,y\n')
    )
    assert csv_line([text]).strip('"\n') in (text, text.replace('"', '""'))


def test_numbers_and_missing_values():
    assert csv_line([-0.5, -3, None, 1e-7, True]) == '-0.5,-3,,1e-07,True\n'


@pytest.mark.parametrize('text', [*FORMULAS, *OTHERS, "'=1", "''=1", "'-0.5", '\ud800'])
def test_text_comes_back(text, tmp_path):
    write_csv(tmp_path / 'a.csv', ['=x', 'y'], [[text, 'end'], ['b', text]])
    written = '\\ud800' if text == '\ud800' else text
    assert read_csv(tmp_path / 'a.csv') == [{'=x': written, 'y': 'end'}, {'=x': 'b', 'y': written}]


def test_bytes_of_file_names_are_kept(tmp_path):
    write_csv(tmp_path / 'a.csv', ['file'], [['\udcff.png']])
    assert (tmp_path / 'a.csv').read_bytes() == b'file\n\xff.png\n'


@pytest.mark.parametrize('content', ['a,b\n1\n', 'a\n"' + 'x' * 200_000])
def test_file_that_is_no_table_is_named(content, tmp_path):
    (tmp_path / 'a.csv').write_text(content)
    with pytest.raises(UnusableFile, match=r'a\.csv'):
        read_csv(tmp_path / 'a.csv')


@pytest.mark.parametrize('text', ['a;=1', 'a\t=1', 'a;b', 'a\r=1'])
def test_separators_of_other_languages_do_not_begin_a_cell(text):
    assert csv_line(['x', text]) == f'"x","{text}"\n'


def test_paths_are_guarded_as_text():
    assert csv_line([Path('=1.png'), Path('@a')]) == "'=1.png,'@a\n"


def test_no_other_module_writes_csv():
    found = []
    for folder in ('mmflatten', 'lab/mmflatten_lab'):
        for path in sorted((ROOT / folder).rglob('*.py')):
            attributes, imported = set(), set()
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Attribute):
                    attributes.add(node.attr)
                elif isinstance(node, ast.ImportFrom) and node.module == 'csv':
                    imported.update(alias.name for alias in node.names)
            writers = {'writer', 'DictWriter'}
            if (writers | {'to_csv'}) & attributes or writers & imported:
                found.append(path.relative_to(ROOT).as_posix())
    assert found == ['mmflatten/untrusted/csv_files.py']
