"""The run sheet of the kernels, on the CPU and in tiny sizes: the figures mean nothing, but all of it runs."""
import importlib.util
import json
from pathlib import Path

import pytest
import torch
from gpu_sheet import correctness, speed
from gpu_sheet.sheet import sheet

from mmflatten.measure.flops.meta import parameters_on_meta
from mmflatten.measure.flops.model_cost import count_parameters
from mmflatten.measure.speed.models import build_model

TOOL = Path(__file__).parents[2] / 'tools' / 'maintain' / 'gpu_check.py'


@pytest.fixture(scope='module')
def tool():
    spec = importlib.util.spec_from_file_location('gpu_check_tool', TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_quick_sheet_checks_and_times_everything(tool, tmp_path, capsys):
    assert tool.main(['--device', 'cpu', '--quick', '--json', str(tmp_path / 'sheet.json')]) == 0
    result = json.loads((tmp_path / 'sheet.json').read_text())
    assert {row['way'] for row in result['attentions']} >= {'kernels', 'kernels of images', 'eager', 'softmax (SDPA)'}
    assert {row['dtype'] for row in result['families']} == {'fp16', 'bf16'}
    assert all(row['forward_s'] > 0 and row['training_s'] > 0 for row in result['attentions'])
    printed = capsys.readouterr().out
    assert all(row['model'] in printed for row in result['models'])


def test_what_there_was_no_time_for_is_named_and_not_a_success(tool, monkeypatch, capsys):
    monkeypatch.setattr(tool, 'SECONDS', 0)
    assert tool.main(['--device', 'cpu', '--quick']) == 1
    printed = capsys.readouterr().out
    assert all(f"family_rows ('{family}',)" in printed for family in list(correctness.FAMILIES)[:2])


def test_a_wrong_operator_is_found_and_shown():
    rows = [dict(size=[1, 3, 49, 32], feature_map='focused', dtype='fp16', error=.5, ok=False)]
    result = dict(machine={}, kernels=True, copy_bytes_s=1e12, operators=rows, families=[], attentions=[], models=[],
                  left_out=[])
    assert 'focused fp16 [1, 3, 49, 32]: 5.0e-01' in sheet(result)


def test_windows_can_be_timed_by_the_kernels_of_images_too():
    q, k, v, local = torch.randn(4, 2, 49, 32).bfloat16().requires_grad_()
    kept = []
    for way in (speed.fused, speed.fused_as_image, speed.fused):
        with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.shape) or x, lambda x: x):
            way(q, k, v, local, torch.ones(32), 2)
    assert [shape for shape in kept if shape[-2:] == (17, 16)] == [(2, 2, 17, 16)]


def test_every_family_of_the_sheet_can_be_built():
    with parameters_on_meta():
        assert all(count_parameters(build_model(spec, (224, 224))) > 0 for spec in correctness.FAMILIES.values())
