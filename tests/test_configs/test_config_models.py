"""Models of the configs: every one is built; parameters, weight decay, ablations."""

import re
from pathlib import Path

import pytest
import torch
from mmengine.registry import MODELS

from mmflatten.measure.flops.meta import build_on_meta
from mmflatten.measure.papers.tables import paper_rows, within_printed_precision
from mmflatten.models import attention

ROOT = Path(__file__).parents[2] / 'configs'
CONFIGS = sorted(path for path in ROOT.glob('*/*.py') if path.parent.name != '_base_')
NAMES = [path.relative_to(ROOT).as_posix() for path in CONFIGS]

# sizes of models that have a smaller one
LARGER = re.compile(r'-[smbl][_-]|b[2-5][_-]|101|152|384|22k')

# Counted on the official classes (the classifiers) or with the libraries' own Swin (the baselines
# of dense tasks). FLatten-PVT's official class has a norm of 2 x 512 behind its last stage that it
# never calls.
PARAMETERS = {
    'flatten-swin-t_8xb128_in1k': 29_192_384,
    'flatten-swin-s_8xb128_in1k': 50_510_288,
    'flatten-swin-b_8xb64_in1k': 88_972_488,
    'flatten-swin-b_8xb32_in1k-384px': 91_433_928,
    'swin-t_8xb128_in1k': 28_288_354,
    'swin-s_8xb128_in1k': 49_606_258,
    'swin-b_8xb64_in1k': 87_768_224,
    'swin-b_8xb32_in1k-384px': 87_903_584,
    'upernet_swin-t_8xb2-160k_ade20k-512x512': 59_941_862,
    'deit-t_8xb128_in1k': 5_717_416,
    'flatten-deit-t_8xb128_in1k': 6_191_272,
    'flatten-pvt-t_8xb128_in1k': 12_150_504 - 1024,
    'flatten-pvt-s_8xb64_in1k': 21_670_248 - 1024,
    'flatten-pvt-m_8xb64_in1k': 37_242_216 - 1024,
    'flatten-pvt-l_8xb32_in1k': 50_649_192 - 1024,
    'flatten-pvt-t_8xb128_in1k_ssss': 13_228_264 - 1024,
    'pvt-t_8xb128_in1k': 13_229_288,
    'pvt-s_8xb128_in1k': 24_485_864,
    'pvt-m_8xb128_in1k': 44_208_104,
    'pvt-l_8xb128_in1k': 61_369_320,
    'flatten-pvtv2-b0_8xb128_in1k': 3_594_824,
    'flatten-pvtv2-b1_8xb128_in1k': 12_931_240,
    'flatten-pvtv2-b2_8xb128_in1k': 22_548_264,
    'flatten-pvtv2-b3_8xb128_in1k': 38_273_832,
    'flatten-pvtv2-b4_8xb64_in1k': 51_836_968,
    'flatten-cswin-t_8xb256_in1k': 21_201_768,
    'flatten-cswin-s_8xb128_in1k': 35_451_752,
    'flatten-cswin-b_8xb64_in1k': 74_867_032,
    'flatten-cswin-b_8xb32_in1k-384px': 78_369_112,
}
# in millions
PRINTED = {row.config: row.cells['params_m'] for row in paper_rows() if not row.cells['cause']}


@pytest.mark.parametrize(
    'name',
    [
        pytest.param(
            name,
            marks=[pytest.mark.full]
            if LARGER.search(Path(name).stem) and Path(name).stem not in PARAMETERS
            else [],
        )
        for name in NAMES
    ],
)
def test_config_builds_a_model_with_the_papers_parameters_and_its_channels(name, read_config):
    config = read_config(name)
    model = build_on_meta(config.model, config.default_scope)
    parameters, stem = sum(parameter.numel() for parameter in model.parameters()), Path(name).stem
    assert parameters == PARAMETERS.get(stem, parameters)
    printed = PRINTED.get(f'configs/{name}')
    assert not printed or within_printed_precision(parameters / 1e6, printed)
    assert 'digits' not in stem or parameters < 5e6, 'a model for a CPU'
    readers = (config.model.get(part) for part in ('neck', 'decode_head', 'panoptic_head'))
    reader = next(filter(None, readers), {})
    reader = reader[-1] if isinstance(reader, list) else reader  # heads in a row
    if isinstance(reader.get('in_channels'), list) and hasattr(model.backbone, 'out_strides'):
        assert list(model.backbone.out_channels) == list(reader['in_channels'])
        one_stage = stem.startswith(('retinanet', 'atss', 'reppoints', 'dino-4scale'))
        if len(model.backbone.out_strides) == 1:  # a plain backbone without a neck
            return
        assert model.backbone.out_strides == ((8, 16, 32) if one_stage else (4, 8, 16, 32))


VECTORS = 'vectors'  # biases, norms and other one-dimensional parameters
POSITIONS = ('cls_token', 'embed.position')
TABLES = ('relative_position_bias', 'neighbor_bias', 'pooled_bias')
QUERIES = ('query_embed', 'query_feat', 'level_embed')
MASK2FORMER = ('norm', '.gn.', 'position', 'cls_token', *QUERIES)


@pytest.mark.parametrize(
    'name, without',
    [
        ('flatten_swin/flatten-swin-t_8xb128_in1k', (VECTORS, *TABLES)),
        ('flatten_swin/swin-t_8xb128_in1k', (VECTORS, *TABLES)),
        ('flatten_swin/swin-b_8xb32_in1k-384px', (VECTORS, *TABLES)),
        ('focal/focal-t_8xb128_in1k', (VECTORS, *TABLES)),
        ('flatten_deit/flatten-deit-t_8xb128_in1k', (VECTORS, *POSITIONS)),
        ('l2vit/l2vit-deit-t-enhanced_8xb128_in1k', (VECTORS, *POSITIONS)),
        ('flatten_pvt/flatten-pvt-t_8xb128_in1k', (VECTORS,)),
        ('flatten_pvt/pvt-t_8xb128_in1k', (VECTORS, 'cls_token')),
        ('flatten_pvt_v2/flatten-pvtv2-b0_8xb128_in1k', (VECTORS,)),
        ('flatten_cswin/flatten-cswin-t_8xb256_in1k', (VECTORS,)),
        ('flatten_cswin/flatten-cswin-b_8xb32_in1k-384px', (VECTORS,)),
        ('flatten_cswin/cswin-t_8xb256_in1k', (VECTORS,)),
        ('flatten_cswin/cswin-b_8xb32_in1k-384px', ()),
        ('l2vit/l2vit-t_32xb128_in1k', (VECTORS,)),
        ('l2vit/l2vit-b_in22k-pre_16xb64_in1k-384px', (VECTORS,)),
        ('flatten_swin/mask-rcnn_flatten-swin-t_fpn_1x_coco', ('norm', *TABLES)),
        ('flatten_swin/atss_swin-t_fpn_ms-3x_coco', ('norm', *TABLES)),
        ('agent/mask-rcnn_agent-swin-t_fpn_1x_coco', ('norm', *TABLES, 'key_bias', 'query_bias')),
        (
            'agent/upernet_agent-swin-t_8xb2-160k_ade20k-512x512',
            ('norm', *TABLES, 'key_bias', 'query_bias'),
        ),
        ('agent/mask-rcnn_agent-pvt-t_fpn_1x_coco', ()),
        ('mila/mila-t_8xb128_in1k', (VECTORS,)),
        ('flatten_swin/upernet_flatten-swin-t_8xb2-160k_ade20k-512x512', ('norm', *TABLES)),
        ('focal/retinanet_focal-t_fpn_ms-3x_coco', ('norm', *TABLES)),
        ('focal/upernet_focal-t_8xb2-160k_ade20k-512x512', ('norm', *TABLES)),
        ('flatten_cswin/mask-rcnn_flatten-cswin-t_fpn_1x_coco', ('norm',)),
        ('flatten_pvt_v2/upernet_flatten-pvtv2-b1_8xb2-160k_ade20k-512x512', ('norm',)),
        ('flatten_deit/mask-rcnn_flatten-deit-t_simple-fpn_1x_coco', ('norm', *POSITIONS)),
        (
            'flatten_deit/upernet_flatten-deit-s_simple-fpn_8xb2-160k_ade20k-512x512',
            ('norm', *POSITIONS),
        ),
        ('flatten_pvt/mask-rcnn_flatten-pvt-t_fpn_1x_coco', ()),
        ('flatten_pvt/semantic-fpn_pvt-t_8xb4-40k_ade20k-512x512', ()),
        ('l2vit/mask-rcnn_l2vit-t_fpn_1x_coco', ()),
        ('l2vit/mask-rcnn_enhanced-swin-t-v1_fpn_1x_coco', ()),
        ('l2vit/upernet_l2vit-s_8xb2-160k_ade20k-512x512', ()),
        ('mask2former/mask2former_flatten-swin-t_8xb2-lsj-50e_coco', MASK2FORMER),
        ('mask2former/mask2former_vit-s_simple-fpn_8xb2-160k_ade20k-512x512', MASK2FORMER),
        ('dino/dino-4scale_swin-t_8xb2-12e_coco', ()),
    ],
)
def test_optimizer_weight_decay(name, without, decayed, meta_model):
    parameters = dict(meta_model(f'{name}.py').named_parameters())
    for parameter, is_decayed in decayed(f'{name}.py').items():
        exempt = any(word in parameter for word in without) or (
            VECTORS in without and parameters[parameter].ndim == 1
        )
        assert is_decayed is not exempt, parameter


@pytest.mark.parametrize(
    'mark, cls',
    [
        ('hydra', attention.HydraAttention),
        ('efficient', attention.EfficientAttention),
        ('linear-angular', attention.LinearAngularAttention),
        ('enhanced-linear', attention.EnhancedLinearAttention),
    ],
)
@pytest.mark.parametrize('model', ['flatten_deit/deit-t', 'flatten_swin/swin-t'])
def test_compared_attentions_change_only_the_mixer(model, mark, cls, load_config):
    config = load_config(f'{model}_8xb128_in1k_{mark}-attention.py')
    parent = load_config(f'{model.replace("/", "/flatten-")}_8xb128_in1k.py')
    mixers = [
        module
        for module in build_on_meta(config.model, 'mmpretrain').modules()
        if isinstance(module, attention.TokenMixer)
    ]
    kinds = [cls] * 12 if 'deit' in model else [cls] * 4 + [attention.SoftmaxAttention] * 8
    assert [type(mixer) for mixer in mixers] == kinds
    del config.model.backbone['linear_attention']
    assert config.to_dict() == parent.to_dict()


ABLATIONS = sorted(
    path for path in CONFIGS if re.search(r'_in1k_', path.stem) and 'attention' not in path.stem
)


@pytest.mark.parametrize('path', ABLATIONS, ids=lambda path: path.stem)
def test_ablation_changes_only_its_backbone(path, read_config):
    main = next(
        other for other in CONFIGS if other.stem == path.stem.partition('_in1k_')[0] + '_in1k'
    )
    ablation, base = (
        read_config(other.relative_to(ROOT).as_posix()).to_dict() for other in (path, main)
    )
    assert ablation['model'].pop('backbone') != base['model'].pop('backbone')
    for config in (ablation, base):
        config['model']['head'].pop('in_channels')
        config.pop('linear_attention', None)
    assert ablation == base


@pytest.mark.parametrize(
    'name',
    [
        'digits/mask-rcnn_flatten-swin-nano_fpn_digits.py',
        'flatten_swin/cascade-mask-rcnn_swin-t_fpn_ms-3x_coco.py',
        'factorized/mask-rcnn_r50_fa-fpn-all-res3-res4_fpn_32xb2-24e_coco.py',
    ],
)
def test_roi_align_gets_contiguous_maps(name, load_config):
    """mmcv's RoIAlign reads any tensor as contiguous (B, C, H, W), so channels-last maps would give
    garbage.
    """
    config = load_config(name)
    config.model.backbone.init_cfg = None
    with torch.no_grad():
        maps = MODELS.build(config.model).eval().extract_feat(torch.zeros(2, 3, 64, 96))
    assert all(feature_map.is_contiguous() for feature_map in maps)
