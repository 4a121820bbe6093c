"""Backbones in the checkpoints of own DINO, DINOv2 and DINOv3 trainings."""

import pytest
import timm
import torch

from mmflatten.checkpoints.converted_files import convert_file


@pytest.fixture(scope='module')
def plain() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    model = timm.create_model(
        'vit_small_patch14_dinov2', img_size=28, patch_size=14, embed_dim=32, depth=4, num_heads=2
    )
    return {**model.state_dict(), 'mask_token': torch.zeros(1, 32)}


def prefixed(weights, prefix):
    return {prefix + name: value for name, value in weights.items()}


def chunked(weights, size=2):
    """Blocks in chunks, as DINOv2 divides them: both numbers count from the first block on."""
    result = {}
    for name, value in weights.items():
        parts = name.split('.')
        if parts[0] == 'blocks':
            parts.insert(1, str(int(parts[1]) // size))
        result['.'.join(parts)] = value
    return result


def other(weights):
    return {name: value + 1 for name, value in weights.items()}


HEADS = {'dino_head.mlp.0.weight': torch.zeros(2, 2), 'ibot_head.last_layer.weight': torch.ones(2)}
FILES = {
    'DINO': lambda w: dict(
        student=prefixed(other(w), 'module.backbone.'),
        teacher={**prefixed(w, 'backbone.'), 'head.mlp.0.weight': torch.ones(1)},
        epoch=3,
    ),
    'DINOv2 teacher': lambda w: dict(teacher={**prefixed(chunked(w), 'backbone.'), **HEADS}),
    'DINOv2 whole model': lambda w: dict(
        model={
            **prefixed(other(chunked(w)), 'student.backbone.'),
            **prefixed(chunked(w), 'teacher.backbone.'),
            **prefixed(HEADS, 'teacher.'),
            'dino_loss.center': torch.zeros(1, 2),
        },
        iteration=9,
    ),
    'Lightning': lambda w: dict(
        state_dict={
            **prefixed(other(w), 'model.student_backbone.'),
            **prefixed(w, 'model.teacher_backbone.'),
        }
    ),
    'DDP': lambda w: dict(state_dict=prefixed(w, 'module.backbone.')),
    'FSDP': lambda w: dict(
        model=prefixed(w, 'teacher.backbone._fsdp_wrapped_module.'),
    ),
    'encoder alone': lambda w: prefixed(w, 'encoder.'),
}


@pytest.mark.parametrize('name', FILES)
def test_own_trainings_convert_to_the_weights_of_the_plain_file(name, plain, tmp_path):
    for file, content in (('plain.pth', plain), ('own.pth', FILES[name](plain))):
        torch.save(content, tmp_path / file)
    expected, _ = convert_file(tmp_path / 'plain.pth', 'auto')
    found, weights = convert_file(tmp_path / 'own.pth', 'auto')
    assert found['meta']['family'] == expected['meta']['family'] == 'vit'
    assert found['state_dict'].keys() == expected['state_dict'].keys()
    for key, value in expected['state_dict'].items():
        assert torch.equal(found['state_dict'][key], value)
    assert weights.notes


def test_detectors_keep_their_other_parts(plain, tmp_path):
    torch.save({**prefixed(plain, 'backbone.'), 'neck.weight': torch.ones(1)}, tmp_path / 'a.pth')
    with pytest.raises(ValueError, match='neck.weight|backbone'):
        convert_file(tmp_path / 'a.pth', 'vit')
