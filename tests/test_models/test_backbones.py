"""Tests that every registered backbone must pass, at any input size."""

import re

import pytest
import torch

from mmflatten.models.backbones.base import Backbone
from mmflatten.models.backbones.vit import ARCHS
from mmflatten.registry import MODELS

SMALL = {
    'FLattenPVT': dict(
        arch=dict(embed_dims=(8, 12, 20, 32), depths=(1, 1, 2, 1), num_heads=(1, 2, 5, 8)),
        img_size=64,
    ),
    'FLattenPVTv2': dict(
        arch=dict(embed_dims=(8, 12, 20, 32), depths=(1, 1, 2, 1), num_heads=(1, 2, 5, 8)),
        img_size=64,
    ),
    'FLattenCSwin': dict(
        arch=dict(embed_dims=8, depths=(1, 1, 2, 1), num_heads=(1, 2, 4, 8)), img_size=64
    ),
    'FLattenDeiT': dict(
        arch=dict(embed_dims=12, depth=4, num_heads=3),
        img_size=64,
        out_type='featmap',
        out_indices=(0, 3),
    ),
    'ViT': dict(
        arch=dict(embed_dims=24, depth=4, num_heads=3, layer_scale=0.5, registers=2),
        img_size=64,
        out_type='featmap',
        out_indices=(0, 3),
    ),
    'FLattenSwin': dict(
        arch=dict(embed_dims=24, depths=(1, 2, 2, 1), num_heads=(1, 2, 3, 6)), img_size=64
    ),
    'FocalTransformer': dict(
        arch=dict(embed_dims=24, depths=(1, 2, 2, 1), num_heads=(1, 2, 3, 6)),
        img_size=64,
        window_size=2,
        expand_size=1,
        focal_windows=(5, 3, 3, 1),
        expand_always=True,
    ),
    'L2ViT': dict(
        arch=dict(embed_dims=24, depths=(2, 2, 4, 2), num_heads=(1, 2, 3, 6)), img_size=64
    ),
    'BiFormerSTL': dict(
        arch=dict(embed_dims=24, depths=(1, 2, 2, 1), num_heads=(1, 2, 3, 6)), img_size=64
    ),
    **dict.fromkeys(
        ('RAVLT', 'MLLA', 'HViTTT'),
        dict(
            arch=dict(embed_dims=(8, 16, 24, 32), depths=(1, 1, 2, 1), num_heads=(1, 2, 3, 4)),
            img_size=64,
        ),
    ),
}
CASES = [
    pytest.param('FLattenPVT', {}, id='flatten-pvt'),
    pytest.param('FLattenPVTv2', {}, id='flatten-pvt-v2'),
    pytest.param('FLattenCSwin', {}, id='flatten-cswin'),
    pytest.param('FLattenDeiT', {}, id='flatten-deit'),
    pytest.param('ViT', {}, id='vit'),
    pytest.param(
        'ViT',
        dict(
            arch=dict(SMALL['ViT']['arch'], resize='bicubic-offset'),
            attn_types='SLWS',
            window_size=3,
            mask_padding=True,
        ),
        id='vit-windows',
    ),
    pytest.param(
        'ViT',
        dict(
            arch=dict(SMALL['ViT']['arch'], rotary=100.0, key_bias=False, swiglu=True),
            attn_types='SLWL',
            window_size=3,
            output_norm='shared',
        ),
        id='vit-rotary',
    ),
    pytest.param('FLattenSwin', {}, id='flatten-swin'),
    pytest.param('FLattenSwin', dict(attn_types='SSSS'), id='swin'),
    pytest.param(
        'FLattenSwin',
        dict(attn_types='LLMS1', linear_window=3, mask_padding=True),
        id='flatten-swin-windows',
    ),
    pytest.param('FocalTransformer', {}, id='focal'),
    pytest.param(
        'FocalTransformer',
        dict(
            neighbor_boundary='mask',
            mask_padding=True,
            shift=True,
            window_size=4,
            expand_size=2,
            focal_levels=3,
            conv_embed=True,
        ),
        id='focal-switches',
    ),
    pytest.param('L2ViT', {}, id='l2vit'),
    pytest.param(
        'L2ViT',
        dict(
            block_order='VLCW',
            conv_stem='4L',
            mlp='local',
            overlapped_downsample=True,
            last_projection=40,
            lcm_kernel=3,
            temperature=False,
            mask_padding=True,
        ),
        id='l2vit-switches',
    ),
    pytest.param('L2ViT', dict(conv_stem=False, mlp='pvt_v2', lcm_kernel=0), id='l2vit-patches'),
    pytest.param(
        'FLattenDeiT',
        dict(
            with_cls_token=False,
            with_positions=False,
            cpe_kernel=3,
            linear_attention=dict(type='TTTAttention'),
        ),
        id='vittt',
    ),
    pytest.param(
        'FLattenDeiT',
        dict(
            with_cls_token=False,
            border=1,
            linear_attention=dict(type='TokenLevelMultiHeadAttention'),
        ),
        id='mhla',
    ),
    # To all regions, because a choice of regions is not continuous.
    pytest.param(
        'BiFormerSTL',
        dict(
            mixers={
                letter: dict(type='BiLevelRoutingAttention', num_regions=2, topk=4)
                for letter in 'ABC'
            }
        ),
        id='biformer',
    ),
    pytest.param('RAVLT', {}, id='ravlt'),
    pytest.param(
        'RAVLT',
        dict(last_projection=40, ffn_encoding=True, layer_scale=(1.0, 1.0, 1e-6, None)),
        id='ravlt-switches',
    ),
    pytest.param('MLLA', {}, id='mlla'),
    pytest.param('HViTTT', {}, id='hvittt'),
]
# the last ones below a window or patch
SIZES = [(64, 64), (65, 97), (33, 100), (56, 56), (32, 32), (7, 16), (1, 2)]


def build(name, **kwargs):
    torch.manual_seed(0)
    model = MODELS.build(dict(type=name, **{**SMALL[name], **kwargs}))
    # Parameters initialised to zero would hide errors in positional tables and scales.
    for parameter in model.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.02)
    return model


def test_backbone_cases_cover_the_registry():
    MODELS.import_from_location()
    registered = {
        name
        for name, cls in MODELS.module_dict.items()
        if issubclass(cls, Backbone) and not name.startswith('Test')
    }
    assert registered == set(SMALL)


SHARED = dict(drop_path_rate=0.1, out_indices=(0, 1), frozen_stages=0, with_cp=True, init_cfg=None)
PVT = dict(
    attn_types='LLLL', linear_sr_ratios=(1, 1, 1, 1), sr_ratios=(8, 4, 2, 1), with_cls_token=False
)
PUBLIC = {
    'FLattenDeiT': (
        ('tiny', 'small', 'base'),
        dict(img_size=224, patch_size=16, attn_types='L', out_type='cls_token'),
    ),
    'FLattenPVT': (('tiny', 'small', 'medium', 'large'), PVT),
    'FLattenPVTv2': (tuple(f'b{number}' for number in range(6)), PVT),
    'ViT': (
        tuple(ARCHS),
        dict(
            img_size=224,
            patch_size=16,
            attn_types='S',
            out_type='cls_and_avg',
            output_norm='shared',
            window_size=14,
            mask_padding=False,
        ),
    ),
    'FLattenSwin': (
        ('tiny', 'small', 'base'),
        dict(attn_types='LLSS', linear_window=None, softmax_window=7, mask_padding=False),
    ),
    'FLattenCSwin': (
        ('tiny', 'small', 'base'),
        dict(
            img_size=224,
            attn_types='LLSS',
            softmax_split=(1, 2, 7, 7),
            linear_split=None,
            mask_padding=False,
        ),
    ),
    'L2ViT': (
        ('tiny', 'small', 'base', 'deep-narrow'),
        dict(
            window_size=7,
            conv_stem='4L',
            lcm_kernel=7,
            min_denominator=100.0,
            overlapped_downsample=True,
            last_projection=True,
            block_order='WL',
            mlp='local',
            temperature=True,
            mask_padding=False,
        ),
    ),
    'RAVLT': (
        ('tiny', 'small', 'base', 'large', 'extra-tiny'),
        dict(
            img_size=224,
            attn_types='LLSS',
            layer_scale=1.0,
            ffn_encoding=True,
            last_projection=1024,
        ),
    ),
    'MLLA': (('tiny', 'small', 'base'), dict(img_size=224, attn_types='LLLL')),
    'HViTTT': (('tiny', 'small', 'base'), dict(img_size=224, attn_types='LLLL', pooled=True)),
    'FocalTransformer': (
        ('tiny', 'small', 'base', 'large'),
        dict(
            img_size=224,
            window_size=7,
            focal_windows=(7, 5, 3, 1),
            focal_levels=2,
            expand_size=3,
            conv_embed=False,
            shift=False,
            local=True,
            global_=True,
            neighbor_boundary='mask',
            mask_padding=False,
        ),
    ),
}


@pytest.mark.parametrize('name', PUBLIC)
def test_backbone_builds_named_architectures_and_public_arguments(name):
    archs, arguments = PUBLIC[name]
    sizes = set()
    with torch.device('meta'):
        for arch in archs:
            model = MODELS.build(dict(type=name, arch=arch))
            sizes.add(sum(p.numel() for p in model.parameters()))
        model = MODELS.build(dict(type=name, arch=archs[0], **arguments, **SHARED))
    assert len(sizes) == len(archs)
    assert model.out_indices == (0, 1) and not all(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize(('name', 'kwargs'), CASES)
def test_backbone_maps_have_stated_channels_and_strides_at_any_size(name, kwargs):
    model = build(name, **kwargs).eval()
    with torch.no_grad():
        for H, W in SIZES:
            maps = model(torch.randn(2, 3, H, W))
            assert len(maps) == len(model.out_indices)
            for out, channels, stride in zip(maps, model.out_channels, model.out_strides):
                assert out.shape == (2, channels, -(-H // stride), -(-W // stride)), (H, W)
                assert out.isfinite().all()
                assert out.is_contiguous()  # mmcv's RoIAlign requires contiguous maps


@pytest.mark.parametrize(('name', 'kwargs'), CASES)
def test_backbone_batch_items_are_independent(name, kwargs):
    model = build(name, **kwargs).eval()
    images = torch.randn(2, 3, 65, 97)
    with torch.no_grad():
        together = model(images)
        alone = model(images[:1])
    for a, b in zip(together, alone):
        torch.testing.assert_close(a[:1], b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(('name', 'kwargs'), CASES)
def test_backbone_output_changes_little_with_one_more_pixel(name, kwargs):
    """Padding a map by nearly a window or a stride must have a small effect."""
    model = build(name, **kwargs).eval()
    image = torch.randn(1, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    image = torch.nn.functional.interpolate(image, size=(225, 225), mode='bicubic')
    with torch.no_grad():
        fitting, padded = model(image[..., :224, :224]), model(image[..., :224])
    for one, other in zip(fitting, padded, strict=True):
        one, other = one.mean((2, 3)), other.mean((2, 3))
        assert torch.nn.functional.cosine_similarity(one, other) > 0.95


@pytest.mark.parametrize(('name', 'kwargs'), CASES)
def test_backbone_trains_every_parameter(name, kwargs):
    model = build(name, **kwargs, drop_path_rate=0.0)
    sum(out.square().sum() for out in model(torch.randn(2, 3, 65, 97))).backward()
    without = [key for key, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert not without


@pytest.mark.parametrize(('name', 'kwargs'), CASES)
@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_backbone_autocast_is_finite_for_large_activations(name, kwargs, dtype):
    model = build(name, **kwargs)
    with torch.autocast('cpu', dtype=dtype):
        maps = model(1e3 * torch.randn(1, 3, 65, 97))
    sum(out.float().sum() for out in maps).backward()
    assert all(out.isfinite().all() for out in maps)
    assert all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize('name', ['FLattenSwin', 'FLattenPVT'])
def test_backbone_autocast_is_finite_at_detector_size(name):
    """The sums of linear attention are largest over the 64,000 tokens of the first stage, which
    overflow float16.
    """
    model = build(name, drop_path_rate=0.0, out_indices=(0,))
    with torch.autocast('cpu', dtype=torch.float16):
        maps = model(1e3 * torch.randn(1, 3, 800, 1280))
    sum(out.float().mean() for out in maps).backward()
    assert all(out.isfinite().all() for out in maps)
    assert all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(('name', 'kwargs'), CASES)
def test_backbone_checkpointing_matches_plain_run(name, kwargs):
    results = []
    for with_cp in (False, True):
        model = build(name, **kwargs, with_cp=with_cp, drop_path_rate=0.5)
        torch.manual_seed(1)
        maps = model(torch.randn(2, 3, 64, 64))
        sum(out.square().sum() for out in maps).backward()
        results.append([*maps, *(p.grad for p in model.parameters())])
    for plain, checkpointed in zip(*results):
        torch.testing.assert_close(plain, checkpointed)


@pytest.mark.parametrize(('name', 'kwargs'), CASES)
def test_backbone_frozen_stages_stay_frozen_after_train(name, kwargs):
    model = build(name, **kwargs, frozen_stages=1).train()
    frozen = set()
    for module in model.modules_to_freeze():
        frozen.update(module.parameters())
        assert not any(child.training for child in module.modules())
    assert frozen and not any(p.requires_grad for p in frozen)
    free = [p for p in model.parameters() if p.requires_grad]
    assert len(frozen) + len(free) == len(list(model.parameters())) and free
    sum(out.square().sum() for out in model(torch.randn(1, 3, 64, 64))).backward()
    assert all(p.grad is None for p in frozen)


@pytest.mark.parametrize(('name', 'kwargs'), CASES)
def test_backbone_loads_checkpoint_of_another_image_size(name, kwargs, tmp_path):
    larger = {'img_size': 96} if 'img_size' in SMALL[name] else {}
    small, large = build(name, **kwargs), build(name, **kwargs, **larger)
    large.load_state_dict(small.state_dict())
    path = str(tmp_path / 'weights.pth')
    torch.save({'state_dict': {f'backbone.{k}': v for k, v in small.state_dict().items()}}, path)
    model = build(
        name, **kwargs, init_cfg=dict(type='Pretrained', checkpoint=path, prefix='backbone.')
    )
    model.init_weights()
    assert all(
        torch.equal(a, b) for a, b in zip(model.state_dict().values(), small.state_dict().values())
    )


@pytest.mark.parametrize('name', SMALL)
@pytest.mark.parametrize(
    ('kwargs', 'message'),
    [
        (dict(arch='giant'), r"arch.*'giant'"),
        (dict(arch=None), r'arch.*None'),
        (dict(arch=dict(depths=(1, 1))), 'arch.*embed_dims.*num_heads'),
        (dict(drop_path_rate=1.0), r'drop_path_rate.*1.0'),
        (dict(out_indices=(7,)), r'out_indices.*\(7,\)'),
        (dict(out_indices=()), 'out_indices'),
        (dict(out_indices=3), r'out_indices.*3'),
        (dict(drop_path_rate='.1'), r"drop_path_rate.*'.1'"),
        (dict(img_size=64.0), r'img_size.*64\.0'),
        (dict(frozen_stages=9), r'frozen_stages.*9'),
    ],
)
def test_backbone_rejects_invalid_arguments(name, kwargs, message):
    with pytest.raises(ValueError, match=message):
        build(name, **kwargs)


@pytest.mark.parametrize('name', SMALL)
@pytest.mark.parametrize(
    ('key', 'change'),
    [
        ('embed_dims', lambda value: (value,) if isinstance(value, int) else value[0]),
        ('embed_dims', lambda value: -1),
        ('num_heads', lambda value: 2.0),
        ('mlp_ratio', lambda value: '4'),
    ],
)
def test_backbone_rejects_invalid_architecture_settings(name, key, change):
    arch = SMALL[name]['arch']
    if key == 'mlp_ratio' and 'PVT' in name:
        key = 'mlp_ratios'
    value = change(arch.get(key))
    with pytest.raises(ValueError, match=rf"arch\['{key}'\].*{re.escape(repr(value))}"):
        build(name, arch={**arch, key: value})


@pytest.mark.parametrize('name', SMALL)
def test_backbone_returns_empty_maps_for_empty_batch(name):
    model = build(name).eval()
    assert [out.shape[0] for out in model(torch.zeros(0, 3, 64, 64))] == [0] * len(
        model.out_indices
    )


@pytest.mark.parametrize('name', [name for name in SMALL if name not in ('FLattenDeiT', 'ViT')])
def test_backbone_with_two_stages_loads_weights_of_all_stages(name, tmp_path):
    whole = build(name)
    torch.save(whole.state_dict(), tmp_path / 'whole.pth')
    model = build(
        name,
        out_indices=(0, 1),
        init_cfg=dict(type='Pretrained', checkpoint=str(tmp_path / 'whole.pth')),
    )
    model.init_weights()
    assert model.is_whole is False and whole.is_whole
    image = torch.randn(1, 3, 64, 64)
    for first, second in zip(model.eval()(image), whole.eval()(image)):
        torch.testing.assert_close(first, second)


@pytest.mark.parametrize('name', ['FLattenSwin', 'FLattenDeiT'])
def test_backbone_rejects_weights_of_deeper_model(name, tmp_path):
    model, state = build(name), build(name).state_dict()
    part = 'blocks' if name == 'FLattenDeiT' else 'stages'
    behind = len(getattr(model, part))
    state |= {
        f'{part}.{behind}.{key}': value
        for key, value in getattr(model, part)[-1].state_dict().items()
    }
    torch.save(state, tmp_path / 'deeper.pth')
    model.init_cfg = dict(type='Pretrained', checkpoint=str(tmp_path / 'deeper.pth'))
    with pytest.raises(ValueError, match=rf'unexpected {part}\.{behind}\.'):
        model.init_weights()


@pytest.mark.parametrize('name', SMALL)
def test_backbone_init_weights_runs_once(name):
    model = build(name)
    model.init_weights()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    model.init_weights()
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_hvittt_pools_only_last_stage():
    maps = build('HViTTT', pooled=True, out_indices=(0, 1)).eval()(torch.randn(1, 3, 64, 64))
    assert [tuple(out.shape[2:]) for out in maps] == [(16, 16), (8, 8)]


@pytest.mark.parametrize('name', SMALL)
def test_backbone_rejects_weights_with_other_names(name, tmp_path):
    state = {f'backbone.{k}': v for k, v in build(name).state_dict().items()}
    missing = next(iter(state))
    state['backbone.foreign.weight'] = state.pop(missing)
    path = str(tmp_path / 'foreign.pth')
    torch.save({'state_dict': state}, path)
    model = build(name, init_cfg=dict(type='Pretrained', checkpoint=path, prefix='backbone'))
    with pytest.raises(ValueError, match=f'missing {missing[9:]}, unexpected foreign.weight'):
        model.init_weights()
