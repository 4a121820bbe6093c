"""Weights of timm's Swin, PVTv2 and DeiT: equal logits, and lossless conversion in both
directions.
"""

import pytest
import timm
import torch

from mmflatten.checkpoints import convert_state_dict, revert_state_dict
from mmflatten.registry import MODELS

SMALL = dict(embed_dim=16, depths=(1, 2), num_heads=(2, 4), window_size=4)
SMALL_PVT = dict(
    embed_dims=(16, 32), depths=(1, 2), num_heads=(2, 4), mlp_ratios=(4, 4), sr_ratios=(2, 1)
)
SMALL_DEIT = dict(embed_dim=32, depth=2, num_heads=2)
# Name and arguments of timm's model, family, and config of the same model here.
SMALL_MODELS = {
    'swin': (
        'swin_tiny_patch4_window7_224',
        dict(SMALL, img_size=64),
        'timm_swin',
        dict(
            type='FLattenSwin',
            arch=dict(embed_dims=16, depths=(1, 2), num_heads=(2, 4)),
            img_size=64,
            softmax_window=4,
            attn_types='SS',
            out_indices=(1,),
        ),
    ),
    'pvt_v2': (
        'pvt_v2_b0',
        SMALL_PVT,
        'timm_pvt_v2',
        dict(
            type='FLattenPVTv2',
            arch=dict(embed_dims=(16, 32), depths=(1, 2), num_heads=(2, 4), mlp_ratios=(4.0, 4.0)),
            img_size=64,
            sr_ratios=(2, 1),
            linear_sr_ratios=(1, 1),
            attn_types='SS',
            out_indices=(1,),
        ),
    ),
    'deit': (
        'deit_tiny_patch16_224',
        dict(SMALL_DEIT, img_size=64),
        'deit',
        dict(
            type='FLattenDeiT',
            arch=dict(embed_dims=32, depth=2, num_heads=2),
            img_size=64,
            attn_types='S',
        ),
    ),
}
NAMED_MODELS = {
    'swin': (
        'swin_tiny_patch4_window7_224',
        {},
        'timm_swin',
        dict(type='FLattenSwin', arch='tiny', attn_types='SSSS', out_indices=(3,)),
    ),
    'pvt_v2': (
        'pvt_v2_b1',
        {},
        'timm_pvt_v2',
        dict(type='FLattenPVTv2', arch='b1', attn_types='SSSS', out_indices=(3,)),
    ),
    'deit': (
        'deit_small_patch16_224',
        {},
        'deit',
        dict(type='FLattenDeiT', arch='small', attn_types='S'),
    ),
}


def theirs(name: str, arguments: dict):
    """Build timm's model with random weights, including norms and biases, which are ones and zeros
    by default.
    """
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=10, **arguments).eval()
    for parameter in model.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    return model


def ours(backbone: dict, channels: int):
    """Build the classifier of this project's configs."""
    return MODELS.build(
        dict(
            type='mmpretrain.ImageClassifier',
            _scope_='mmpretrain',
            backbone={**backbone, 'type': f'mmflatten.{backbone["type"]}'},
            neck=None if backbone['type'] == 'FLattenDeiT' else dict(type='GlobalAveragePooling'),
            head=dict(type='LinearClsHead', num_classes=10, in_channels=channels),
        )
    ).eval()


@pytest.mark.parametrize('case', SMALL_MODELS.values(), ids=SMALL_MODELS)
def test_timm_weights_reproduce_logits_and_revert(case):
    name, arguments, family, backbone = case
    model = theirs(name, arguments)
    state = model.state_dict()
    classifier = ours(backbone, model.num_features)
    classifier.load_state_dict(convert_state_dict(state, family), strict=True)
    image = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        expected, logits = model(image), classifier.head(classifier.extract_feat(image))
    assert expected.std() > 0.05
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)
    back = revert_state_dict(classifier.state_dict(), family)
    assert back.keys() == state.keys()
    assert all(torch.equal(back[key], value) for key, value in state.items())


@pytest.mark.parametrize('case', NAMED_MODELS.values(), ids=NAMED_MODELS)
def test_timm_weights_fit_named_architectures(case):
    name, arguments, family, backbone = case
    with torch.device('meta'):
        model = timm.create_model(name, num_classes=10, **arguments)
        expected = ours(backbone, model.num_features).state_dict()
    converted = convert_state_dict(model.state_dict(), family)
    assert converted.keys() == expected.keys()
    assert all(converted[key].shape == value.shape for key, value in expected.items())


@pytest.mark.parametrize('case', SMALL_MODELS.values(), ids=SMALL_MODELS)
def test_timm_conversion_names_missing_and_unknown_keys(case):
    name, arguments, family, _ = case
    state = {key: value.to('meta') for key, value in theirs(name, arguments).state_dict().items()}
    for key in state:
        with pytest.raises(ValueError) as error:
            convert_state_dict(
                {other: value for other, value in state.items() if other != key}, family
            )
        assert key in str(error.value)
    for key in ('head_dist.weight', 'surplus', f'{next(iter(state))}.weight'):
        with pytest.raises(ValueError) as error:
            convert_state_dict({**state, key: torch.zeros(1)}, family)
        assert key in str(error.value)


def test_timm_conversion_drops_buffers_of_older_versions():
    state = theirs(*SMALL_MODELS['swin'][:2]).state_dict()
    buffers = {
        'layers.1.blocks.1.attn_mask': torch.zeros(4, 16, 16),
        'layers.0.blocks.0.attn.relative_position_index': torch.zeros(16, 16),
    }
    assert (
        convert_state_dict({**state, **buffers}, 'timm_swin').keys()
        == convert_state_dict(state, 'timm_swin').keys()
    )


def test_timm_conversion_distinguishes_official_layout():
    state = theirs(*SMALL_MODELS['swin'][:2]).state_dict()
    with pytest.raises(ValueError, match="'timm_swin'"):
        convert_state_dict(state, 'flatten_swin')
    official = revert_state_dict(convert_state_dict(state, 'timm_swin'), 'flatten_swin')
    with pytest.raises(ValueError, match="'flatten_swin'"):
        convert_state_dict(official, 'timm_swin')


@pytest.mark.parametrize(
    'name, family, word',
    [
        ('swinv2_tiny_window8_256', 'timm_swin', 'logit_scale'),
        ('deit3_small_patch16_224', 'deit', 'ls1.gamma'),
        ('deit_tiny_distilled_patch16_224', 'deit', 'dist_token'),
    ],
)
def test_timm_conversion_rejects_other_models(name, family, word):
    state = timm.create_model(name).state_dict()
    with pytest.raises(ValueError, match=word):
        convert_state_dict(state, family)
