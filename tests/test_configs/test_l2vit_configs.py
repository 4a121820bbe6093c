"""L2ViT's configs: the models that the paper's rows name, and the paper's recipe."""
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from mmcv.cnn.bricks import DropPath
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DATA_SAMPLERS, MODELS, PARAM_SCHEDULERS, init_default_scope
from torch import nn

from mmflatten.analysis.flops.meta import build_on_meta
from mmflatten.analysis.zoo.tables import paper_rows

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / 'configs' / 'l2vit'
ROWS = [row for row in paper_rows() if row.cells['paper'] == 'l2vit']

# What a row of the ablations changes in the backbone of L2ViT-T.
NO_SCALE = dict(temperature=False, lcm_kernel=None)
DEEP = dict(arch='deep-narrow')
STEM = dict(DEEP, conv_stem='4L')
CHANGES = {
    'enhanced swin-t v1 (CPE)': dict(block_order='WS', conv_stem=False),
    'enhanced swin-t v2 (CPE, conv stem, LCM)': dict(block_order='WC'),
    'CPE': dict(NO_SCALE, conv_stem=False), 'CPE, conv stem': NO_SCALE,
    'CPE, conv stem, scale': dict(lcm_kernel=None), 'CPE, conv stem, scale, LCM 3x3': dict(lcm_kernel=3),
    'CPE, conv stem, scale, LCM 7x7': {}, 'l2vit-t': {}, 'plain MLP + LCM': {}, 'clamp 1e2': {},
    '+ deep-narrow 4-4-18-4': DEEP, '+ 4-layer conv stem': STEM,
    '+ projection 1280': dict(STEM, last_projection=1280),
    '+ overlapped downsampling': dict(STEM, last_projection=1280, overlapped_downsample=True),
    **{f'clamp 1e{power}': dict(min_denominator=float(f'1e{power}')) for power in (-6, -1, 0, 1, 3)},
    'plain MLP': dict(lcm_kernel=None), 'PVTv2 MLP': dict(lcm_kernel=None, mlp='pvt_v2'),
    'locally improved MLP': dict(lcm_kernel=None, mlp='local'),
}
BOUND = dict(type='LinearAttention', min_denominator=100.)
ENHANCED = dict(type='ClampedLinearAttention', lcm_kernel=3)
MIXERS = {
    'softmax': None, 'linear, L1 norm': dict(type='SimAAttention'), 'sima': dict(type='SimAAttention'),
    'linear, ReLU': dict(BOUND, feature_map='relu'), 'linear': dict(BOUND, feature_map='relu'),
    'linear, LeakyReLU': dict(BOUND, feature_map='leaky_relu'), 'enhanced linear': ENHANCED,
    'enhanced linear in blocks 2,4,..,12; softmax in 1,3,..,11': ENHANCED,
    'xca': dict(type='CrossCovarianceAttention'), 'cosformer': dict(type='CosFormerAttention'),
    'efficient': dict(type='EfficientAttention'),
}


def read(name: str) -> Config:
    return Config.fromfile(FOLDER / f'{name}.py')


def test_every_row_names_a_config():
    assert len(ROWS) == 49 and all(row.config.startswith('configs/l2vit/') for row in ROWS)


@pytest.mark.parametrize('row', [row for row in ROWS if row.cells['method'] in {**CHANGES, **MIXERS}],
                         ids=lambda row: f'{row.label} {row.cells["method"]}')
def test_a_config_of_an_ablation_has_what_its_row_says(row):
    config, method = Config.fromfile(ROOT / row.config), row.cells['method']
    backbone = config.model.backbone.to_dict()
    if row.cells['backbone'] == 'deit-t':
        types = dict(softmax='S').get(method, 'SL' * 6 if 'in blocks' in method else 'L')
        expected = dict(type='mmflatten.FLattenDeiT', arch='tiny', attn_types=types, img_size=224, drop_path_rate=.1)
        if MIXERS[method]:
            expected['linear_attention'] = MIXERS[method]
        assert config.model.neck is None and config.auto_scale_lr.base_batch_size == 1024
    else:
        expected = dict(type='mmflatten.L2ViT', arch='tiny', img_size=224, window_size=7, drop_path_rate=.1,
                        out_indices=[3])
        expected |= CHANGES[method]
        backbone['out_indices'] = list(backbone['out_indices'])
    assert backbone == expected


def named_classifier(path: Path) -> str | None:
    """The config whose checkpoint a detector says it starts from."""
    found = re.search(r'a checkpoint of (\S+)\.py', path.read_text(encoding='utf-8'))
    return found and found.group(1)


@pytest.mark.parametrize('path', [path for path in sorted(FOLDER.glob('*_coco.py')) if named_classifier(path)],
                         ids=lambda path: path.stem)
def test_a_detector_takes_all_weights_of_the_classifier_it_names(path):
    detector, classifier = Config.fromfile(path), read(named_classifier(path))
    ours, theirs = (build_on_meta(config.model, config.default_scope).backbone for config in (detector, classifier))
    shapes, theirs = ({key: value.shape for key, value in backbone.stages.state_dict().items()}
                      for backbone in (ours, theirs))
    assert shapes == theirs and detector.model.neck.in_channels == list(ours.out_channels)
    for switch in ('min_denominator', 'block_order'):  # which leave no trace in the weights
        assert detector.model.backbone.get(switch) == classifier.model.backbone.get(switch)
    assert detector.model.backbone.init_cfg.checkpoint.startswith('checkpoints/')


@pytest.mark.parametrize('name, rate', [
    *((f'l2vit-{size}_32xb128_in1k', rate) for size, rate in zip('tsb', (.1, .3, .4))),
    ('l2vit-b_32xb128_in22k', .2), ('l2vit-b_in22k-pre_16xb64_in1k-224px', .2),
    ('l2vit-b_in22k-pre_16xb64_in1k-384px', .2),
    *((f'{detector}_l2vit-{size}_fpn_{schedule}_coco', rate) for detector in ('mask-rcnn', 'retinanet')
      for schedule, rates in (('1x', (.1, .1, .2)), ('ms-3x', (.2, .2, .3))) for size, rate in zip('tsb', rates)),
    *((f'upernet_l2vit-{size}_8xb2-160k_ade20k-512x512', .3) for size in 'tsb'),
])
def test_the_last_block_drops_its_branches_as_the_recipe_says(name, rate):
    config = read(name)
    model = build_on_meta(config.model, config.default_scope)
    found = [module.drop_prob for module in model.backbone.stages[-1].blocks[-1].modules()
             if isinstance(module, DropPath)]
    assert found == pytest.approx([rate] * 3)  # attention, local concentration, MLP


def decay_of(name: str) -> tuple[dict[str, float], float]:
    """Weight decay by parameter, and that of the config."""
    config = read(name)
    model = build_on_meta(config.model, config.default_scope)
    groups = build_optim_wrapper(model, config.optim_wrapper).optimizer.param_groups
    decay = {id(p): group['weight_decay'] for group in groups for p in group['params']}
    assert all(group['lr'] == config.optim_wrapper.optimizer.lr for group in groups)
    return ({key: decay[id(p)] for key, p in model.named_parameters()}, config.optim_wrapper.optimizer.weight_decay)


@pytest.mark.parametrize('name, decay, blocks', [
    ('l2vit-t_32xb128_in1k', .05, 6), ('l2vit-b_32xb128_in22k', .05, 12),
    ('l2vit-b_in22k-pre_16xb64_in1k-384px', 1e-8, 12),
])
def test_classifiers_decay_kernels_and_temperatures_but_no_vectors(name, decay, blocks):
    found, base = decay_of(name)
    model = build_on_meta(read(name).model, 'mmpretrain')
    assert base == decay
    assert found == {key: 0 if p.ndim == 1 else decay for key, p in model.named_parameters()}
    temperatures = [value for key, value in found.items() if key.endswith('temperature')]
    assert temperatures == [decay] * blocks


@pytest.mark.parametrize('name, decay', [('mask-rcnn_l2vit-t_fpn_1x_coco', .05),
                                         ('retinanet_l2vit-b_fpn_ms-3x_coco', .05),
                                         ('upernet_l2vit-s_8xb2-160k_ade20k-512x512', .01)])
def test_dense_tasks_decay_everything(name, decay):
    found, base = decay_of(name)
    assert base == decay and set(found.values()) == {decay}


def test_deit_keeps_class_token_and_positions_from_decay():
    found, decay = decay_of('l2vit-deit-t-enhanced_8xb128_in1k')
    for key, value in found.items():
        vector = key.endswith('.bias') or 'norm' in key
        assert (value == 0) is (vector or 'cls_token' in key or 'embed.position' in key), key
    assert sum(key.endswith('temperature') for key in found) == 12


def test_deit_sees_every_image_of_an_epoch_three_times():
    init_default_scope('mmpretrain')
    sampler = DATA_SAMPLERS.build(dict(read('l2vit-deit-t-xca_8xb128_in1k').train_dataloader.sampler, dataset=range(9)))
    seen = list(sampler)
    assert len(seen) == 9 and sorted(seen.count(image) for image in set(seen)) == [3, 3, 3]


def rates(name: str, epoch_length: int) -> list[float]:
    """Learning rates of all iterations of a training whose epochs are `epoch_length` iterations long."""
    config = read(name)
    optimizer = torch.optim.AdamW([nn.Parameter(torch.zeros(1))], lr=config.optim_wrapper.optimizer.lr)
    schedulers = []
    for cfg in config.param_scheduler:
        cfg = cfg.to_dict()
        cls = PARAM_SCHEDULERS.get(cfg.pop('type'))
        assert cfg.pop('convert_to_iter_based')
        schedulers.append(cls.build_iter_from_epoch(optimizer, **cfg, epoch_length=epoch_length))
    found = []
    for _ in range(config.train_cfg.max_epochs * epoch_length):
        found.append(optimizer.param_groups[0]['lr'])
        optimizer.step()
        for scheduler in schedulers:
            scheduler.step()
    return found


@pytest.mark.parametrize('name, peak, first, last, warmup, epochs', [
    ('l2vit-t_32xb128_in1k', 4e-3, 0, 1e-6, 20, 300),
    ('l2vit-b_32xb128_in22k', 1e-3, 1e-6, 1e-5, 5, 90),
    ('l2vit-b_in22k-pre_16xb64_in1k-224px', 1e-4, 4e-8, 4e-7, 5, 30),
    ('l2vit-b_in22k-pre_16xb64_in1k-384px', 1e-4, 4e-8, 4e-7, 5, 30),
])
def test_learning_rates_are_those_of_the_authors_function(name, peak, first, last, warmup, epochs):
    """Linear over the warm-up, then a cosine over the iterations that are left."""
    length = 7
    rise = np.linspace(first, peak, warmup * length)
    left = (epochs - warmup) * length
    fall = [last + .5 * (peak - last) * (1 + math.cos(math.pi * i / left)) for i in range(left)]
    np.testing.assert_allclose(rates(name, length), [*rise, *fall], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize('name, batch, averaged', [
    ('l2vit-t_32xb128_in1k', 4096, True), ('l2vit-b_32xb128_in22k', 4096, False),
    ('l2vit-b_in22k-pre_16xb64_in1k-384px', 1024, True), ('l2vit-deit-t-relu_8xb128_in1k', 1024, False),
])
def test_batch_moving_average_and_no_clipping(name, batch, averaged):
    config = read(name)
    assert config.auto_scale_lr.base_batch_size == batch and config.optim_wrapper.get('clip_grad') is None
    hooks = config.get('custom_hooks', [])
    assert [hook.type for hook in hooks] == ['EMAHook'] * averaged


def test_the_moving_average_has_the_decay_of_the_paper_and_takes_batch_norms_along():
    cfg = read('l2vit-t_32xb128_in1k').custom_hooks[0].to_dict()
    assert cfg.pop('type') == 'EMAHook'
    source = nn.BatchNorm1d(1)
    average = MODELS.build(dict(cfg, type='mmengine.ExponentialMovingAverage', model=source))
    average.update_parameters(source)
    for statistic in (source.weight.data, source.running_mean):
        statistic += 1
    average.update_parameters(source)
    assert average.module.weight.item() - 1 == pytest.approx(1e-4, rel=1e-2)
    assert average.module.running_mean.item() == pytest.approx(1e-4, rel=1e-3)


@pytest.mark.parametrize('name', ['mask-rcnn_l2vit-t_fpn_1x_coco', 'retinanet_l2vit-t_fpn_1x_coco'])
def test_detectors_train_at_many_scales_in_12_epochs_too(name):
    config = read(name)
    assert 'RandomChoice' in [step.type for step in config.train_dataloader.dataset.pipeline]
    assert config.param_scheduler[-1].milestones == [8, 11] and config.optim_wrapper.optimizer.lr == 1e-4
    assert 'clip_grad' not in config.optim_wrapper


def test_segmentors_have_plain_batch_norms_and_no_decay_exceptions():
    model = read('upernet_l2vit-b_8xb2-160k_ade20k-512x512').model
    assert model.decode_head.norm_cfg.type == model.auxiliary_head.norm_cfg.type == 'BN'
    assert (model.decode_head.in_channels, model.auxiliary_head.in_channels) == ([128, 256, 512, 1024], 512)
    assert model.auxiliary_head.loss_decode.loss_weight == .4 and model.test_cfg.mode == 'whole'
