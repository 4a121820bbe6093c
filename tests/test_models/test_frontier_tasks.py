"""Recent attentions, all in one backbone, trained in a detector, a segmentor and a classifier."""

import pytest
import torch

from mmflatten.engine.setup import build_runner, load_config

ATTENTIONS = [
    dict(type=name, **more)
    for name, more in {
        'AgentAttention': dict(num_agents=9),
        'BiLevelRoutingAttention': dict(num_regions=3),
        'CirculantAttention': {},
        'ExponentialPolarityAttention': {},
        'GatedDifferentialLinearAttention': {},
        'GatedSoftmaxAttention': {},
        'InLineAttention': {},
        'TransformerToTTTAttention': {},
        'LinformerAttention': {},
        'MagnitudeAwareLinearAttention': {},
        'MambaInspiredLinearAttention': {},
        'ManhattanAttention': {},
        'MultiScaleLinearAttention': {},
        'NeighborhoodAttention': dict(kernel_size=3),
        'NormAwareLinearAttention': {},
        'NystromAttention': dict(num_landmarks=9),
        'PerformerAttention': {},
        'PolarityAwareLinearAttention': {},
        'RankAugmentedLinearAttention': {},
        'TTTAttention': {},
        'TokenLevelMultiHeadAttention': {},
        'VisualContrastAttention': dict(num_agents=9),
        'FocusedLinearAttention': dict(focusing_factor=None, feature_floor=0),
    }.items()
]
NEWEST = [
    dict(type='ContractBroadcastAttention', num_representatives=9),
    dict(type='TokenStatisticsAttention'),
    dict(type='HiddenStateMixer', num_states=9),
    dict(type='StateSpaceAttention', num_states=8),
]
LETTERS = 'ABCDEFGHIJKLNOPQRTUVWXY'
STAGES = ('ABCDEF', 'GHIJK', 'LNOPQ', 'RTUVWXY')
BACKBONE = dict(attn_types=STAGES, mixers=dict(zip(LETTERS, ATTENTIONS, strict=True)), img_size=96)
ARCH = dict(depths=tuple(map(len, STAGES)), num_heads=(1, 2, 2, 4))
TASKS = {
    'mask-rcnn_flatten-swin-nano_fpn_digits': dict(
        type='mmflatten.FLattenSwin', arch=dict(ARCH, embed_dims=8), progressive_norm=10
    ),
    'semantic-fpn_flatten-swin-nano_digits': dict(
        type='mmflatten.FLattenPVT',
        arch=dict(ARCH, embed_dims=(8, 16, 32, 64), mlp_ratios=(2, 2, 2, 2)),
    ),
    'flatten-swin-nano_digits': dict(
        type='mmflatten.FLattenDeiT',
        arch=dict(embed_dims=32, depth=23, num_heads=2),
        patch_size=8,
        out_type='featmap',
        with_cls_token=False,
        cpe_kernel=3,
        attn_types=''.join(STAGES),
    ),
}


@pytest.mark.parametrize('name', TASKS)
def test_attentions_train_and_predict(name, config_on):
    check_training_and_prediction(load_config(str(config_on(name))), name, BACKBONE)


def test_newest_attentions_train_and_predict(config_on):
    name = 'semantic-fpn_flatten-swin-nano_digits'
    mixers = dict(zip('ABCD', NEWEST, strict=True))
    stages = ('ABCDAB', 'CDABC', 'DABCD', 'ABCDABC')
    backbone = dict(BACKBONE, attn_types=stages, mixers=mixers)
    check_training_and_prediction(load_config(str(config_on(name))), name, backbone)


def check_training_and_prediction(config, name, backbone):
    config.model.backbone = {**backbone, **TASKS[name]}
    classifier = 'DeiT' in TASKS[name]['type']
    if classifier:
        config.model.head.in_channels = 32
    else:
        config.model.neck.in_channels = [8, 16, 32, 64]
    runner = build_runner(config)
    torch.manual_seed(0)
    runner.model.init_weights()
    batch = next(iter(runner.train_dataloader))
    losses = runner.model(**runner.model.data_preprocessor(batch, True), mode='loss')
    total = runner.model.parse_losses(losses)[0]
    total.backward()
    gradients = {key: p.grad for key, p in runner.model.backbone.named_parameters()}
    assert total.isfinite()
    assert all(g is not None and g.isfinite().all() for g in gradients.values())
    with torch.no_grad():
        results = runner.model.eval().test_step(next(iter(runner.test_dataloader)))
    assert len(results) == 2
