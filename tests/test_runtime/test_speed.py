"""`mmflatten benchmark` on exported files, beside a model."""

import csv

import pytest

from mmflatten.cli.benchmark import main as benchmark

MODEL = (
    'FLattenSwin:arch=dict(embed_dims=8,depths=(1,),num_heads=(1,)),attn_types="L",out_indices=(0,)'
)


def test_files_are_measured_beside_a_model(write_file, tmp_path, capsys):
    file, table = write_file(), tmp_path / 'speed.csv'
    words = [
        MODEL,
        file,
        f'{file}:runtime=openvino',
        '--batch',
        '1',
        '--size',
        '64',
        '--rounds',
        '2',
    ]
    assert benchmark([*words, '--csv', str(table)]) == 0
    with open(table, newline='') as content:
        rows = list(csv.DictReader(content))
    assert [row['name'] for row in rows[1:]] == [f'{file}, onnxruntime', f'{file}, openvino']
    assert [row['dtype'] for row in rows] == ['fp32', 'float32', 'float32']
    assert [row['peak_mib'] == '' for row in rows] == [False, True, True]
    assert all(float(row['median_s']) > 0 and row['ratio'] for row in rows)
    assert 'model.onnx' in capsys.readouterr().out


def test_size_of_the_file_is_the_default(write_file, capsys):
    assert benchmark([write_file(size=[40, 56]), '--batch', '1', '--rounds', '1']) == 0
    assert '40x56' in capsys.readouterr().out


@pytest.mark.parametrize(
    ('words', 'message'),
    [
        (['--train'], '--train'),
        (['--compile'], '--compile'),
        (['--dtype', 'bf16'], '--dtype'),
        (['--batch', '8'], 'batch'),
        (['--size', '20'], 'size'),
    ],
)
def test_options_that_a_file_does_not_take_are_named(write_file, capsys, words, message):
    if '--batch' not in words:
        words = [*words, '--batch', '1']
    assert benchmark([write_file(), *words]) == 1
    assert message in capsys.readouterr().err.splitlines()[-1]
