"""A rate of its own for the backbone, beside the other rules of `paramwise_cfg`."""

import pytest
from mmengine.optim import build_optim_wrapper
from torch import nn

LR, DECAY = 1e-3, 0.05


def model() -> nn.Module:
    detector = nn.Module()
    detector.backbone = nn.ModuleDict(
        dict(norm=nn.LayerNorm(2), stem=nn.Linear(2, 2), position=nn.Embedding(2, 2))
    )
    detector.head = nn.ModuleDict(dict(norm=nn.LayerNorm(2), fc=nn.Linear(2, 2)))
    return detector


def groups_of(detector: nn.Module, **paramwise: object) -> dict[str, tuple[float, float]]:
    """Return rate and weight decay by the name of the trained parameter."""
    wrapper = build_optim_wrapper(
        detector,
        dict(
            optimizer=dict(type='AdamW', lr=LR, weight_decay=DECAY),
            constructor='mmflatten.BackboneRateOptimWrapperConstructor',
            paramwise_cfg=paramwise,
        ),
    )
    names = {id(parameter): name for name, parameter in detector.named_parameters()}
    found = {}
    for group in wrapper.optimizer.param_groups:
        for parameter in group['params']:
            found[names[id(parameter)]] = group['lr'], group['weight_decay']
    return found


def test_backbone_has_its_rate_and_the_other_rules_apply_to_it():
    detector = model()
    detector.backbone.stem.bias.requires_grad_(False)
    groups = groups_of(
        detector,
        backbone_lr_mult=0.1,
        norm_decay_mult=0.0,
        custom_keys=dict(position=dict(decay_mult=0.0), fc=dict(lr_mult=0.5)),
    )
    assert groups == {
        'backbone.norm.weight': (LR * 0.1, 0.0),
        'backbone.norm.bias': (LR * 0.1, 0.0),
        'backbone.stem.weight': (LR * 0.1, DECAY),
        'backbone.position.weight': (LR * 0.1, 0.0),
        'head.norm.weight': (LR, 0.0),
        'head.norm.bias': (LR, 0.0),
        'head.fc.weight': (LR * 0.5, DECAY),
        'head.fc.bias': (LR * 0.5, DECAY),
    }


@pytest.mark.parametrize('factor', [None, 0, 1.5])
def test_invalid_factor_is_rejected(factor):
    with pytest.raises(ValueError, match=f'backbone_lr_mult: .*got {factor}'):
        groups_of(model(), backbone_lr_mult=factor)
