"""Backbones as timm models: building, training, loading."""

import sys
from pathlib import Path

import pytest
import timm
import torch
from mmengine.config import Config
from safetensors.torch import save_file
from timm.optim import create_optimizer_v2

from mmflatten.registry import MODELS
from mmflatten.timm.entrypoints import MODELS as NAMES

CONFIGS = Path(__file__).parents[2] / 'configs'
PAIRS = {
    'flatten_deit_tiny': 'flatten_deit/flatten-deit-t_8xb128_in1k.py',
    'flatten_pvt_medium': 'flatten_pvt/flatten-pvt-m_8xb64_in1k.py',
    'flatten_pvt_v2_b3': 'flatten_pvt_v2/flatten-pvtv2-b3_8xb128_in1k.py',
    'flatten_swin_base': 'flatten_swin/flatten-swin-b_8xb64_in1k.py',
    'flatten_cswin_small': 'flatten_cswin/flatten-cswin-s_8xb128_in1k.py',
    'l2vit_deep_narrow': 'l2vit/l2vit-deep-narrow_32xb128_in1k.py',
    'focal_small': 'focal/focal-s_8xb128_in1k.py',
    'ravlt_small': 'ravlt/ravlt-s_8xb128_in1k.py',
    'mlla_base': 'mila/mila-b_8xb64_in1k.py',
    'hvittt_tiny': 'vittt/h-vittt-t_8xb128_in1k.py',
    'mmflatten_deit_tiny': 'flatten_deit/deit-t_8xb128_in1k.py',
    'mmflatten_pvt_large': 'flatten_pvt/pvt-l_8xb128_in1k.py',
    'mmflatten_pvt_v2_b0': 'flatten_pvt_v2/pvtv2-b0_8xb128_in1k.py',
    'mmflatten_swin_small': 'flatten_swin/swin-s_8xb128_in1k.py',
    'mmflatten_cswin_tiny': 'flatten_cswin/cswin-t_8xb256_in1k.py',
    'mmflatten_cswin_base': 'flatten_cswin/cswin-b_8xb128_in1k.py',
}
ARCH = dict(embed_dims=16, depths=(1, 1, 2, 1), num_heads=(1, 2, 4, 8))
PVT_ARCH = dict(ARCH, embed_dims=(16, 32, 64, 128))
NANO = {
    'mmflatten_pvt_tiny': dict(arch=PVT_ARCH),
    'flatten_deit_tiny': dict(arch=dict(embed_dims=32, depth=5, num_heads=2)),
    'flatten_pvt_tiny': dict(arch=PVT_ARCH),
    'flatten_pvt_v2_b0': dict(arch=PVT_ARCH),
    'flatten_swin_tiny': dict(arch=ARCH),
    'flatten_cswin_tiny': dict(arch=ARCH),
    'l2vit_tiny': dict(arch=ARCH),
    'focal_tiny': dict(arch=ARCH),
    **{
        name: dict(arch=dict(PVT_ARCH, num_heads=(2, 2, 4, 8)))
        for name in ('ravlt_tiny', 'mlla_tiny', 'hvittt_tiny')
    },
}


def nano(name: str = 'flatten_swin_tiny', **kwargs):
    """Build a small model of a family with the same weights at each call."""
    torch.manual_seed(0)
    return timm.create_model(name, **{**NANO[name], 'img_size': 64, 'num_classes': 5, **kwargs})


def classifier(config: str):
    """Build mmpretrain's classifier of a config."""
    model = Config.fromfile(CONFIGS / config).model
    model.train_cfg = None
    return MODELS.build(dict(model, type='mmpretrain.ImageClassifier', _scope_='mmpretrain'))


def drop_path_rates(model) -> list[float]:
    return [
        module.drop_path.drop_prob
        for module in model.modules()
        if hasattr(getattr(module, 'drop_path', 0), 'drop_prob')
    ]


def test_timm_lists_every_model_with_a_valid_architecture():
    assert set(NAMES) == set(timm.list_models(module='entrypoints')) and len(NAMES) == 56
    for name, (backbone, defaults) in NAMES.items():
        archs = getattr(backbone, 'archs', None) or sys.modules[backbone.__module__].ARCHS
        assert isinstance(defaults['arch'], dict) or defaults['arch'] in archs, name


@pytest.mark.parametrize('name, config', PAIRS.items())
def test_timm_model_matches_classifier_of_config(name, config):
    with torch.device('meta'):
        theirs, ours = timm.create_model(name), classifier(config)
    assert theirs.pretrained_cfg['architecture'] == name
    assert theirs.get_submodule(theirs.pretrained_cfg['first_conv']).in_channels == 3
    assert theirs.head.fc.weight.shape == (1000, theirs.num_features)
    weights = ours.state_dict()
    assert theirs.state_dict().keys() == weights.keys()
    for key, value in theirs.state_dict().items():
        assert value.shape == weights[key].shape, key
    assert drop_path_rates(theirs) == drop_path_rates(ours) != []


@pytest.mark.parametrize('name', ['flatten_deit_tiny', 'flatten_pvt_v2_b0'])
def test_timm_model_has_logits_of_config(name):
    model = nano(name, num_classes=10).eval()
    config = Config.fromfile(
        CONFIGS / PAIRS['flatten_deit_tiny' if 'deit' in name else 'flatten_pvt_v2_b3']
    ).model
    ours = MODELS.build(
        dict(
            type='mmpretrain.ImageClassifier',
            _scope_='mmpretrain',
            neck=config.neck,
            backbone={**config.backbone, **NANO[name], 'img_size': 64},
            head=dict(type='LinearClsHead', num_classes=10, in_channels=model.num_features),
        )
    ).eval()
    ours.load_state_dict(model.state_dict(), strict=True)
    image = torch.rand(2, 3, 50, 70)
    with torch.no_grad():
        torch.testing.assert_close(model(image), ours.head(ours.extract_feat(image)))


def test_timm_names_the_backbone_for_maps():
    with pytest.raises(ValueError, match='features_only.*backbones.FLattenSwin'):
        nano(features_only=True)
    with pytest.raises(ValueError, match='out_indices.*backbones.FLattenSwin'):
        nano(out_indices=(1, 2))


@pytest.mark.parametrize(
    'name, pool, width',
    [
        ('flatten_swin_tiny', 'avg', 128),
        ('flatten_swin_tiny', 'max', 128),
        ('flatten_swin_tiny', 'catavgmax', 256),
        ('flatten_deit_tiny', 'token', 32),
        ('flatten_deit_tiny', 'avg', 32),
    ],
)
def test_timm_classifier_changes_pooling_and_head(name, pool, width):
    model = nano(name, global_pool=pool)
    assert model.get_classifier().in_features == model.head_hidden_size == width
    image = torch.rand(2, 3, 64, 64)
    assert model(image).shape == (2, 5)
    assert model.forward_head(model.forward_features(image), pre_logits=True).shape == (2, width)
    model.reset_classifier(0)
    assert model(image).shape == (2, width) and model.num_classes == 0
    model.reset_classifier(3, 'avg')
    features = model.forward_features(image)
    assert features.dim() == 4 and model(image).shape == (2, 3)
    torch.testing.assert_close(model.forward_head(features, pre_logits=True), features.mean((2, 3)))


def test_timm_new_head_keeps_dtype_and_mode():
    model = nano(drop_rate=0.9).double().eval()
    model.reset_classifier(3)
    image = torch.rand(1, 3, 64, 64, dtype=torch.float64)
    assert torch.equal(model(image), model(image))  # evaluation mode disables dropout


def test_timm_classifier_rejects_invalid_pooling():
    with pytest.raises(ValueError, match='global_pool.*token'):
        nano(global_pool='token')
    with pytest.raises(ValueError, match='num_classes.*5'):
        nano(global_pool='')
    assert nano(global_pool='', num_classes=0)(torch.rand(1, 3, 64, 64)).shape == (1, 128, 2, 2)


def test_timm_model_rejects_invalid_arguments():
    with pytest.raises(ValueError, match="'huge'"):
        timm.create_model('flatten_swin_tiny', arch='huge')
    with pytest.raises(ValueError, match='depths'):
        timm.create_model('flatten_swin_tiny', arch=dict(ARCH, depths=2))
    with pytest.raises(ValueError, match='attn_types.*Q'):
        nano(attn_types='QLSS')


def test_timm_model_adapts_to_in_chans():
    weights = nano().state_dict()
    model = nano(
        in_chans=5, pretrained=True, pretrained_cfg_overlay=dict(state_dict=weights, num_classes=5)
    )
    assert model(torch.rand(1, 5, 64, 64)).shape == (1, 5)
    # timm repeats the weights of the colour channels
    conv = model.backbone.stages[0].embed.projection.weight
    torch.testing.assert_close(conv[:, 3] / conv[:, 0], torch.ones(16, 4, 4))


@pytest.mark.parametrize('name', ['flatten_deit_tiny', 'l2vit_tiny'])
def test_timm_checkpointing_preserves_gradients(name):
    image, gradients = torch.rand(2, 3, 64, 64), []
    for enable in (False, True):
        model = nano(name, drop_path_rate=0.0)
        model.set_grad_checkpointing(enable)
        assert any(getattr(module, 'with_cp', False) for module in model.modules()) == enable
        model(image).square().sum().backward()
        gradients.append([p.grad for p in model.parameters() if p.grad is not None])
    assert gradients[0]
    for plain, recomputed in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, recomputed)


def test_timm_optimizer_groups_match_configs():
    swin, deit = nano(), nano('flatten_deit_tiny')
    assert swin.no_weight_decay() == {
        f'backbone.stages.{i}.blocks.{j}.attn.fn.mixer.relative_position_bias.table'
        for i, j in ((2, 0), (2, 1), (3, 0))
    }
    assert deit.no_weight_decay() == {'backbone.embed.cls_token', 'backbone.embed.position.table'}
    groups = create_optimizer_v2(
        swin, 'adamw', lr=1.0, weight_decay=0.1, layer_decay=0.5
    ).param_groups
    scale = {}
    for group in groups:
        scale.update((id(p), group['lr_scale']) for p in group['params'])
    named = dict(swin.named_parameters())
    depths = {'embed.projection.weight': 6, 'blocks.0.ffn.fn.fc1.weight': 5}
    for end, depth in depths.items():
        assert scale[id(named[f'backbone.stages.0.{end}'])] == 0.5**depth
    assert scale[id(named['backbone.stages.3.blocks.0.ffn.fn.fc1.weight'])] == 0.5
    assert scale[id(named['head.fc.weight'])] == scale[id(named['backbone.norms.3.weight'])] == 1


def test_timm_pretrained_requires_file():
    with pytest.raises(ValueError, match='flatten_swin_tiny.*mmflatten convert.*file=FILE'):
        timm.create_model('flatten_swin_tiny', pretrained=True)


def overlay(path, **kwargs) -> dict:
    return dict(
        pretrained=True, pretrained_cfg_overlay=dict(file=str(path), num_classes=5, **kwargs)
    )


def test_timm_models_load_weights_from_file(tmp_path):
    model = nano()
    for parameter in model.parameters():
        parameter.data.normal_()
    path, state = tmp_path / 'weights.safetensors', model.state_dict()
    save_file(state, path)
    assert all(
        torch.equal(value, state[key])
        for key, value in nano(checkpoint_path=path).state_dict().items()
    )
    tuned = nano(num_classes=3, **overlay(path)).state_dict()
    assert all(
        torch.equal(value, state[key])
        for key, value in tuned.items()
        if key.startswith('backbone.')
    )


@pytest.mark.parametrize(
    'change, word',
    [
        (lambda state: state.pop('backbone.stages.1.embed.norm.bias'), 'stages.1.embed.norm.bias'),
        (lambda state: state.update({'backbone.surplus': torch.ones(1)}), 'surplus'),
        (
            lambda state: [state.update({key[9:]: state.pop(key)}) for key in list(state)],
            'stages.0',
        ),
    ],
)
def test_timm_model_rejects_mismatched_weights(tmp_path, change, word):
    state = nano().state_dict()
    change(state)
    save_file(state, tmp_path / 'weights.safetensors')
    with pytest.raises(ValueError, match=word):
        nano(num_classes=3, **overlay(tmp_path / 'weights.safetensors'))


def test_timm_model_recomputes_non_persistent_buffers():
    for name in ('flatten_swin_tiny', 'focal_tiny'):
        model = nano(name).eval()
        image = torch.rand(1, 3, 64, 64)
        expected = model(image)
        saved = model.state_dict()
        for key, buffer in model.named_buffers():
            assert key not in saved
            buffer.zero_()
        assert not torch.equal(model(image), expected)
        model.init_non_persistent_buffers()
        torch.testing.assert_close(model(image), expected)
