"""Configs of factorized attention in Mask R-CNN: what the rows of the paper's tables say, and one training step."""
from pathlib import Path

import pytest
import torch
import torchvision
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper

from mmflatten.analysis.flops.meta import build_on_meta
from mmflatten.analysis.zoo.tables import paper_rows
from mmflatten.models.attention import ConventionalAttention, FactorizedAttention, MapAttention

ROOT = Path(__file__).parents[2]
ROWS = [row for row in paper_rows() if row.cells['paper'] == 'factorized' and row.cells['task'] == 'detection']
STAGES = {'res3': 'backbone.layer3.attention', 'res4': 'backbone.layer4.attention'}
LEVELS = {f'fpn{level}': f'neck.attentions.{level}' for level in range(1, 6)}
EVERYWHERE = {*STAGES.values(), *LEVELS.values()}
POSITIONS = {
    'none': set(), 'fpn_all': set(LEVELS.values()), 'fpn_all+res3,4': EVERYWHERE,
    'fpn1-4+res3': {*LEVELS.values(), STAGES['res3']} - {LEVELS['fpn5']},
    **{name: {place} for name, place in {**STAGES, **LEVELS}.items()},
}
# Values that differ from a basis of 64 and one Gaussian head.
VARIANTS = {'basis 32': dict(basis=32), 'basis 128': dict(basis=128), **{f'{h}-head': dict(heads=h) for h in (2, 4, 8)}}
DEPTHS = {'resnet50': [3, 4, 6, 3], 'resnet101': [3, 4, 23, 3], 'resnext101': [3, 4, 23, 3]}


def expected_places(row) -> set[str]:
    method = row.cells['method']
    if row.cells['table'] == '1':
        return POSITIONS[method.partition(' at ')[2]]
    if row.cells['table'] == 'fig6':
        return {STAGES['res3']}
    return EVERYWHERE if row.cells['table'] in '23' or 'fpn_all' in method else set()


@pytest.fixture(scope='module')
def model_of():
    """The model of a config on the meta device, built once."""
    models = {}

    def build(name: str):
        if name not in models:
            config = Config.fromfile(ROOT / name)
            models[name] = build_on_meta(config.model, config.default_scope)
        return models[name]

    return build


def test_every_row_of_tables_1_to_4_and_of_figure_6_names_its_config():
    assert len(ROWS) == 25 and all((ROOT / row.config).is_file() for row in ROWS)
    named = {Path(row.config).name for row in ROWS}
    assert named == {path.name for path in (ROOT / 'configs' / 'factorized').glob('mask-rcnn_*.py')}


@pytest.mark.parametrize('row', ROWS, ids=lambda row: f'{row.label} {row.cells["method"]} {row.cells["backbone"]}')
def test_a_config_has_what_its_row_says_and_prints_its_numbers(row, model_of):
    model = model_of(row.config)
    places = {name: module for name, module in model.named_modules() if isinstance(module, MapAttention)}
    assert places.keys() == expected_places(row)
    method = row.cells['method'].partition(', ')[2]
    variant = VARIANTS.get(method, {})
    kind = ConventionalAttention if row.cells['table'] == 'fig6' else FactorizedAttention
    for module in places.values():
        assert type(module) is kind and module.normalization == 'gaussian' and module.zero_init
        assert module.basis.out_channels == variant.get('basis', 64)
        assert module.num_heads == variant.get('heads', 1)
        assert module.values.out_channels == module.in_channels
    assert [len([block for block in getattr(model.backbone, f'layer{stage}') if not isinstance(block, MapAttention)])
            for stage in range(1, 5)] == DEPTHS[row.cells['backbone']]
    text = (ROOT / row.config).read_text(encoding='utf-8')
    assert all(row.cells[column] in text for column in ('ap_box', 'ap_mask'))


@pytest.mark.parametrize('name', sorted({row.config for row in ROWS}))
def test_24_epochs_of_the_papers_batch_with_a_rate_of_the_linear_rule(name):
    config = Config.fromfile(ROOT / name)
    batch = 64 if '_r50_' in name else 32
    assert config.auto_scale_lr.base_batch_size == batch == 32 * config.train_dataloader.batch_size
    assert config.optim_wrapper.optimizer.type == 'SGD'
    assert config.optim_wrapper.optimizer.lr == pytest.approx(0.02 * batch / 16)
    assert config.train_cfg.max_epochs == config.param_scheduler[-1].end == 24
    assert list(config.param_scheduler[-1].milestones) == [17, 20]
    assert config.model.backbone.init_cfg.checkpoint.startswith('checkpoints/')


@pytest.mark.parametrize('name, weights', [
    ('mask-rcnn_r50_fa-fpn-all-res3-res4_fpn_32xb2-24e_coco', 'resnet50'),
    ('mask-rcnn_r101_fa-fpn-all-res3-res4_fpn_32xb1-24e_coco', 'resnet101'),
    ('mask-rcnn_x101_fa-fpn-all-res3-res4_fpn_32xb1-24e_coco', 'resnext101_64x4d'),
])
def test_the_backbone_takes_all_weights_of_torchvision_but_the_classifier(name, weights, model_of):
    with torch.device('meta'):
        official = torchvision.models.get_model(weights, weights=None).state_dict()
    ours = model_of(f'configs/factorized/{name}.py').backbone.state_dict()
    shapes = {key: value.shape for key, value in ours.items() if '.attention.' not in key}
    assert shapes == {key: value.shape for key, value in official.items() if not key.startswith('fc.')}


@pytest.mark.parametrize('name', ['fa-fpn-all-res3-res4-2heads', 'nl-res3'])
def test_one_training_step_moves_attention_and_leaves_frozen_stages(name, load_config, build_model, make_batch):
    config = load_config(f'factorized/mask-rcnn_r50_{name}_fpn_32xb2-24e_coco.py')
    model = build_model(config).train()
    before = {key: value.detach().clone() for key, value in model.named_parameters()}
    losses = model.train_step(make_batch('mmdet', 64, 64), build_optim_wrapper(model, config.optim_wrapper))
    assert losses and all(torch.isfinite(loss).all() for loss in losses.values())
    moved = {key for key, value in model.named_parameters() if not torch.equal(value, before[key])}
    places = [key for key, module in model.named_modules() if isinstance(module, MapAttention)]
    # A reprojection of zeros passes no gradient on: at the first step it alone moves, and the others decay.
    assert places and all(f'{place}.reprojection.weight' in moved for place in places)
    assert not any(key.startswith(('backbone.conv1', 'backbone.layer1')) for key in moved)
    with torch.no_grad():
        maps = model.eval().extract_feat(torch.zeros(2, 3, 64, 96))
        first, _ = model.test_step(make_batch('mmdet', 64, 96))
    assert all(feature_map.is_contiguous() for feature_map in maps)
    assert first.pred_instances.masks.shape[1:] == (64, 96)
