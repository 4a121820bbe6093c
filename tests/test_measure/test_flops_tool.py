"""`mmflatten flops`: tables, JSON and errors."""

import json
from pathlib import Path
from types import ModuleType

import pytest

TINY = """
default_scope = 'mmpretrain'
model = dict(
    type='ImageClassifier',
    backbone=dict(type='mmflatten.FLattenSwin', out_indices=(3,),
                  arch=dict(embed_dims=16, depths=[1, 1, 2, 1], num_heads=[1, 2, 4, 8])),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='LinearClsHead', num_classes=10, in_channels=128))
"""


@pytest.fixture(scope='module')
def tool(load_tool) -> ModuleType:
    return load_tool('get_flops')


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    (tmp_path / 'tiny.py').write_text(TINY)
    return str(tmp_path / 'tiny.py')


def table_of(output: str) -> list[list[str]]:
    """Cells of a Markdown table."""
    rows = []
    for line in output.splitlines():
        if line.startswith('|') and '---' not in line:
            rows.append([cell.strip() for cell in line.strip('|').split('|')])
    return rows


def test_config_is_counted_and_written_as_json(
    tool: ModuleType, tiny: str, tmp_path: Path, capsys
) -> None:
    assert tool.main([tiny, '--json', str(tmp_path / 'out.json')]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith('config') and lines[2].split()[:2] == ['tiny', '224x224']
    (result,) = json.loads((tmp_path / 'out.json').read_text())
    assert result['config'] == tiny and result['shape'] == [224, 224]
    assert result['macs'] == sum(result['by_operator'].values()) > 0
    assert (
        result['papers_convention'] > result['macs'] > result['papers_convention_without_products']
    )
    assert result['uncounted'] == {} and result['elementwise_not_counted']['aten::gelu'] > 0


def test_flops_command_counts_at_shape(
    tool: ModuleType, tiny: str, capsys: pytest.CaptureFixture
) -> None:
    assert tool.main([tiny, '--shape', '65', '97', '--markdown']) == 0
    header, row = table_of(capsys.readouterr().out)
    assert row[header.index('image')] == '65x97'


def test_modules_sum_up_to_the_model(tool: ModuleType, tiny: str, tmp_path: Path, capsys) -> None:
    out = tmp_path / 'out.json'
    assert tool.main([tiny, '--by-module', '--depth', '1', '--json', str(out)]) == 0
    tree = capsys.readouterr().out.split('\nmodule ')[1].splitlines()[2:]
    assert [line.split()[0] for line in tree] == ['tiny', 'backbone', 'head']
    (result,) = json.loads(out.read_text())
    modules = result['modules']
    assert (
        modules['']['macs']
        == modules['backbone']['macs'] + modules['head']['macs']
        == result['macs']
    )
    assert (
        modules['']['params']
        == modules['backbone']['params'] + modules['head']['params']
        == result['params']
    )


def test_numbers_of_the_paper_are_compared(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    config = tmp_path / 'configs' / 'flatten_swin' / 'flatten-swin-t_8xb128_in1k.py'
    config.parent.mkdir(parents=True)
    config.write_text(
        TINY.replace(
            'embed_dims=16, depths=[1, 1, 2, 1], num_heads=[1, 2, 4, 8]',
            'embed_dims=96, depths=[2, 2, 6, 2], num_heads=[3, 6, 12, 24]',
        ).replace('num_classes=10, in_channels=128', 'num_classes=1000, in_channels=768')
    )
    assert tool.main([str(config), '--markdown']) == 0
    # FLatten's Table 5 has no cost, L2ViT's repeat it
    header, unprinted, row, _ = table_of(capsys.readouterr().out)
    assert header == [
        'config',
        'image',
        'params (M)',
        'paper',
        'diff',
        'MACs (G)',
        "papers' way (G)",
        'paper',
        'diff',
        'table',
        'not counted',
    ]
    tables = row.pop(9)  # which further tables repeat the result is the business of tables.csv
    assert tables.startswith('flatten 8, ') and tables.endswith('6, 7') and unprinted[3] == '-'
    assert row == [
        'flatten-swin-t_8xb128_in1k',
        '224x224',
        '29.192',
        '29',
        '+0.7%~',
        '4.483',
        '4.502',
        '4.5',
        '0.0%~',
        'none',
    ]
    assert tool.main([str(config), '--markdown', '--shape', '64', '64']) == 0
    row = table_of(capsys.readouterr().out)[2]
    # FLOPs of another size are not compared
    assert row[3:5] == ['29', '+0.7%~'] and row[7:9] == ['-', '-']


def test_failure_of_one_config_does_not_hide_the_others(
    tool: ModuleType, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / 'wrong.py').write_text(TINY.replace('in_channels=128', 'in_channels=100'))
    assert tool.main([str(tmp_path / 'wrong.py'), tiny]) == 1
    captured = capsys.readouterr()
    assert '[1/2]' in captured.err
    assert captured.out.splitlines()[2].startswith('tiny')
    last = captured.err.splitlines()[-1]
    assert last.startswith('1 of 2 configs could not be counted') and 'in head.fc, Linear(' in last


@pytest.mark.parametrize(
    'write, arguments, message',
    [
        (None, [], 'config.py'),
        (TINY, ['--json', '.'], '--json: '),
        ('a = 1', [], 'model'),
        ('1 +', [], 'config.py'),
        ("model = dict(type='ImageClassifier')", [], '--shape H W'),
        (TINY.replace('in_channels=128', 'in_channels=100'), [], 'cannot run at 224x224'),
        (TINY, ['--json', 'no/such/folder/out.json'], 'no/such/folder'),
    ],
)
def test_errors_name_the_value(
    tool: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    write: str,
    arguments: list[str],
    message: str,
) -> None:
    config = tmp_path / 'config.py'
    if write:
        config.write_text(write)
    assert tool.main([str(config), *arguments]) == 1
    assert message in capsys.readouterr().err.splitlines()[-1]
