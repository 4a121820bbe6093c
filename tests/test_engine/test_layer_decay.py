"""Layer-wise learning rates and weight decay in the parameter groups of every family."""

import re

import pytest
from mmengine.optim import build_optim_wrapper
from mmengine.registry import MODELS, DefaultScope
from torch import nn

PYRAMID = dict(embed_dims=8, depths=(1, 2), num_heads=(1, 2))
STAGES = dict(embed_dims=(8, 16), depths=(1, 2), num_heads=(1, 2), mlp_ratios=(4.0, 4.0))
BACKBONES = dict(
    flatten_swin=dict(type='FLattenSwin', arch=PYRAMID, attn_types='LS'),
    flatten_cswin=dict(type='FLattenCSwin', arch=PYRAMID, attn_types='LS', softmax_split=(1, 2)),
    flatten_pvt=dict(
        type='FLattenPVT', arch=STAGES, attn_types='LS', linear_sr_ratios=(1, 1), sr_ratios=(8, 2)
    ),
    flatten_pvt_v2=dict(
        type='FLattenPVTv2', arch=STAGES, attn_types='LS', linear_sr_ratios=(1, 1), sr_ratios=(8, 2)
    ),
    flatten_deit=dict(
        type='FLattenDeiT', arch=dict(embed_dims=8, depth=3, num_heads=2), attn_types='LSL'
    ),
    l2vit=dict(type='L2ViT', arch=PYRAMID, last_projection=16),
    focal=dict(type='FocalTransformer', arch=PYRAMID, focal_windows=(7, 5)),
)
# Positional parameters: tables, and DeiT's class token, which has a row in the position table.
POSITIONS = (
    'relative_position_bias',
    'neighbor_bias',
    'pooled_bias',
    'position.table',
    'cls_token',
)
EXCEPTIONS = dict(
    norm_decay_mult=0.0,
    bias_decay_mult=0.0,
    flat_decay_mult=0.0,
    custom_keys={name: dict(decay_mult=0.0) for name in POSITIONS},
)
RATE, LR, DECAY = 0.5, 1e-3, 0.05
OURS = 'mmflatten.LayerDecayOptimWrapperConstructor'


def classifier(family: str) -> nn.Module:
    cfg = dict(BACKBONES[family])
    last = {} if family == 'flatten_deit' else dict(out_indices=(1,))
    cfg.update(type=f'mmflatten.{cfg["type"]}', img_size=56, **last)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        return MODELS.build(
            dict(
                type='ImageClassifier',
                backbone=cfg,
                head=dict(type='LinearClsHead', num_classes=3, in_channels=16),
                neck=None if family == 'flatten_deit' else dict(type='GlobalAveragePooling'),
            )
        )


def groups_of(model: nn.Module, constructor: str = OURS, **paramwise: object) -> dict[str, dict]:
    """Return the optimizer's settings by the name of the trained parameter."""
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        wrapper = build_optim_wrapper(
            model,
            dict(
                optimizer=dict(type='AdamW', lr=LR, weight_decay=DECAY),
                constructor=constructor,
                paramwise_cfg=paramwise,
            ),
        )
    found = {}
    for group in wrapper.optimizer.param_groups:
        found.update((id(parameter), group) for parameter in group['params'])
    return {
        name: found[id(parameter)]
        for name, parameter in model.named_parameters()
        if id(parameter) in found
    }


def layer(name: str) -> int:
    """Return the layer of a parameter in the models above, which have three blocks."""
    if match := re.match(r'backbone\.blocks\.(\d)', name):
        return int(match[1]) + 1
    if match := re.match(r'backbone\.stages\.(\d)\.(\w+)(?:\.(\d))?', name):
        stage, part, block = match.groups()
        if stage == '0':
            return 1 if part in ('blocks', 'norm') else 0
        return {'blocks': 2 + int(block or 0), 'norm': 3}.get(part, 2)
    return 0 if name.startswith('backbone.embed') else 4


@pytest.mark.parametrize('family', BACKBONES)
def test_rates_halve_per_layer_and_norms_biases_and_positions_have_no_weight_decay(family):
    model = classifier(family)
    groups = groups_of(model, layer_decay_rate=RATE, **EXCEPTIONS)
    parameters = dict(model.named_parameters())
    norms = {
        f'{name}.weight'
        for name, module in model.named_modules()
        if isinstance(module, (nn.LayerNorm, nn.BatchNorm2d))
    }
    assert groups.keys() == parameters.keys()
    assert {layer(name) for name in groups} == set(range(5)), 'embedding, three blocks, head'
    for name, group in groups.items():
        assert group['lr'] == pytest.approx(LR * RATE ** (4 - layer(name))), name
        excluded = (
            name.endswith('.bias')
            or name in norms
            or parameters[name].ndim == 1
            or any(position in name for position in POSITIONS)
        )
        assert group['weight_decay'] == (0 if excluded else DECAY), name
    full = {name for name, group in groups.items() if group['lr'] == LR}
    assert {'head.fc.weight', 'head.fc.bias'} <= full
    assert all(re.match(r'head\.|backbone\.(norms|last_projection)\.', name) for name in full)


def test_rates_equal_those_of_mmpretrains_constructor():
    model = classifier('flatten_deit')
    theirs = groups_of(
        model, 'LearningRateDecayOptimWrapperConstructor', layer_decay_rate=RATE, **EXCEPTIONS
    )
    ours = groups_of(model, layer_decay_rate=RATE, **EXCEPTIONS)
    for name, group in theirs.items():
        assert group['lr'] == pytest.approx(ours[name]['lr'])
        assert group['weight_decay'] == ours[name]['weight_decay']


def test_other_rules_apply_and_frozen_parameters_are_left_out():
    model = classifier('flatten_swin')
    model.head.requires_grad_(False)
    groups = groups_of(
        model, layer_decay_rate=RATE, custom_keys={'stages.0.embed': dict(lr_mult=0.1)}
    )
    assert 'head.fc.weight' not in groups
    assert groups['backbone.stages.0.embed.projection.weight']['lr'] == pytest.approx(
        LR * 0.1 * RATE**4
    )


@pytest.mark.parametrize('rate', [None, 0, 1.5])
def test_invalid_rate_is_rejected(rate):
    with pytest.raises(ValueError, match=f'layer_decay_rate: .*got {rate}'):
        groups_of(
            classifier('flatten_swin'), **({} if rate is None else dict(layer_decay_rate=rate))
        )


def test_backbone_without_layer_depth_is_rejected():
    model = nn.Module()
    model.backbone = nn.Linear(1, 1)
    with pytest.raises(ValueError, match='get_layer_depth.*Linear'):
        groups_of(model, layer_decay_rate=RATE)
