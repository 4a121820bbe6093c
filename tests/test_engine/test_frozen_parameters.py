"""Frozen parameters: the optimizer leaves them out, and one line of the log sums them up."""

import logging

import pytest
from mmengine.optim import build_optim_wrapper
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from mmflatten.engine.optim import frozen_summary
from mmflatten.engine.setup import build_runner, load_config

BACKBONE = dict(
    type='mmflatten.FLattenSwin',
    arch=dict(embed_dims=8, depths=(1, 1), num_heads=(1, 1)),
    attn_types='LS',
    img_size=32,
    out_indices=(1,),
)
HEAD = dict(type='LinearClsHead', num_classes=2, in_channels=16)
OURS, THEIRS = 'mmflatten.OptimWrapperConstructor', 'DefaultOptimWrapperConstructor'
RULES = dict(norm_decay_mult=0.0, bias_decay_mult=0.0, custom_keys={'stages.1': dict(lr_mult=0.1)})


@pytest.fixture
def model() -> nn.Module:
    """A classifier with a frozen stage, and with a module that is frozen in part."""
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        built = MODELS.build(
            dict(
                type='ImageClassifier',
                backbone=BACKBONE,
                head=HEAD,
                neck=dict(type='GlobalAveragePooling'),
            )
        )
    built.backbone.stages[0].requires_grad_(False)
    built.head.fc.bias.requires_grad_(False)
    return built


def groups_of(model: nn.Module, constructor: str) -> dict[str, tuple]:
    """Return learning rate and weight decay by the name of the parameter, in the order of the
    groups.
    """
    wrapper = build_optim_wrapper(
        model,
        dict(
            optimizer=dict(type='AdamW', lr=1e-3, weight_decay=0.05),
            constructor=constructor,
            paramwise_cfg=RULES,
        ),
    )
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = {}
    for group in wrapper.optimizer.param_groups:
        for parameter in group['params']:
            found[names[id(parameter)]] = (group['lr'], group['weight_decay'])
    return found


def test_groups_are_those_of_mmengine_without_its_warnings(model, caplog):
    state = list(model.state_dict())
    with caplog.at_level(logging.WARNING):
        ours = groups_of(model, OURS)
        assert not caplog.records
        theirs = groups_of(model, THEIRS)
    assert list(ours.items()) == list(theirs.items())
    assert 'head.fc.weight' in ours and 'head.fc.bias' not in ours
    assert list(model.state_dict()) == state


def test_summary_counts_by_part(model):
    frozen = sum(parameter.numel() for parameter in model.backbone.stages[0].parameters())
    total = sum(parameter.numel() for parameter in model.parameters())
    backbone = sum(parameter.numel() for parameter in model.backbone.parameters())
    text = frozen_summary(model)
    assert f'{(total - frozen - 2) / 1e6:.3g} M of {total / 1e6:.3g} M' in text
    assert f'backbone {frozen / 1e6:.3g} M of {backbone / 1e6:.3g} M' in text
    assert frozen_summary(model.requires_grad_(True)) is None


def test_training_logs_the_summary_and_no_warning(tiny, capsys):
    tiny.write_config(extra="model['backbone']['frozen_stages'] = 1")
    config = load_config(str(tiny.config), {'train_cfg.max_epochs': 1})
    config.optim_wrapper = dict(
        optimizer=dict(type='AdamW', weight_decay=0.05), paramwise_cfg=dict(norm_decay_mult=0.0)
    )
    build_runner(config).train()
    printed = capsys.readouterr()
    lines = [
        line for line in (printed.out + printed.err).splitlines() if 'Frozen: backbone' in line
    ]
    assert len(lines) == 1 and 'WARNING' not in printed.out + printed.err
