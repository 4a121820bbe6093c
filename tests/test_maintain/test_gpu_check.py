"""The GPU check of the kernels, rehearsed on the CPU with small models."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_sheet import correctness, training

from mmflatten.measure.flops.meta import parameters_on_meta
from mmflatten.measure.flops.model_cost import count_parameters
from mmflatten.measure.speed.models import build_from_spec
from mmflatten.ops.linear.kernels import has_triton

if not has_triton():
    pytest.skip(
        'Triton 3.6 or newer is not installed, which has no wheels outside Linux',
        allow_module_level=True,
    )


CONFIG = (
    'MODEL: {DROP_PATH_RATE: 0.2, SWIN: {EMBED_DIM: 8, WINDOW_SIZE: 56}, LA: {ATTN_TYPE: LLSS}}'
)
OFFICIAL = """
import torch
class FLattenSwinTransformer(torch.nn.Conv2d):
    def __init__(self, embed_dim, window_size, attn_type, img_size, drop_path_rate,
                 focusing_factor, kernel_size):
        super().__init__(3, embed_dim, kernel_size)
"""


@pytest.fixture
def tool(load_tool):
    return load_tool('gpu_check')


def official_code(folder):
    """Stand-in for the official code, with its names: a model, and the config that it is built
    from.
    """
    for part, name, text in (
        ('models', 'flatten_swin.py', OFFICIAL),
        ('cfgs', 'flatten_swin_t.yaml', CONFIG),
    ):
        (folder / part).mkdir()
        (folder / part / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    'only',
    [
        ['attention focused bf16 (4, 3, 49, 32)', 'speed tiny'],
        pytest.param([''], marks=pytest.mark.full),
    ],
)
def test_gpu_check_rehearses_checks_and_continues_after_a_kill(tool, tmp_path, capsys, only):
    out, official = tmp_path / 'sheet.jsonl', official_code(tmp_path)
    command = [
        '--device',
        'cpu',
        '--quick',
        '--out',
        str(out),
        '--official',
        str(official),
        '--only',
        *only,
    ]
    assert tool.main([*command, '--minutes', '0']) == 1
    assert 'Run the same command again' in capsys.readouterr().out
    out.write_text(out.read_text() + '{"check": "compile", "rows": [{"ok"')  # killed while writing
    assert tool.main(command) == 0, capsys.readouterr().out
    records = [json.loads(line) for line in out.read_text().splitlines() if line.endswith('}')]
    done = {record['check']: record['rows'] for record in records if 'rows' in record}
    every = tool.correctness_checks('cpu', True) | tool.speed_checks('cpu', True, official)
    chosen = set()
    for text in only:
        chosen |= {name for name in every if text in name}
    assert set(done) == chosen
    assert set(done['attention focused bf16 (4, 3, 49, 32)'][0]['errors']) == {
        'y',
        'grad_q',
        'grad_k',
        'grad_v',
        'grad_position',
        'grad_rescale',
    }
    assert {row['way'] for row in done['speed tiny']} == {
        'kernels',
        'eager',
        'softmax (SDPA)',
        'compiled eager',
    }
    for rows in done.values():
        assert all(row['images_s'] > 0 for row in rows if 'model' in row)
    size = out.stat().st_size
    assert tool.main(command) == 0
    assert out.stat().st_size == size  # nothing is measured twice


def test_gpu_check_lists_and_repeats_wrong_and_failed_checks(tool, tmp_path, capsys, monkeypatch):
    wrong = dict(errors=dict(y=0.5), ok=False)
    monkeypatch.setattr(tool, 'correctness_checks', lambda *args: {})
    monkeypatch.setattr(
        tool, 'speed_checks', lambda *args: {'fails': lambda: 1 / 0, 'wrong': lambda: [wrong]}
    )
    out = tmp_path / 'sheet.jsonl'
    command = ['--device', 'cpu', '--quick', '--out', str(out)]
    assert tool.main([*command, '--only', 'other']) != 0 and '--only: ' in capsys.readouterr().err
    assert tool.main(command) == tool.main(command) == 1
    printed = capsys.readouterr().out
    assert '- wrong: y 5.0e-01' in printed and '- fails: ZeroDivisionError' in printed
    assert out.read_text().count('ZeroDivisionError') == out.read_text().count('"wrong"') == 2


@pytest.mark.full
def test_carried_folder_runs_without_this_repository(tool, tmp_path):
    folder = tmp_path / 'carried'
    assert tool.main(['--carry', str(folder)]) == 0
    for name in ('torch', 'numpy', 'torchvision', 'triton'):  # of the other machine
        assert not (folder / 'packages' / name).exists()
    path = f'{Path(sys.executable).parent}:{os.environ["PATH"]}'
    run = subprocess.run(
        ['bash', folder / 'run.sh', '--device', 'cpu', '--quick', '--only', 'training FL'],
        env={**os.environ, 'PATH': path},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert (folder / 'gpu_check.jsonl').exists() and '| FLatten-Swin-T, kernels' in run.stdout


def test_gpu_check_rejects_results_of_another_call(tool, tmp_path, capsys):
    out = tmp_path / 'sheet.jsonl'
    out.write_text('{"machine": {}, "device": "cuda", "quick": false}\n')
    assert tool.main(['--device', 'cpu', '--quick', '--out', str(out)]) != 0
    assert '--out: ' in capsys.readouterr().err


def test_families_of_the_sheet_can_be_built():
    specs = list(correctness.FAMILIES.values())
    for pair in (*training.TWINS.values(), *training.OURS.values()):
        specs += pair
    with parameters_on_meta():
        assert all(count_parameters(build_from_spec(spec, (224, 224))) > 0 for spec in specs)
