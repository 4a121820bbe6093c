"""The GPU check of the kernels, run on the CPU with small models."""
import json

import pytest
import torch
from gpu_sheet import correctness, speed
from gpu_sheet.sheet import sheet

from mmflatten.measure.flops.meta import parameters_on_meta
from mmflatten.measure.flops.model_cost import count_parameters
from mmflatten.measure.speed.models import build_model

SMALL = 'FLattenSwin:arch=dict(embed_dims=16,depths=(1,1,1,1),num_heads=(1,1,2,2)),img_size=64'


@pytest.fixture
def tool(load_tool, monkeypatch):
    """The tool with small models."""
    monkeypatch.setattr(correctness, 'FAMILIES', {'small': SMALL, 'mixed': f'{SMALL},attn_types=LLSS'})
    monkeypatch.setattr(speed, 'MODELS', {'FLatten': SMALL, 'softmax': f'{SMALL},attn_types=SSSS'})
    return load_tool('gpu_check')


def test_gpu_check_quick_runs_all_checks(tool, tmp_path, capsys):
    assert tool.main(['--device', 'cpu', '--quick', '--json', str(tmp_path / 'sheet.json')]) == 0
    result = json.loads((tmp_path / 'sheet.json').read_text())
    assert {row['way'] for row in result['attentions']} >= {'kernels', 'kernels of images', 'eager', 'softmax (SDPA)'}
    assert {row['dtype'] for row in result['families']} == {'fp16', 'bf16'}
    assert all(row['forward_s'] > 0 and row['training_s'] > 0 for row in result['attentions'])
    printed = capsys.readouterr().out
    assert all(row['model'] in printed for row in result['models'])


def test_gpu_check_lists_skipped_checks_and_fails(tool, monkeypatch, capsys):
    monkeypatch.setattr(tool, 'SECONDS', 0)
    assert tool.main(['--device', 'cpu', '--quick']) == 1
    printed = capsys.readouterr().out
    assert all(f"family_rows ('{family}',)" in printed for family in list(correctness.FAMILIES)[:2])


def test_sheet_lists_wrong_operators():
    rows = [dict(size=[1, 3, 49, 32], feature_map='focused', dtype='fp16', error=.5, ok=False)]
    result = dict(machine={}, kernels=True, copy_bytes_s=1e12, operators=rows, families=[], attentions=[], models=[],
                  left_out=[])
    assert 'focused fp16 [1, 3, 49, 32]: 5.0e-01' in sheet(result)


def test_fused_as_image_uses_the_image_kernels_for_a_window():
    q, k, v, local = torch.randn(4, 2, 49, 32).bfloat16().requires_grad_()
    kept = []
    for way in (speed.fused, speed.fused_as_image, speed.fused):
        with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.shape) or x, lambda x: x):
            way(q, k, v, local, torch.ones(32), 2)
    assert [shape for shape in kept if shape[-2:] == (17, 16)] == [(2, 2, 17, 16)]


def test_families_of_the_sheet_can_be_built():
    with parameters_on_meta():
        assert all(count_parameters(build_model(spec, (224, 224))) > 0 for spec in correctness.FAMILIES.values())
