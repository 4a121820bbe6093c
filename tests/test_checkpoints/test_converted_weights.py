"""Converted weights in models: official outputs, other image sizes, pre-trained backbones."""

import pytest
import torch
import torch.nn.functional as F
from mmengine.registry import DefaultScope

from mmflatten.checkpoints import convert_state_dict, revert_state_dict
from mmflatten.registry import MODELS

TOLERANCE = 1e-4  # of the largest expected value
BACKBONES = {
    'flatten_swin_t_224': dict(type='FLattenSwin', arch='tiny'),
    'flatten_pvt_t_224': dict(type='FLattenPVT', arch='tiny'),
    'flatten_pvt_v2_b0_224': dict(type='FLattenPVTv2', arch='b0'),
    'flatten_cswin_t_224': dict(type='FLattenCSwin', arch='tiny'),
    'l2vit_t_224': dict(type='L2ViT', arch='tiny'),
    'l2vit_t_192x280': dict(type='L2ViT', arch='tiny'),
    'focal_t_224': dict(type='FocalTransformer', arch='tiny'),
    'deit_t_224': dict(type='FLattenDeiT', arch='tiny', attn_types='S', out_indices=(11,)),
}


def build(name: str, in_channels: int, **backbone):
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        return MODELS.build(
            dict(
                type='mmpretrain.ImageClassifier',
                backbone={
                    'out_indices': (3,),
                    **BACKBONES[name],
                    'type': f'mmflatten.{BACKBONES[name]["type"]}',
                    **backbone,
                },
                neck=None if name.startswith('deit') else dict(type='GlobalAveragePooling'),
                head=dict(type='LinearClsHead', num_classes=1000, in_channels=in_channels),
            )
        ).eval()


@pytest.fixture
def classifier(golden):
    """Function that builds a classifier with the converted weights of a golden case."""

    def make(name: str, **backbone):
        case = golden(name)
        model = build(name, case.state['head.weight'].shape[1], **backbone)
        model.load_state_dict(convert_state_dict(case.state, case.family), strict=True)
        return model, case

    return make


@pytest.mark.parametrize('name', BACKBONES)
def test_converted_weights_reproduce_official_outputs(classifier, name):
    model, case = classifier(name)
    with torch.no_grad():
        pooled = model.extract_feat(case.image)
        outputs = dict(pooled=pooled[-1], output=model.head(pooled))
    for key, expected in case.expected.items():
        expected = torch.from_numpy(expected)
        difference = (outputs[key] - expected).abs().max().item()
        assert difference < TOLERANCE * expected.abs().max().item(), key


def test_converted_weights_of_224_load_at_384_with_bicubic_tables(classifier):
    model, case = classifier('flatten_swin_t_224', img_size=384, softmax_window=12)
    mixer = model.backbone.stages[1].blocks[0].attn.fn.mixer
    table = case.state['layers.1.blocks.0.attn.positional_encoding']
    expected = F.interpolate(
        table.view(1, 28, 28, -1).permute(0, 3, 1, 2), (48, 48), mode='bicubic'
    )
    torch.testing.assert_close(
        mixer.positional_encoding.table.detach(), expected.flatten(2).transpose(1, 2)
    )
    mixer = model.backbone.stages[2].blocks[1].attn.fn.mixer
    table = case.state['layers.2.blocks.1.attn.relative_position_bias_table']
    expected = F.interpolate(
        table.view(1, 13, 13, -1).permute(0, 3, 1, 2), (23, 23), mode='bicubic'
    )
    torch.testing.assert_close(
        mixer.relative_position_bias.table.detach(), expected[0].flatten(1).T
    )


TINY = dict(embed_dims=8, depths=(2, 2), num_heads=(2, 4))
TINY_PVT = dict(embed_dims=(8, 16), depths=(2, 2), num_heads=(2, 4), mlp_ratios=(2.0, 2.0))
TINY_DEIT = dict(embed_dims=16, depth=3, num_heads=2)
# All variants with different names, with few channels.
VARIANTS = [
    ('flatten_swin', dict(type='FLattenSwin', arch=TINY, attn_types='SS')),
    ('flatten_swin', dict(type='FLattenSwin', arch=TINY, attn_types='LM1', linear_window=7)),
    ('flatten_swin', dict(type='FLattenSwin', arch=TINY, attn_types='LS', qkv_bias=False)),
    (
        'flatten_pvt',
        dict(
            type='FLattenPVT',
            arch=TINY_PVT,
            attn_types='SS',
            linear_sr_ratios=(1, 1),
            sr_ratios=(4, 1),
        ),
    ),
    (
        'flatten_pvt',
        dict(
            type='FLattenPVT',
            arch=TINY_PVT,
            attn_types='LL',
            linear_sr_ratios=(2, 1),
            sr_ratios=(1, 1),
        ),
    ),
    (
        'flatten_pvt',
        dict(
            type='FLattenPVT',
            arch=TINY_PVT,
            attn_types='LS',
            linear_sr_ratios=(1, 1),
            sr_ratios=(2, 2),
            qkv_bias=False,
        ),
    ),
    (
        'pvt',
        dict(
            type='FLattenPVT',
            arch=TINY_PVT,
            attn_types='SS',
            linear_sr_ratios=(1, 1),
            sr_ratios=(4, 1),
            with_cls_token=True,
        ),
    ),
    (
        'flatten_pvt_v2',
        dict(
            type='FLattenPVTv2',
            arch=TINY_PVT,
            attn_types='LS',
            linear_sr_ratios=(1, 1),
            sr_ratios=(2, 2),
        ),
    ),
    ('flatten_cswin', dict(type='FLattenCSwin', arch=TINY, attn_types='SS', softmax_split=(2, 7))),
    (
        'flatten_cswin',
        dict(
            type='FLattenCSwin',
            arch=TINY,
            attn_types='LL',
            softmax_split=(2, 7),
            linear_split=(7, 7),
            qkv_bias=False,
        ),
    ),
    ('deit', dict(type='FLattenDeiT', arch=TINY_DEIT, attn_types='LSL')),
    ('deit', dict(type='FLattenDeiT', arch=TINY_DEIT, attn_types='S', qkv_bias=False)),
    ('l2vit', dict(type='L2ViT', arch=TINY)),
    (
        'l2vit',
        dict(type='L2ViT', arch=TINY, conv_stem=False, overlapped_downsample=True, qkv_bias=False),
    ),
    ('l2vit', dict(type='L2ViT', arch=TINY, conv_stem='4L', last_projection=True)),
    (
        'focal',
        dict(type='FocalTransformer', arch=TINY, focal_windows=(5, 3), conv_embed=True, shift=True),
    ),
    (
        'focal',
        dict(
            type='FocalTransformer', arch=TINY, focal_windows=(5, 3), focal_levels=3, qkv_bias=False
        ),
    ),
    ('focal', dict(type='FocalTransformer', arch=TINY, focal_windows=(5, 3), img_size=32)),
    (
        'focal',
        dict(type='FocalTransformer', arch=TINY, focal_windows=(5, 3), local=False, global_=False),
    ),
]


@pytest.mark.parametrize('family, backbone', VARIANTS)
def test_model_variants_revert_and_convert_strictly(family, backbone):
    outputs = dict(out_indices=(2,) if family == 'deit' else (1,))
    model = MODELS.build(
        dict(
            type='mmpretrain.ImageClassifier',
            _scope_='mmpretrain',
            backbone={**backbone, **outputs, 'type': f'mmflatten.{backbone["type"]}'},
            head=dict(type='LinearClsHead', num_classes=5, in_channels=16),
        )
    )
    state = model.state_dict()
    official = revert_state_dict(state, family)
    assert not any(key.startswith('backbone') for key in official)
    converted = convert_state_dict(official, family)
    model.load_state_dict(converted, strict=True)
    assert all(torch.equal(converted[key], value) for key, value in state.items())


def test_convert_keeps_batch_norm_counters(golden):
    case = golden('l2vit_t_224')
    counters = {key: torch.tensor(7) for key in case.case['buffers']}
    converted = convert_state_dict({**case.state, **counters}, 'l2vit')
    assert (
        len(converted)
        == len(case.state) + len(counters)
        == len(build('l2vit_t_224', 768).state_dict())
    )
    del counters['stages.2.3.local_mp.bn.num_batches_tracked']
    with pytest.raises(ValueError, match=r'stages\.2\.3\.local_mp\.bn\.num_batches_tracked'):
        convert_state_dict({**case.state, **counters}, 'l2vit')


@pytest.fixture
def converted_file(golden, tmp_path):
    case = golden('flatten_swin_t_224')
    path = tmp_path / 'converted.pth'
    torch.save(dict(state_dict=convert_state_dict(case.state, case.family), meta={}), path)
    return path


def pretrained(path, **backbone):
    model = MODELS.build(
        dict(
            {'type': 'mmflatten.FLattenSwin', **backbone},
            init_cfg=dict(type='Pretrained', checkpoint=str(path), prefix='backbone.'),
        )
    )
    model.init_weights()
    return model


def test_converted_file_initialises_backbone_with_more_outputs(golden, converted_file):
    state = golden('flatten_swin_t_224').state
    weights = pretrained(converted_file).state_dict()
    assert torch.equal(
        weights['stages.2.blocks.5.ffn.fn.fc1.weight'], state['layers.2.blocks.5.mlp.fc1.weight']
    )
    assert torch.equal(weights['norms.3.weight'], state['norm.weight'])
    # a classifier has no norms for the first stages
    assert torch.equal(weights['norms.0.weight'], torch.ones(96))


def test_pretrained_backbone_rejects_other_architecture(converted_file):
    with pytest.raises(
        ValueError, match=r'stages\.0\.blocks\.0\.attn\.fn\.mixer\.relative_position_bias\.table'
    ):
        pretrained(converted_file, attn_types='SSSS')


def test_pretrained_backbone_rejects_unconverted_file(golden, tmp_path):
    path = tmp_path / 'official.pth'
    torch.save({'state_dict': golden('flatten_swin_t_224').state}, path)
    with pytest.raises(ValueError, match='mmflatten convert'):
        pretrained(path)


def test_focal_classifier_initialises_detector_with_larger_regions(golden, tmp_path):
    state = golden('focal_t_224').state
    torch.save({'state_dict': convert_state_dict(state, 'focal')}, tmp_path / 'focal.pth')
    model = pretrained(
        tmp_path / 'focal.pth',
        type='mmflatten.FocalTransformer',
        focal_windows=(15, 13, 9, 7),
        expand_always=True,
    )
    table = state['layers.2.blocks.3.attn.relative_position_bias_table_to_windows.0']
    expected = F.interpolate(table.view(1, -1, 9, 9), (15, 15), mode='bilinear').flatten(2)[0]
    torch.testing.assert_close(
        model.stages[2].blocks[3].attn.fn.pooled_bias[0].table.detach(), expected
    )
