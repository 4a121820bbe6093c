"""Attention in mmdet's ResNet, ResNeXt and FPN: its positions, and that everything else is
unchanged.
"""

import sys

import pytest
import torch
import torchvision
from mmdet.models import FPN, ResNet
from mmengine.registry import DefaultScope
from torch import nn

from mmflatten.models.attention import ConventionalAttention, FactorizedAttention
from mmflatten.models.detection import AttentionFPN, AttentionResNet, AttentionResNeXt
from mmflatten.registry import MODELS

ATTENTION = dict(type='FactorizedAttention', basis_channels=8)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def resnet(cls=AttentionResNet, **kwargs):
    return cls(depth=18, base_channels=8, **kwargs)


def randomise(model):
    """Set norms to random values, because zeros would hide a branch."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return model


def attentions_of(model):
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, FactorizedAttention)
    }


def image(height=64, width=96):
    return torch.randn(2, 3, height, width, generator=torch.Generator().manual_seed(1))


def levels():
    generator = torch.Generator().manual_seed(1)
    return [
        torch.randn(2, channels, size, size + 2, generator=generator)
        for channels, size in ((4, 16), (8, 8), (16, 4))
    ]


def fpn(cls=AttentionFPN, **kwargs):
    return cls(in_channels=[4, 8, 16], out_channels=8, num_outs=4, **kwargs)


def test_attention_resnet_attends_after_the_last_block():
    model = resnet(attention_after=(4, 3), attention=ATTENTION)
    assert {name: module.in_channels for name, module in attentions_of(model).items()} == {
        'layer3.attention': 32,
        'layer4.attention': 64,
    }
    assert list(model.layer3._modules) == ['0', '1', 'attention']
    seen = {}
    model.layer3[1].register_forward_hook(lambda module, args, out: seen.update(block=out))
    model.layer4[0].register_forward_pre_hook(lambda module, args: seen.update(next=args[0]))
    outputs = model.eval()(image())
    attended = model.layer3.attention(seen['block'])
    assert torch.equal(outputs[2], attended) and torch.equal(seen['next'], attended)
    assert not torch.equal(attended, seen['block'])


def test_attention_resnet_channels_match_the_stages():
    # The paper's res3 and res4: 1024 channels at stride 16, 2048 at stride 32.
    with torch.device('meta'):
        models = [
            AttentionResNet(50, attention_after=(3, 4)),
            AttentionResNeXt(depth=101, groups=64, base_width=4, attention_after=(3, 4)),
        ]
    for model in models:
        assert [module.in_channels for module in attentions_of(model).values()] == [1024, 2048]
        shapes = [tuple(out.shape) for out in model(torch.empty(1, 3, 64, 64, device='meta'))]
        assert shapes[2:] == [(1, 1024, 4, 4), (1, 2048, 2, 2)]


def test_networks_without_positions_have_plain_keys():
    for ours, plain, make in ((AttentionResNet, ResNet, resnet), (AttentionFPN, FPN, fpn)):
        assert make(ours).state_dict().keys() == make(plain).state_dict().keys()


@pytest.mark.parametrize('cls', [FactorizedAttention, ConventionalAttention])
def test_zero_init_keeps_backbone_and_neck_outputs(cls):
    attention = dict(ATTENTION, type=cls.__name__, zero_init=True)
    for plain_cls, ours_cls, make, positions, x in (
        (ResNet, AttentionResNet, resnet, (1, 2, 3, 4), image()),
        (FPN, AttentionFPN, fpn, (1, 2, 3, 4), levels()),
    ):
        plain, ours = (
            randomise(make(plain_cls)),
            make(ours_cls, attention_after=positions, attention=attention),
        )
        ours.init_weights()
        missing, unexpected = ours.load_state_dict(plain.state_dict(), strict=False)
        assert missing and all('attention' in key for key in missing) and not unexpected
        plain.eval(), ours.eval()
        for out, expected in zip(ours(x), plain(x), strict=True):
            assert torch.equal(out, expected)


def detector(**positions):
    anchors = dict(type='AnchorGenerator', scales=[8], ratios=[1.0], strides=[4, 8, 16, 32])
    attention = dict(ATTENTION, zero_init=True)
    with DefaultScope.overwrite_default_scope('mmdet'):
        return MODELS.build(
            dict(
                type='mmdet.RetinaNet',
                data_preprocessor=dict(type='DetDataPreprocessor'),
                backbone=dict(
                    type='mmflatten.AttentionResNet',
                    depth=18,
                    base_channels=8,
                    attention=attention,
                    attention_after=positions.get('stages', ()),
                ),
                neck=dict(
                    type='mmflatten.AttentionFPN',
                    in_channels=[8, 16, 32, 64],
                    out_channels=16,
                    num_outs=4,
                    attention=attention,
                    attention_after=positions.get('levels', ()),
                ),
                bbox_head=dict(
                    type='RetinaHead',
                    num_classes=3,
                    in_channels=16,
                    feat_channels=16,
                    stacked_convs=1,
                    anchor_generator=anchors,
                ),
            )
        )


def test_zero_init_keeps_detector_outputs_until_training():
    plain, ours = randomise(detector()), detector(stages=(3, 4), levels=(1, 2, 3, 4))
    missing, unexpected = ours.load_state_dict(plain.state_dict(), strict=False)
    assert len(missing) == 6 * 8 and not unexpected
    plain.eval(), ours.eval()
    for outs, expected in zip(ours._forward(image()), plain._forward(image()), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(outs, expected, strict=True))
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.1)
    # the first step changes the reprojection, the second also the layers before it
    for _ in range(2):
        optimizer.zero_grad()
        loss = 0
        for outs in ours._forward(image()):
            loss = loss + sum(out.square().mean() for out in outs)
        loss.backward()
        optimizer.step()
    for name, attention in attentions_of(ours).items():
        assert attention.values.weight.grad.any() and attention.reprojection.weight.any(), name


def test_attention_resnet_loads_torchvision_weights(tmp_path):
    reference = randomise(torchvision.models.resnet18(weights=None)).eval()
    torch.save(reference.state_dict(), tmp_path / 'resnet18.pth')
    model = MODELS.build(
        dict(
            type='mmflatten.AttentionResNet',
            depth=18,
            attention_after=(3,),
            attention=dict(ATTENTION, zero_init=True),
            init_cfg=dict(type='Pretrained', checkpoint=str(tmp_path / 'resnet18.pth')),
        )
    )
    model.init_weights()
    x = reference.maxpool(reference.relu(reference.bn1(reference.conv1(image()))))
    for stage, out in enumerate(model.eval()(image()), 1):
        x = getattr(reference, f'layer{stage}')(x)
        assert torch.equal(out, x)
    assert model.layer3.attention.basis.weight.any()
    assert not model.layer3.attention.reprojection.weight.any()


def test_attention_resnet_keeps_frozen_stages_and_norms():
    model = resnet(attention_after=(1, 3), attention=ATTENTION, frozen_stages=1, norm_eval=True)
    assert model.train() is model and model.eval() is model
    model.train()
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    assert norms and not any(norm.training for norm in norms)
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    assert frozen == {
        name
        for name, _ in model.named_parameters()
        if name.startswith(('conv1', 'bn1', 'layer1')) and 'attention' not in name
    }
    # New weights in a frozen stage must be trained.
    assert model.layer1.attention.training and not model.layer1[0].training
    model(image())[-1].sum().backward()
    assert model.layer1.attention.values.weight.grad.any() and model.conv1.weight.grad is None


def test_attention_resnet_trains_norms_without_norm_eval():
    model = resnet(
        attention_after=(3,), attention=ATTENTION, frozen_stages=1, norm_eval=False
    ).train()
    assert model.layer2[0].bn1.training and not model.layer1[0].bn1.training


def test_attention_fpn_applies_one_attention_per_level():
    plain, ours = fpn(FPN), fpn(attention_after=(1, 3), attention=ATTENTION)
    ours.load_state_dict(plain.state_dict(), strict=False)
    outs, expected = ours(levels()), plain(levels())
    for level, (out, source) in enumerate(zip(outs, expected, strict=True), 1):
        attention = ours.attentions[str(level)] if level in (1, 3) else nn.Identity()
        torch.testing.assert_close(out, attention(source), rtol=0, atol=0)
        assert out.is_contiguous()  # RoIAlign of mmcv misreads any other layout
    assert not torch.equal(outs[2], expected[2])


def test_attention_fpn_initialises_its_attention():
    neck = fpn(attention_after=(2,), attention=dict(ATTENTION, zero_init=True))
    nn.init.ones_(neck.attentions['2'].reprojection.weight)
    neck.init_weights()
    assert not neck.attentions['2'].reprojection.weight.any()


@pytest.mark.parametrize('positions', [(0,), (5,), (1, 1), 3, '3', (1.0,)])
@pytest.mark.parametrize('make, what', [(resnet, 'stage'), (fpn, 'level')])
def test_attention_after_rejects_invalid_positions(make, what, positions):
    with pytest.raises(ValueError, match=rf'attention_after.*{what}'):
        make(attention_after=positions, attention=ATTENTION)


@pytest.mark.parametrize('make', [resnet, fpn])
def test_networks_reject_attention_that_changes_channels(make):
    attention = dict(ATTENTION, residual=False, reprojection=False, value_channels=16)
    with pytest.raises(ValueError, match='attention.* 16'):
        make(attention_after=(1,), attention=attention)


def test_missing_mmdet_is_named(monkeypatch):
    for module in ('mmdet', 'mmdet.models.necks'):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, 'mmflatten.models.detection.attention_fpn')
    with pytest.raises(ImportError, match='mmdet'):
        MODELS.build(dict(type='AttentionFPN', in_channels=[8], out_channels=8, num_outs=1))
