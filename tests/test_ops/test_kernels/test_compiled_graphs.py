"""Compiled graphs keep the fused operator, and exported graphs do not have it."""

import itertools
import operator

import pytest
import torch

from mmflatten.models import backbones
from mmflatten.ops.sizes import is_exporting
from tests.test_ops.test_kernels import closed_form

closed_form.register()

LETTERS = dict(
    arch=dict(embed_dims=16, depths=(1,), num_heads=(2,)),
    img_size=64,
    attn_types='L',
    out_indices=(0,),
)
PYRAMID = dict(
    LETTERS,
    arch=dict(LETTERS['arch'], embed_dims=(16,), mlp_ratios=(2,)),
    linear_sr_ratios=(1,),
    sr_ratios=(1,),
)
LINEAR = {
    'FLattenSwin': LETTERS,
    'FLattenPVT': PYRAMID,
    'FLattenPVTv2': PYRAMID,
    'FLattenCSwin': dict(LETTERS, softmax_split=(2,)),
    'FLattenDeiT': dict(
        arch=dict(embed_dims=16, depth=1, num_heads=2), img_size=64, attn_types='L'
    ),
    'L2ViT': dict(arch=dict(LETTERS['arch'], depths=(2,)), img_size=64, out_indices=(0,)),
}
# Outside the full sweep, a backbone with windows, one with reduced keys and one with its own mixer.
QUICK = ('FLattenSwin', 'FLattenPVT', 'L2ViT')
PRODUCTS = (torch.matmul, torch.bmm, operator.matmul, torch.baddbmm)


class Asks(torch.nn.Module):
    def forward(self, x):
        return x + 1 if is_exporting() else x


def test_only_exports_are_exports():
    x = torch.zeros(1)
    assert torch.compile(Asks(), backend='eager', fullgraph=True)(x) == 0 == Asks()(x)
    assert torch.export.export(Asks(), (x,), strict=False).module()(x) == 1
    assert torch.export.export(Asks(), (x,), strict=True).module()(x) == 1


@pytest.mark.parametrize(
    'name',
    [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.full]) for name in LINEAR],
)
def test_compiled_backbones_call_the_fused_operator(name, monkeypatch):
    monkeypatch.setattr(
        'mmflatten.ops.linear.kernels.attention.pick_kernel',
        lambda *args, **kwargs: not is_exporting(),
    )
    torch.compiler.reset()
    torch.manual_seed(0)
    model = getattr(backbones, name)(**LINEAR[name]).train()
    attentions = sum(
        hasattr(module, 'attend') and 'Linear' in type(module).__name__
        for module in model.modules()
    )
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph.graph)
        return graph.forward

    with torch.autocast('cpu', torch.bfloat16):
        torch.compile(model, backend=keep, fullgraph=True)(torch.randn(2, 3, 64, 64))
    nodes = list(itertools.chain.from_iterable(graph.nodes for graph in graphs))
    calls = [node for node in nodes if 'mmflatten.linear_attention' in str(node.target)]
    assert len(calls) == attentions > 0
    assert not [node for node in nodes if node.target in PRODUCTS or node.target == 'matmul']
