"""`mmflatten benchmark`: rows, tables, figure and errors."""

import csv
import json
from pathlib import Path
from types import ModuleType

import pytest
import torch
from matplotlib.image import imread

from mmflatten.cli.main import main
from mmflatten.measure.speed.models import default_size
from mmflatten.measure.speed.operators import OPERATORS
from mmflatten.models.attention import TokenMixer
from mmflatten.registry import MODELS

CONFIG = """
default_scope = 'mmpretrain'
model = dict(
    type='ImageClassifier',
    backbone=dict(type='mmflatten.FLattenSwin', out_indices=(3,),
                  arch=dict(embed_dims=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2])),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='LinearClsHead', num_classes=10, in_channels=64))
"""
SWIN = 'FLattenSwin:arch=dict(embed_dims=8,depths=(1,1,1,1),num_heads=(1,1,2,2))'
QUICK = ['--rounds', '2', '--threads', '1', '--batch', '2', '--size', '32']


@pytest.fixture(scope='module')
def tool(load_tool) -> ModuleType:
    return load_tool('benchmark')


@pytest.fixture(autouse=True)
def same_threads():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / 'tiny.py').write_text(CONFIG)
    return str(tmp_path / 'tiny.py')


def rows_of(path: Path) -> list[dict]:
    with open(path, newline='') as file:
        return list(csv.DictReader(file))


def test_configs_backbones_and_timm_are_compared(
    tool: ModuleType, config: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    out, everything = tmp_path / 'out.csv', tmp_path / 'out.json'
    assert (
        tool.main(
            [
                config,
                SWIN,
                '--vs',
                'timm:test_vit',
                *QUICK,
                '--csv',
                str(out),
                '--json',
                str(everything),
            ]
        )
        == 0
    )
    names = ['timm:test_vit', 'tiny', SWIN]
    out_text = capsys.readouterr().out
    assert 'run: batch 2, size 32x32, dtype fp32, device cpu' in out_text
    lines = out_text.splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith('name ')) + 2
    assert all(line.startswith(name) for line, name in zip(lines[first:], names))
    rows = rows_of(out)
    assert [row['name'] for row in rows] == names and float(rows[0]['ratio']) == 1
    assert {'ratio', 'ratio_q1', 'ratio_q3', 'dtype', 'device', 'mode'} <= set(rows[0])
    for row in rows:
        assert row['reference'] == 'timm:test_vit'
        assert (
            row['height'],
            row['width'],
            row['rounds'],
        ) == ('32', '32', '2')
        assert 0 < float(row['q1_s']) <= float(row['median_s']) <= float(row['q3_s'])
        assert float(row['per_s']) == pytest.approx(2 / float(row['median_s']))
        assert float(row['peak_mib']) > 0 and int(row['params']) > 0
    content = json.loads(everything.read_text())
    assert content['machine']['threads'] == 1 and content['command'][0] == config
    assert len(content['results'][0]['seconds']) == 2


def test_operators_give_rows_crossovers_and_a_plot(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    names = ['softmax', 'hydra', 'window', 'LinearAttention:feature_map=elu']
    assert (
        tool.main(
            [
                '--operators',
                *names,
                '--tokens',
                '64',
                '16',
                '--embed-dims',
                '8',
                '--heads',
                '2',
                '--rounds',
                '2',
                '--threads',
                '1',
                '--csv',
                str(tmp_path / 'out.csv'),
                '--plot',
                str(tmp_path / 'out.png'),
            ]
        )
        == 0
    )
    captured = capsys.readouterr()
    rows = rows_of(tmp_path / 'out.csv')
    assert [row['name'] for row in rows] == names * 2
    assert [row['tokens'] for row in rows] == ['16'] * len(names) + ['64'] * len(names)
    assert all(row['reference'] == 'softmax' for row in rows) and rows[4]['height'] == '8'
    lines = captured.out.splitlines()
    start = next(i for i, line in enumerate(lines) if 'faster than softmax from tokens' in line)
    assert [line.split()[0] for line in lines[start + 2 :]] == names[1:]
    assert imread(tmp_path / 'out.png').shape[:2] == (400, 1400)
    assert '[2/2]' in captured.err and 's left' in captured.err


def test_every_attention_has_a_name():
    named = {spec.partition(':')[0] for spec in OPERATORS.values()}
    assert named == {
        name
        for name, cls in MODELS.module_dict.items()
        if isinstance(cls, type)
        and issubclass(cls, TokenMixer)
        and cls.__module__.startswith('mmflatten.')
    } | {'CrossShapedAttention'}


@pytest.mark.parametrize(
    'arguments, message',
    [
        ([], '--operators'),
        (['no/config.py'], 'no/config.py'),
        (['FLattenSwin:tiny'], '(tiny)'),
        (['FLattenSwin:depth=3'], 'depth'),
        (['timm:no_such_model'], 'no_such_model'),
        ([SWIN, '--device', 'tpu'], 'tpu'),
        ([SWIN, '--device', 'cuda:99'], 'cuda:99'),
        ([SWIN, '--csv', 'no/folder/out.csv'], 'no/folder'),
        ([SWIN, '--tokens', '16'], '--tokens'),
        (['--operators', 'softmax', '--vs', 'linear'], '--vs'),
        (['--operators', 'softmin'], 'softmin'),
        (['--operators', 'LinearAttention:feature=elu'], 'feature'),
        (['--operators', 'softmax', '--heads', '5'], '--heads 5'),
    ],
)
def test_errors_name_the_value(
    tool: ModuleType, capsys: pytest.CaptureFixture, arguments: list[str], message: str
) -> None:
    assert tool.main(arguments) == 1
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_models_are_measured_and_drawn_at_several_sizes(tool: ModuleType, tmp_path: Path) -> None:
    out, plot = tmp_path / 'out.csv', tmp_path / 'out.png'
    quick = [*QUICK[:-2], '--csv', str(out), '--plot', str(plot)]
    assert (
        tool.main([SWIN, f'{SWIN},attn_types=SSSS', *quick, '--size', '32', '--size', '32', '64'])
        == 0
    )
    rows = list(csv.DictReader(out.open()))
    assert [(row['height'], row['width']) for row in rows] == [('32', '32')] * 2 + [
        ('32', '64')
    ] * 2
    assert {row['reference'] for row in rows} == {rows[0]['name']} and float(rows[2]['ratio']) == 1
    assert imread(plot).std() > 0


@pytest.mark.parametrize('option', [['--rounds', '0'], ['--seconds', 'inf'], ['--size', 'wide']])
def test_numbers_must_be_positive(tool: ModuleType, option: list[str]) -> None:
    with pytest.raises(SystemExit):
        tool.main([SWIN, *option])


def test_config_is_named_and_measured_at_its_own_size(capsys):
    assert (
        main(
            [
                'benchmark',
                'flatten-swin-nano_digits',
                '--rounds',
                '1',
                '--threads',
                '1',
                '--batch',
                '1',
            ]
        )
        == 0
    )
    assert 'size 64x64' in capsys.readouterr().out
    assert default_size(['flatten-swin-nano_digits', 'retinanet_flatten-swin-nano_fpn_digits']) == (
        224,
        224,
    )
    assert default_size(['FLattenSwin:arch=tiny', 'retinanet_flatten-swin-nano_fpn_digits']) == (
        160,
        160,
    )
