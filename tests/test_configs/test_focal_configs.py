"""Configs of Focal Transformer: what the rows of its tables and the paper's recipes say."""
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import MODELS, TRANSFORMS

from mmflatten.analysis.flops.meta import build_on_meta
from mmflatten.analysis.zoo.tables import paper_rows

ROOT = Path(__file__).parents[2]
FOCAL = ROOT / 'configs' / 'focal'
ROWS = [row for row in paper_rows() if row.cells['paper'] == 'focal']
ABLATED = sorted(path.stem for path in FOCAL.glob('mask-rcnn_*-t-*_fpn_1x_coco.py'))
DENSE = sorted(path.stem for pattern in ('*_coco.py', '*_ade20k-*.py') for path in FOCAL.glob(pattern)
               if path.stem not in ABLATED)
ARCHS = {'focal-t': 'tiny', 'focal-s': 'small', 'focal-b': 'base', 'focal-l': 'large', 'swin-t': 'tiny'}
# (table, method, backbone) of an ablation, and what its backbone's config changes.
ABLATIONS = {
    ('6', 'window 7', 'swin-t'): {}, ('6', 'window 14', 'swin-t'): dict(softmax_window=14),
    ('6', 'window 7', 'focal-t'): {}, ('6', 'window 14', 'focal-t'): dict(window_size=14),
    ('7', 'no shift', 'swin-t'): dict(shift=False), ('7', 'shift', 'swin-t'): {},
    ('7', 'no shift', 'focal-t'): {}, ('7', 'shift', 'focal-t'): dict(shift=True),
    ('fig5', 'window only', 'focal-t'): dict(local=False, global_=False),
    ('fig5', '+ local', 'focal-t'): dict(global_=False), ('fig5', '+ global', 'focal-t'): dict(local=False),
    ('fig5', 'local + global', 'focal-t'): {},
    **{('8', f'depths {"-".join(map(str, depths))}', backbone):
       dict(arch=dict(embed_dims=96, depths=depths, num_heads=(3, 6, 12, 24)))
       for depths in ((2, 2, 2, 2), (2, 2, 4, 2)) for backbone in ('swin-t', 'focal-t')},
}


def family_of(name: str) -> str:
    return next(backbone for backbone in ARCHS if f'_{backbone}_' in name)


def decayed(config: Config) -> dict[str, bool]:
    """Whether the optimizer decays a parameter of the backbone, by its name."""
    model = build_on_meta(config.model, config.default_scope)
    optimizer = build_optim_wrapper(model, config.optim_wrapper).optimizer
    decay = {id(parameter): group['weight_decay'] for group in optimizer.param_groups for parameter in group['params']}
    return {name: decay[id(parameter)] > 0 for name, parameter in model.backbone.named_parameters()}


def test_every_row_names_a_config_and_every_config_has_a_row_in_the_table_it_names():
    named = {row.config for row in ROWS}
    assert len(ROWS) == 44 and all((ROOT / config).is_file() for config in named)
    own = {Path(name).stem for name in named if '/focal/' in name}
    assert {path.stem for path in FOCAL.glob('*.py')} == own | set(ABLATED)
    for row in ROWS:
        if '/focal/' in row.config and row.cells['table'] != 'fig5':
            text = ' '.join((ROOT / row.config).read_text(encoding='utf-8').split())
            printed = {row.cells[column] for column in ('ap_box', 'ap_mask', 'miou', 'miou_ms', 'top1')}
            assert f'Table {row.cells["table"]}' in text and all(figure in text for figure in printed) or (
                row.config.endswith('focal-t_8xb128_in1k.py')), row.label


@pytest.mark.parametrize('row', [row for row in ROWS if row.cells['table'] in ('6', '7', '8', 'fig5')],
                         ids=lambda row: f'{row.label} {row.cells["method"]} {row.cells["backbone"]}')
def test_an_ablation_changes_its_backbone_by_what_its_row_says_and_nothing_else(row):
    backbone = row.cells['backbone']
    family = 'focal' if backbone == 'focal-t' else 'flatten_swin'
    config, base = (Config.fromfile(path).to_dict() for path in
                    (ROOT / row.config, ROOT / f'configs/{family}/{backbone}_8xb128_in1k.py'))
    base['model']['backbone'].update(ABLATIONS[row.cells['table'], row.cells['method'], backbone])
    assert config == base


def test_every_ablation_has_its_detector_too():
    """The tables give box AP of Mask R-CNN 1x for each backbone that they ablate."""
    ablations = {path.stem for path in FOCAL.glob('*-t_8xb128_in1k_*.py')}
    assert {name.replace('_8xb128_in1k_', '-') for name in ablations} == {
        name.removeprefix('mask-rcnn_').removesuffix('_fpn_1x_coco') for name in ABLATED}


@pytest.mark.parametrize('name', ABLATED)
def test_the_detector_of_an_ablation_has_the_backbone_of_its_classifier_and_the_recipe_of_focal_t(name, load_config):
    config, base = (load_config(f'focal/{stem}.py') for stem in (name, 'mask-rcnn_focal-t_fpn_1x_coco'))
    family, change = name.removeprefix('mask-rcnn_').removesuffix('_fpn_1x_coco').split('-t-')
    classifier = load_config(f'focal/{family}-t_8xb128_in1k_{change}.py').model.backbone
    assert config.pretrained == config.model.backbone.init_cfg.checkpoint == f'checkpoints/{family}-t-{change}_in1k.pth'
    for_detection = {'out_indices', 'init_cfg', 'focal_windows', 'expand_always', 'neighbor_boundary', 'img_size'}
    backbones = [{key: value for key, value in backbone.items() if key not in for_detection}
                 for backbone in (config.model.backbone, classifier)]
    assert backbones[0] == backbones[1] and config.model.backbone.drop_path_rate == 0.2
    if family == 'focal':
        for key in for_detection & base.model.backbone.keys() - {'init_cfg'}:
            assert config.model.backbone[key] == base.model.backbone[key]
    for part in (config, base):
        part.pop('pretrained')
        part.model.pop('backbone')
    assert config.to_dict() == base.to_dict()
    names = {key for key in build_on_meta(classifier, 'mmdet').state_dict() if not key.startswith('norms.')}
    detector = build_on_meta(load_config(f'focal/{name}.py').model.backbone, 'mmdet').state_dict().keys()
    new = {key for key in detector - names if not key.startswith('norms.')}
    assert names <= detector and all(key.endswith('neighbor_bias.table') for key in new)


@pytest.mark.parametrize('name', DENSE)
def test_dense_tasks_enlarge_the_regions_and_keep_windows_from_wrapping_around_the_border(name):
    config, family = Config.fromfile(FOCAL / f'{name}.py'), family_of(name)
    backbone = config.model.backbone
    assert backbone.arch == ARCHS[family] and backbone.init_cfg.prefix == 'backbone.'
    assert backbone.init_cfg.checkpoint == f'checkpoints/{family}_in{"22k" if family == "focal-l" else "1k"}.pth'
    if family == 'swin-t':
        assert backbone.type == 'mmflatten.FLattenSwin' and backbone.attn_types == 'SSSS'
        return
    assert backbone.type == 'mmflatten.FocalTransformer' and tuple(backbone.focal_windows) == (15, 13, 9, 7)
    assert backbone.expand_always and backbone.neighbor_boundary == 'mask'
    large = family in ('focal-b', 'focal-l') or config.default_scope == 'mmseg'
    assert backbone.drop_path_rate == (0.3 if large else 0.2)


@pytest.mark.parametrize('name', DENSE)
def test_dense_tasks_have_the_papers_optimizer_and_scales(name):
    config = Config.fromfile(FOCAL / f'{name}.py')
    optimizer = config.optim_wrapper.optimizer
    lr, decay = (6e-5, 0.01) if config.default_scope == 'mmseg' else (1e-4, 0.1 if name.startswith('htc') else 0.05)
    assert (optimizer.type, optimizer.lr, optimizer.weight_decay) == ('AdamW', lr, decay)
    assert ('clip_grad' in config.optim_wrapper) == name.startswith('sparse-rcnn')
    steps = {step.type for step in config.train_pipeline}
    if name.endswith('_1x_coco'):
        assert next(step for step in config.train_pipeline if step.type == 'Resize').scale == (1333, 800)
    elif config.default_scope == 'mmdet':
        assert ('RandomResize' if name.startswith('htc') else 'RandomChoice') in steps


@pytest.mark.parametrize('name', ['focal-t_8xb128_in1k', 'mask-rcnn_focal-t_fpn_1x_coco',
                                  'retinanet_focal-t_fpn_ms-3x_coco', 'upernet_focal-t_8xb2-160k_ade20k-512x512'])
def test_position_tables_and_norms_are_not_decayed_and_the_pooling_is(name, load_config):
    groups = decayed(load_config(f'focal/{name}.py'))
    tables = ('relative_position_bias.table', 'neighbor_bias.table', '.pooled_bias.0.table')
    for table in tables:
        found = [is_decayed for parameter, is_decayed in groups.items() if parameter.endswith(table)]
        # A classifier's last stage, of two blocks, has no neighbours.
        fewer = 2 if table == 'neighbor_bias.table' and 'in1k' in name else 0
        assert len(found) == 12 - fewer and not any(found), table
    assert all(groups[name] for name in groups if name.endswith('.pools.0.weight'))
    assert not any(groups[name] for name in groups if '.norm.' in name or name.startswith('norms.'))
    if 'in1k' in name:
        assert not any(is_decayed for parameter, is_decayed in groups.items() if parameter.endswith('.bias'))


def test_a_detector_takes_a_classifiers_weights_and_resizes_the_tables_of_its_regions(load_config, tmp_path):
    classifier = MODELS.build(load_config('focal/focal-t_8xb128_in1k.py').model)
    classifier.init_weights()
    torch.save(dict(state_dict=classifier.state_dict()), tmp_path / 'focal.pth')
    config = load_config('focal/retinanet_focal-t_fpn_1x_coco.py')
    config.model.backbone.init_cfg.checkpoint = str(tmp_path / 'focal.pth')
    detector = MODELS.build(config.model.backbone)
    fresh = {key: value.clone() for key, value in detector.state_dict().items()}
    detector.init_weights()
    loaded, given = detector.state_dict(), classifier.backbone.state_dict()
    resized = {key for key in given if '.pooled_bias.' in key}
    for key in given.keys() - resized:
        torch.testing.assert_close(loaded[key], given[key], rtol=0, atol=0)
    sides = Counter((given[key].shape[1], loaded[key].shape[1]) for key in resized)
    assert sides == {(169, 441): 2, (121, 361): 2, (81, 225): 6, (49, 169): 2}
    for key in resized:
        assert not torch.equal(loaded[key], fresh[key])
        torch.testing.assert_close(loaded[key].mean(), given[key].mean(), atol=5e-3, rtol=0)
    new = {key for key in loaded.keys() - given.keys() if not key.startswith('norms.')}
    assert new == {f'stages.3.blocks.{block}.attn.fn.neighbor_bias.table' for block in range(2)}


def test_htc_trains_at_400_to_1400_pixels_and_tests_at_the_papers_scales():
    config = Config.fromfile(FOCAL / 'htc_focal-l_fpn_ms-3x_coco.py')
    resize = TRANSFORMS.build(dict(next(step for step in config.train_pipeline if step.type == 'RandomResize'),
                                   resize_type='mmdet.Resize', type='mmcv.RandomResize'))
    np.random.seed(0)
    shapes = [resize(dict(img=np.zeros((60, 80, 3), dtype=np.uint8), img_shape=(60, 80)))['img'].shape[:2]
              for _ in range(40)]
    assert all(395 <= min(shape) <= 1400 and max(shape) <= 1600 for shape in shapes)
    assert min(map(min, shapes)) < 600 and max(map(max, shapes)) > 1400
    assert next(step for step in config.test_pipeline if step.type == 'Resize').scale == (2100, 1400)
    scales, flips = config.tta_pipeline[-1].transforms[:2]
    assert [step.scale for step in scales] == [(1800, 1200), (1950, 1300), (2100, 1400), (2200, 1450), (2250, 1500),
                                               (2400, 1600)]
    assert [step.prob for step in flips] == [1, 0]
    assert config.model.test_cfg.rcnn.nms.type == 'soft_nms' and config.model.test_cfg.rcnn.score_thr == 0.001
    assert config.train_dataloader.dataset.data_prefix == dict(img='train2017/', seg='stuffthingmaps/train2017/')


def test_instaboost_is_there_and_names_the_package_it_needs(monkeypatch):
    import mmdet.datasets.transforms  # noqa: F401  registers InstaBoost without the package
    base, plain = (Config.fromfile(ROOT / f'configs/_base_/datasets/coco_htc{kind}_ms.py').train_pipeline
                   for kind in ('_instaboost', ''))
    position = [step.type for step in base].index('InstaBoost')
    assert position == 1 and [*base[:1], *base[2:]] == plain, 'between the image and its annotations'
    monkeypatch.setitem(sys.modules, 'instaboostfast', None)
    with pytest.raises(ImportError, match='pip install instaboostfast'):
        TRANSFORMS.build(dict(base[1], type='mmdet.InstaBoost'))
    monkeypatch.setitem(sys.modules, 'instaboostfast', SimpleNamespace(InstaBoostConfig=lambda *settings: settings))
    assert TRANSFORMS.build(dict(base[1], type='mmdet.InstaBoost')).cfg[2] == (0.8, 1.2)


def test_focal_l_is_segmented_in_crops_of_640_and_tested_at_six_scales_of_2560():
    config = Config.fromfile(FOCAL / 'upernet_focal-l_8xb2-160k_ade20k-640x640.py')
    train = {step.type: step for step in config.train_pipeline}
    assert train['RandomCrop'].crop_size == (640, 640) == tuple(config.model.data_preprocessor.size)
    assert train['RandomResize'].scale == (2560, 640) == config.test_pipeline[1].scale
    assert [step.scale for step in config.tta_pipeline[-1].transforms[0]] == [
        (1280, 320), (1920, 480), (2560, 640), (3200, 800), (3840, 960), (4480, 1120)]


def test_sparse_rcnn_has_300_proposals_in_six_stages():
    config = Config.fromfile(FOCAL / 'sparse-rcnn_focal-t_fpn_ms-3x_coco.py')
    model = build_on_meta(config.model, config.default_scope)
    assert model.rpn_head.num_proposals == config.model.test_cfg.rcnn.max_per_img == 300
    assert len(model.roi_head.bbox_head) == 6
