"""Configs of factorized attention in Mask R-CNN: positions and arguments of the attentions,
weights, gradients.
"""

from pathlib import Path

import pytest
import torch
import torchvision
from mmengine.config import Config
from mmengine.registry import MODELS

from mmflatten.measure.flops.meta import build_on_meta
from mmflatten.measure.papers.tables import paper_rows
from mmflatten.models.attention import ConventionalAttention, FactorizedAttention, MapAttention

ROOT = Path(__file__).parents[2]
ROWS = [
    row
    for row in paper_rows()
    if row.cells['paper'] == 'factorized' and row.config.startswith('configs/factorized/')
]
STAGES = {'res3': 'backbone.layer3.attention', 'res4': 'backbone.layer4.attention'}
LEVELS = {f'fpn{level}': f'neck.attentions.{level}' for level in range(1, 6)}
EVERYWHERE = {*STAGES.values(), *LEVELS.values()}
POSITIONS = {
    'none': set(),
    'fpn_all': set(LEVELS.values()),
    'fpn_all+res3,4': EVERYWHERE,
    'fpn1-4+res3': {*LEVELS.values(), STAGES['res3']} - {LEVELS['fpn5']},
    **{name: {place} for name, place in {**STAGES, **LEVELS}.items()},
}
# Differences from a basis of 64 and one head.
VARIANTS = {
    'basis 32': dict(basis=32),
    'basis 128': dict(basis=128),
    **{f'{h}-head': dict(heads=h) for h in (2, 4, 8)},
}
DEPTHS = {'resnet50': [3, 4, 6, 3], 'resnet101': [3, 4, 23, 3], 'resnext101': [3, 4, 23, 3]}


def expected_places(row) -> set[str]:
    method = row.cells['method']
    if row.cells['table'] in ('1', 'fig6'):
        return POSITIONS[method.partition(' at ')[2]]
    return EVERYWHERE if row.cells['table'] in '23' or 'fpn_all' in method else set()


@pytest.fixture(scope='module')
def model_of():
    """Build the model of a config on the meta device, once per config."""
    models = {}

    def build(name: str):
        if name not in models:
            config = Config.fromfile(ROOT / name)
            models[name] = build_on_meta(config.model, config.default_scope)
        return models[name]

    return build


@pytest.mark.parametrize(
    'row', ROWS, ids=lambda row: f'{row.label} {row.cells["method"]} {row.cells["backbone"]}'
)
def test_factorized_config_has_the_attentions_of_its_row(row, model_of):
    model = model_of(row.config)
    places = {
        name: module for name, module in model.named_modules() if isinstance(module, MapAttention)
    }
    assert places.keys() == expected_places(row)
    method = row.cells['method'].partition(', ')[2]
    variant = VARIANTS.get(method, {})
    kind = ConventionalAttention if 'non-local' in row.cells['method'] else FactorizedAttention
    for module in places.values():
        assert type(module) is kind and module.normalization == 'gaussian' and module.zero_init
        assert module.basis.out_channels == variant.get('basis', 64)
        assert module.num_heads == variant.get('heads', 1)
        assert module.values.out_channels == module.in_channels
    depths = []
    for stage in range(1, 5):
        blocks = getattr(model.backbone, f'layer{stage}')
        depths.append(sum(not isinstance(block, MapAttention) for block in blocks))
    assert depths == DEPTHS[row.cells['backbone']]


@pytest.mark.parametrize(
    'name, weights',
    [
        ('mask-rcnn_r50_fa-fpn-all-res3-res4_fpn_32xb2-24e_coco', 'resnet50'),
        ('mask-rcnn_r101_fa-fpn-all-res3-res4_fpn_32xb1-24e_coco', 'resnet101'),
        ('mask-rcnn_x101_fa-fpn-all-res3-res4_fpn_32xb1-24e_coco', 'resnext101_64x4d'),
    ],
)
def test_factorized_backbone_accepts_torchvision_weights(name, weights, model_of):
    with torch.device('meta'):
        official = torchvision.models.get_model(weights, weights=None).state_dict()
    ours = model_of(f'configs/factorized/{name}.py').backbone.state_dict()
    shapes = {key: value.shape for key, value in ours.items() if '.attention.' not in key}
    assert shapes == {
        key: value.shape for key, value in official.items() if not key.startswith('fc.')
    }


@pytest.mark.parametrize('name', ['fa-fpn-all-res3-res4-2heads', 'nl-res3'])
def test_factorized_attention_is_trained_and_frozen_stages_are_not(name, load_config):
    config = load_config(f'factorized/mask-rcnn_r50_{name}_fpn_32xb2-24e_coco.py')
    config.model.backbone.init_cfg = None
    model = MODELS.build(config.model).train()
    model.init_weights()
    sum(
        feature_map.square().mean() for feature_map in model.extract_feat(torch.randn(1, 3, 64, 64))
    ).backward()
    learning = {
        key
        for key, value in model.named_parameters()
        if value.grad is not None and value.grad.any()
    }
    places = [key for key, module in model.named_modules() if isinstance(module, MapAttention)]
    # A zero reprojection passes no gradient, so at the first step only the reprojection learns.
    assert places and all(f'{place}.reprojection.weight' in learning for place in places)
    assert not any(key.startswith(('backbone.conv1', 'backbone.layer1')) for key in learning)
