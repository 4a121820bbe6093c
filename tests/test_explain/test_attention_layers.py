"""The attention probe in whole backbones: layers, statistics, large maps and errors."""

import json

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mmflatten.explain.attention import AttentionLayer, AttentionProbe
from mmflatten.explain.attention.statistics import (
    describe,
    effective_rank,
    head_statistics,
    singular_values,
    table,
)
from mmflatten.models.attention import FactorizedAttention, Windowed, build_mixer
from mmflatten.ops import merge_heads, split_heads
from mmflatten.registry import MODELS

SMALL = dict(embed_dims=16, depths=(1, 2), num_heads=(2, 4))
PVT = dict(
    arch=dict(SMALL, embed_dims=(16, 32), mlp_ratios=(2, 2)),
    attn_types='LS',
    linear_sr_ratios=(2, 1),
    sr_ratios=(2, 2),
    linear_attention=dict(type='CosFormerAttention'),
    out_indices=(1,),
)
BACKBONES = {
    'DeiT': dict(
        type='FLattenDeiT',
        patch_size=8,
        attn_types='LS',
        linear_attention=dict(type='EfficientAttention'),
        arch=dict(embed_dims=16, depth=2, num_heads=2),
    ),
    'ViT': dict(
        type='ViT',
        arch=dict(embed_dims=16, depth=2, num_heads=2, patch_size=8),
        attn_types='WS',
        window_size=4,
    ),
    'PVT': dict(PVT, type='FLattenPVT', with_cls_token=True),
    'PVTv2': dict(PVT, type='FLattenPVTv2'),
    'Swin': dict(
        type='FLattenSwin', arch=SMALL, attn_types='SS', softmax_window=4, out_indices=(0, 1)
    ),
    'L2ViT': dict(type='L2ViT', arch=SMALL, window_size=4, out_indices=(0, 1)),
    'CSwin': dict(
        type='FLattenCSwin',
        arch=SMALL,
        attn_types='SL',
        softmax_split=(1, 1),
        out_indices=(0, 1),
        linear_attention=dict(type='SimAAttention'),
    ),
    'Focal': dict(
        type='FocalTransformer',
        arch=SMALL,
        window_size=4,
        focal_windows=(3, 3),
        expand_size=1,
        out_indices=(0, 1),
    ),
}
# Layer, query map, key map and prefix tokens for an image of 41 x 50.
EXPECTED = {
    **dict.fromkeys(
        ('DeiT', 'ViT'), [('blocks.0', (6, 7), (6, 7), 1), ('blocks.1', (6, 7), (6, 7), 1)]
    ),
    'PVT': [
        ('stages.0.blocks.0', (11, 13), (6, 7), 0),
        ('stages.1.blocks.0', (6, 7), (3, 4), 1),
        ('stages.1.blocks.1', (6, 7), (3, 4), 1),
    ],
    'PVTv2': [
        ('stages.0.blocks.0', (11, 13), (6, 7), 0),
        ('stages.1.blocks.0', (6, 7), (3, 4), 0),
        ('stages.1.blocks.1', (6, 7), (3, 4), 0),
    ],
    **dict.fromkeys(
        ('Swin', 'L2ViT', 'CSwin', 'Focal'),
        [
            ('stages.0.blocks.0', (11, 13), (11, 13), 0),
            ('stages.1.blocks.0', (6, 7), (6, 7), 0),
            ('stages.1.blocks.1', (6, 7), (6, 7), 0),
        ],
    ),
}


def probed(name, size=(41, 50)):
    torch.manual_seed(0)
    model = MODELS.build(dict(BACKBONES[name], img_size=32)).double().eval()
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    with AttentionProbe(model) as probe, torch.inference_mode():
        model(torch.randn(2, 3, *size, dtype=torch.float64))
    return probe


@pytest.mark.parametrize('name', BACKBONES)
def test_layers_of_every_family(name):
    layers = probed(name).layers
    found = [
        (layer.name.rpartition('.attn.')[0], layer.hw, layer.kv_hw, layer.prefix)
        for layer in layers
    ]
    assert found == EXPECTED[name]
    for layer in layers:
        # Projections of a mixer, of the windows around one, or of stripes.
        outer = layer.module if hasattr(layer.module, 'qkv') else layer.module.mixer
        rows = layer.rows([0, layer.num_queries - 1], 'both')
        assert rows.shape == (2, layer.num_heads, layer.num_keys) and rows.isfinite().all()
        if layer.local or layer.kind.startswith('Focal') or 'in ' in layer.kind:
            continue
        value = outer.projections(layer.x, layer.hw)[2]
        result = merge_heads(layer.matrix()[None] @ split_heads(value, layer.num_heads))
        torch.testing.assert_close(
            outer.proj(result), layer.module(layer.x, layer.hw), rtol=0, atol=1e-6
        )


@pytest.mark.parametrize('name', BACKBONES)
def test_statistics_equal_those_of_the_full_matrix(name):
    for layer in probed(name).layers:
        statistics, matrix = head_statistics(layer, 10**6), layer.matrix()[:, layer.prefix :]
        y, x = (torch.arange(side) + 0.5 for side in layer.hw)
        rows, cols = (torch.arange(side) + 0.5 for side in layer.kv_hw)
        keys = torch.cartesian_prod(
            rows * layer.hw[0] / layer.kv_hw[0], cols * layer.hw[1] / layer.kv_hw[1]
        )
        away = torch.cdist(torch.cartesian_prod(y, x), keys).double()
        for head, found in zip(matrix, statistics, strict=True):
            on_map = head[:, layer.prefix :].abs()
            expected = dict(
                row_sum=head.sum(1).mean(),
                row_sum_min=head.sum(1).min(),
                row_sum_max=head.sum(1).max(),
                negative=-head.clamp(max=0).sum() / head.abs().sum(),
                distance=(on_map * away).sum() / on_map.sum(),
                uniform_distance=away.mean(),
                prefix=head[:, : layer.prefix].abs().sum() / head.abs().sum(),
            )
            for key, value in expected.items():
                assert found[key] == pytest.approx(value.item(), abs=1e-5, rel=1e-4), key
        described = dict(describe(layer, 8), number=0)
        assert layer.name in table([described])
        assert json.loads(json.dumps(described))['map'] == list(layer.hw)


def test_rows_on_window_padding_sum_to_less_than_one():
    """6 x 7 tokens in windows of 4: half of the attended tokens of the last window are padding."""
    assert all(
        head['row_sum'] < 0.99
        for head in head_statistics(probed('Swin').layer('stages.1.blocks.0.attn.fn'))
    )
    assert all(
        0 < head['prefix'] < 1 for head in head_statistics(probed('DeiT').layer('blocks.1.attn.fn'))
    )


def test_table_has_entropy_and_effective_rank():
    layer = probed('DeiT').layer('blocks.1.attn.fn')
    described = describe(layer, 10**6)
    ranks = effective_rank(singular_values(layer))
    assert [head['effective_rank'] for head in described['heads']] == pytest.approx(ranks.tolist())
    assert f'{float(ranks.mean()):.3f}' in table([dict(described, number=0)])
    described['heads'][0]['effective_rank'] = None  # of a large map
    assert table([dict(described, number=0)]).splitlines()[-1].split()[-2] == '-'


def test_signed_weights_have_negative_mass():
    sima = probed('CSwin').layer('1')
    assert all(0.1 < head['negative'] < 0.9 for head in head_statistics(sima))


class LargestTensor(TorchDispatchMode):
    """Record the bytes of the largest tensor that any operation returns, in the backward pass
    too.
    """

    nbytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        sizes = [
            leaf.untyped_storage().nbytes()
            for leaf in tree_leaves(result)
            if isinstance(leaf, torch.Tensor)
        ]
        self.nbytes = max([self.nbytes, *sizes])
        return result


@pytest.mark.parametrize(
    'kind',
    [
        'FocusedLinearAttention',
        'SoftmaxAttention',
        'Windowed',
        'FocalAttention',
        'FactorizedAttention',
    ],
)
def test_row_forms_no_matrix(kind):
    def mixer(kind):
        return build_mixer(dict(type=kind, embed_dims=32, num_heads=2, grid_size=(56, 56)))

    size, N = (64, 100), 6400
    x = torch.randn(1, N, 32)
    if kind == 'Windowed':
        module = Windowed(mixer('SoftmaxAttention'), (7, 7))
    elif kind == 'FactorizedAttention':
        module, x = FactorizedAttention(32, 32, num_heads=2), torch.randn(1, 32, *size)
    else:
        module = mixer(kind)
    with LargestTensor() as largest:
        row = AttentionLayer('large', module, x, size).row(3100)
    assert row.shape == (2, N) and row.isfinite().all()
    assert x.nbytes <= largest.nbytes < 4 * N * N / 8, (
        'an eighth of the matrix of one head in float32'
    )


def test_probe_removes_its_hooks():
    model = MODELS.build(dict(BACKBONES['Swin'], img_size=32)).eval()
    image = torch.randn(1, 3, 32, 32)
    before = [out.clone() for out in model(image)]
    with AttentionProbe(model) as probe:
        model(image)
    layer = probe.layer('0')
    layer.row(3)
    recorded = layer.x.clone()
    after = model(2 * image)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert torch.equal(layer.x, recorded)
    assert all(torch.equal(a, b) for a, b in zip(before, model(image)))
    assert not torch.equal(after[0], before[0]) and all(p.grad is None for p in model.parameters())


def test_probe_and_layer_errors_name_the_value():
    with pytest.raises(ValueError, match='Sequential'):
        AttentionProbe(nn.Sequential(nn.Linear(2, 2)))
    probe = probed('Swin')
    with pytest.raises(ValueError, match=r'layer.*stages\.9.*stages.1.blocks.1.attn.fn'):
        probe.layer('stages.9')
    with pytest.raises(ValueError, match='layer.*several.* fn.*stages.0'):
        probe.layer('fn')
    layer = probe.layer('blocks.1.attn.fn')
    assert layer.name == 'stages.1.blocks.1.attn.fn' and layer is probe.layer('2')
    for query in (-1, 42):
        with pytest.raises(ValueError, match=rf'query.* 41 .*stages.1.blocks.1.* {query}\.'):
            layer.row(query)
    with pytest.raises(ValueError, match=r'head.* 3 .* 4\.'):
        layer.row(0, head=4)
    with pytest.raises(ValueError, match='part.*dwc'):
        layer.row(0, part='dwc')
    with pytest.raises(ValueError, match='max_bytes.*4 x 42 x 42.*56448.*1000'):
        layer.matrix(max_bytes=1000)
    assert layer.token_at(49, 40, (41, 50)) == 41 and layer.token_at(0, 0, (41, 50)) == 0
    for x, y in ((50, 0), (0, 41), (-1, 0)):
        with pytest.raises(ValueError, match=f'query.* 50 .* 41 .* {x},{y}'):
            layer.token_at(x, y, (41, 50))


def test_windows_of_reduced_keys_are_rejected():
    module = Windowed(
        build_mixer(
            dict(type='SoftmaxAttention', embed_dims=4, num_heads=1, grid_size=(4, 4), sr_ratio=2)
        ),
        (4, 4),
    )
    with AttentionProbe(module) as probe:
        module(torch.randn(1, 64, 4), (8, 8))
    with pytest.raises(ValueError, match='sr_ratio.*2'):
        probe.layers[0].row(0)
