"""Converted weights in the models: the outputs of the official code, other sizes, pre-trained backbones."""
import pytest
import torch
import torch.nn.functional as F
from mmengine.registry import DefaultScope

from mmflatten.checkpoints import convert_state_dict
from mmflatten.registry import MODELS

TOLERANCE = 1e-4  # of the largest expected value
BACKBONES = {
    'flatten_swin_t_224': dict(type='FLattenSwin', arch='tiny'),
}


def build(name: str, in_channels: int, **backbone):
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        return MODELS.build(dict(
            type='mmpretrain.ImageClassifier',
            backbone={**BACKBONES[name], 'type': f'mmflatten.{BACKBONES[name]["type"]}', **backbone},
            neck=dict(type='GlobalAveragePooling'),
            head=dict(type='LinearClsHead', num_classes=1000, in_channels=in_channels))).eval()


@pytest.fixture
def classifier(golden):
    """A classifier with the converted weights of a golden case, and the case."""

    def make(name: str, **backbone):
        case = golden(name)
        model = build(name, case.state['head.weight'].shape[1], out_indices=(3,), **backbone)
        model.load_state_dict(convert_state_dict(case.state, case.family), strict=True)
        return model, case

    return make


@pytest.mark.parametrize('name', BACKBONES)
def test_converted_weights_give_the_official_outputs(classifier, name):
    model, case = classifier(name)
    with torch.no_grad():
        pooled = model.neck(model.backbone(case.image))
        outputs = dict(pooled=pooled[-1], output=model.head(pooled))
    for key, expected in case.expected.items():
        expected = torch.from_numpy(expected)
        difference = (outputs[key] - expected).abs().max().item()
        assert difference < TOLERANCE * expected.abs().max().item(), key


def test_weights_of_224_load_strictly_into_a_model_of_384_with_tables_resized_bicubically(classifier):
    model, case = classifier('flatten_swin_t_224', img_size=384, softmax_window=12)
    mixer = model.backbone.stages[1].blocks[0].attn.fn.mixer
    table = case.state['layers.1.blocks.0.attn.positional_encoding']
    expected = F.interpolate(table.view(1, 28, 28, -1).permute(0, 3, 1, 2), (48, 48), mode='bicubic')
    torch.testing.assert_close(mixer.positional_encoding.table.detach(), expected.flatten(2).transpose(1, 2))
    mixer = model.backbone.stages[2].blocks[1].attn.fn.mixer
    table = case.state['layers.2.blocks.1.attn.relative_position_bias_table']
    expected = F.interpolate(table.view(1, 13, 13, -1).permute(0, 3, 1, 2), (23, 23), mode='bicubic')
    torch.testing.assert_close(mixer.relative_position_bias.table.detach(), expected[0].flatten(1).T)


@pytest.fixture
def converted_file(golden, tmp_path):
    case = golden('flatten_swin_t_224')
    path = tmp_path / 'converted.pth'
    torch.save(dict(state_dict=convert_state_dict(case.state, case.family), meta={}), path)
    return path


def pretrained(path, **backbone):
    model = MODELS.build(dict(type='mmflatten.FLattenSwin', **backbone,
                              init_cfg=dict(type='Pretrained', checkpoint=str(path), prefix='backbone.')))
    model.init_weights()
    return model


def test_a_converted_file_initialises_a_backbone_with_more_outputs(golden, converted_file):
    state = golden('flatten_swin_t_224').state
    weights = pretrained(converted_file).state_dict()
    assert torch.equal(weights['stages.2.blocks.5.ffn.fn.fc1.weight'], state['layers.2.blocks.5.mlp.fc1.weight'])
    assert torch.equal(weights['norms.3.weight'], state['norm.weight'])
    assert torch.equal(weights['norms.0.weight'], torch.ones(96))  # a classifier has none for the first stages


def test_a_converted_file_of_another_architecture_is_refused_with_the_first_keys(converted_file):
    with pytest.raises(ValueError, match=r'stages\.0\.blocks\.0\.attn\.fn\.mixer\.relative_position_bias\.table'):
        pretrained(converted_file, attn_types='SSSS')


def test_an_unconverted_file_is_refused_as_a_pretrained_backbone(golden, tmp_path):
    path = tmp_path / 'official.pth'
    torch.save({'state_dict': golden('flatten_swin_t_224').state}, path)
    with pytest.raises(ValueError, match='convert_checkpoint'):
        pretrained(path)
