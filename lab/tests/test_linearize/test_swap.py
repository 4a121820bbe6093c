"""Another attention in blocks of a trained model, before it learns."""

import pytest
import torch
from mmengine.config import Config

from mmflatten.config import build_model
from mmflatten.models.attention import TokenMixer
from mmflatten.models.attention.gated import RotaryMixer
from mmflatten_lab.linearize.swap import blocks_of, build_swapped, letters_of, swapped_config

DEIT = dict(
    type='mmflatten.FLattenDeiT',
    arch=dict(embed_dims=16, depth=3, num_heads=2),
    attn_types='S',
    img_size=32,
    patch_size=8,
    drop_path_rate=0.0,
)
PYRAMID = dict(embed_dims=8, depths=(2, 2), num_heads=(1, 2))
SWIN = dict(
    type='mmflatten.FLattenSwin',
    arch=PYRAMID,
    attn_types='SS',
    img_size=64,
    softmax_window=8,
    out_indices=(1,),
    drop_path_rate=0.0,
)
PVT = dict(
    type='mmflatten.FLattenPVT',
    arch=dict(PYRAMID, embed_dims=(8, 16), mlp_ratios=(2, 2)),
    attn_types='SS',
    img_size=64,
    sr_ratios=(2, 1),
    linear_sr_ratios=(2, 1),
    out_indices=(1,),
    drop_path_rate=0.0,
)
CSWIN = dict(
    type='mmflatten.FLattenCSwin',
    arch=PYRAMID,
    attn_types='SS',
    img_size=64,
    softmax_split=(4, 4),
    linear_split=(4, 4),
    out_indices=(1,),
    drop_path_rate=0.0,
)
# DINOv3's traits: registers, rotary positions, keys without bias, scales of the branches.
VIT = dict(
    type='mmflatten.ViT',
    patch_size=8,
    img_size=32,
    arch=dict(
        embed_dims=16,
        depth=3,
        num_heads=2,
        registers=2,
        rotary=100.0,
        key_bias=False,
        layer_scale=1.0,
    ),
)
FAMILIES = dict(deit=DEIT, swin=SWIN, pvt=PVT, cswin=CSWIN, vit=VIT)


def config_of(backbone: dict) -> Config:
    return Config(
        dict(
            default_scope='mmpretrain',
            model=dict(
                type='ImageClassifier',
                backbone=dict(backbone),
                neck=None if 'iT' in backbone['type'] else dict(type='GlobalAveragePooling'),
                head=dict(type='LinearClsHead', in_channels=16, num_classes=4),
                data_preprocessor=dict(num_classes=4, mean=[0.0] * 3, std=[1.0] * 3),
            ),
        )
    )


def taught(backbone: dict) -> tuple[Config, torch.nn.Module]:
    cfg = config_of(backbone)
    teacher = build_model(cfg)
    with torch.no_grad():
        for parameter in teacher.parameters():
            parameter.normal_(std=0.2)
    return cfg, teacher.eval()


def outputs(model: torch.nn.Module, size: int) -> torch.Tensor:
    image = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return model(image, mode='tensor')


@pytest.mark.parametrize('gated', [False, True])
@pytest.mark.parametrize('family', ['deit', 'pvt', 'cswin', 'vit'])
def test_softmax_whose_gate_and_local_term_add_nothing_gives_the_outputs_of_the_teacher(
    family, gated, monkeypatch
):
    cfg, teacher = taught(FAMILIES[family])
    # which the teacher does not do
    monkeypatch.setattr(RotaryMixer, 'rotated', lambda self, x, hw_shape: x)
    kind = 'GatedSoftmaxAttention' if gated else 'SoftmaxAttention'
    student = build_swapped(swapped_config(cfg, teacher, dict(type=kind), [0, 2]), teacher, [0, 2])
    size = cfg.model.backbone.img_size
    torch.testing.assert_close(outputs(student, size), outputs(teacher, size), rtol=1e-4, atol=1e-5)


def test_predicted_convolution_adds_nothing_at_first_and_all_its_layers_learn():
    cfg, teacher = taught(DEIT)
    plain, student = (
        build_swapped(
            swapped_config(cfg, teacher, dict(type='InLineAttention', image_conv=convolves), [1]),
            teacher,
            [1],
        )
        for convolves in (0, 1)
    )
    torch.testing.assert_close(outputs(student, 32), outputs(plain, 32))
    layers = dict(blocks_of(student)['blocks.1'].named_parameters())
    optimizer = torch.optim.SGD(student.parameters(), lr=1.0)
    for _ in range(2):
        optimizer.zero_grad()
        student(torch.randn(2, 3, 32, 32), mode='tensor').square().sum().backward()
        optimizer.step()
    assert sum('.dwc.' in name for name in layers) == 4
    assert all(parameter.grad.any() for name, parameter in layers.items() if '.dwc.' in name)


@pytest.mark.parametrize('family', list(FAMILIES))
def test_other_blocks_keep_their_letters_and_weights(family):
    cfg, teacher = taught(FAMILIES[family])
    student_cfg = swapped_config(cfg, teacher, dict(type='FocusedLinearAttention'), [1])
    student = build_swapped(student_cfg, teacher, [1])
    assert ''.join(letters_of(student_cfg, student)) == ''.join(
        'A' if number == 1 else 'S' for number in range(len(blocks_of(teacher)))
    )
    kinds = [
        type(module).__name__
        for block in blocks_of(student).values()
        for module in block.modules()
        if isinstance(module, TokenMixer)
    ]
    assert kinds.count('FocusedLinearAttention') == 1
    ours, name = student.state_dict(), list(blocks_of(teacher))[1]
    for key, value in teacher.state_dict().items():
        if key in ours and 'relative_position' not in key:
            torch.testing.assert_close(ours[key], value, rtol=0, atol=0)
    new = set(ours) - set(teacher.state_dict())
    assert new and all(key.startswith(f'backbone.{name}.attn') for key in new)
    assert not outputs(student, cfg.model.backbone.img_size).equal(
        outputs(teacher, cfg.model.backbone.img_size)
    )


def test_written_forms_of_letters():
    backbone = dict(
        SWIN, arch=dict(embed_dims=8, depths=(1, 1, 3, 1), num_heads=(1, 1, 2, 2)), img_size=128
    )
    for written, indices, expected in (
        ('LSMS2', (3,), ['L', 'S', 'LLS', 'S']),
        ('LSMS2', (1,), ['L', 'S', 'L', 'S']),
        (['L', 'S', 'SLS', 'S'], (2,), ['L', 'S', 'SLS', 'S']),
    ):
        cfg, teacher = taught(dict(backbone, attn_types=written, out_indices=indices))
        assert letters_of(cfg, teacher) == expected


def test_attention_that_cannot_be_used_in_a_block_is_a_line():
    cfg, teacher = taught(DEIT)
    with pytest.raises(ValueError, match='--attention: cannot be used in these blocks: .*'):
        build_swapped(
            swapped_config(cfg, teacher, dict(type='NeighborhoodAttention'), [0]), teacher, [0]
        )


def test_backbone_without_letters_is_refused():
    cfg = config_of(dict(type='ResNet', depth=18, img_size=32))
    cfg.model.backbone.pop('img_size')
    cfg.model.head.in_channels = 512
    with pytest.raises(
        ValueError, match='model.backbone: expected one whose blocks have letters .*, got ResNet'
    ):
        blocks_of(build_model(cfg))
