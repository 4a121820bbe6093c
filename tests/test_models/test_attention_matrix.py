"""Every attention in every FLatten family at an odd size, and the parameter counts of the
papers.
"""

import re
from math import ceil
from pathlib import Path

import pytest
import torch

from mmflatten.models.attention import TokenMixer, build_mixer
from mmflatten.models.attention.linear import FEATURE_MAPS
from mmflatten.registry import MODELS

ATTENTIONS = {
    'softmax': dict(type='SoftmaxAttention'),
    **{
        f'focused-{p}': dict(type='FocusedLinearAttention', focusing_factor=p)
        for p in (2, 3, 4, 8, 32)
    },
    'focused-without-dwc': dict(type='FocusedLinearAttention', kernel_size=None),
    'focused-without-focusing': dict(type='FocusedLinearAttention', focusing_factor=None),
    **{f'linear-{name}': dict(type='LinearAttention', feature_map=name) for name in FEATURE_MAPS},
    'efficient': dict(type='EfficientAttention'),
    'hydra': dict(type='HydraAttention'),
    'angular': dict(type='LinearAngularAttention'),
    'enhanced': dict(type='EnhancedLinearAttention'),
    'clamped': dict(type='ClampedLinearAttention'),
    'clamped-lcm': dict(type='ClampedLinearAttention', lcm_kernel=3),
    'xca': dict(type='CrossCovarianceAttention'),
    'cosformer': dict(type='CosFormerAttention'),
    'sima': dict(type='SimAAttention'),
    'focal': dict(type='FocalAttention', window_size=3, focal_window=3, expand_size=1),
    'gated-softmax': dict(type='GatedSoftmaxAttention'),
    'rala': dict(type='RankAugmentedLinearAttention'),
    'mala': dict(type='MagnitudeAwareLinearAttention'),
    'polaformer': dict(type='PolarityAwareLinearAttention'),
    'polaformer++': dict(type='ExponentialPolarityAttention'),
    'nala': dict(type='NormAwareLinearAttention'),
    'agent': dict(type='AgentAttention', num_agents=4),
    'inline': dict(type='InLineAttention'),
    'mhla': dict(type='TokenLevelMultiHeadAttention', num_blocks=4),
    'mila': dict(type='MambaInspiredLinearAttention'),
    'ttt': dict(type='TTTAttention'),
    'transformer-to-ttt': dict(type='TransformerToTTTAttention'),
    'gdla': dict(type='GatedDifferentialLinearAttention'),
    'circulant': dict(type='CirculantAttention'),
    'cbsa': dict(type='ContractBroadcastAttention', num_representatives=4),
    'tssa': dict(type='TokenStatisticsAttention'),
    'hsm-ssd': dict(type='HiddenStateMixer', num_states=5),
    'nc-ssd': dict(type='StateSpaceAttention', num_states=6),
    'visual-contrast': dict(type='VisualContrastAttention', num_agents=4),
    'nystrom': dict(type='NystromAttention', num_landmarks=4),
    'performer': dict(type='PerformerAttention'),
    'linformer': dict(type='LinformerAttention', num_keys=5),
    'multi-scale': dict(type='MultiScaleLinearAttention'),
    'manhattan': dict(type='ManhattanAttention'),
    'routing': dict(type='BiLevelRoutingAttention', num_regions=3, topk=2),
    'neighborhood': dict(type='NeighborhoodAttention', kernel_size=3, dilation=2),
}
# Attentions that reject class tokens, padding in windows or reduced keys, and those that need their
# own projections.
ROWS_AND_COLUMNS = (
    'CirculantAttention',
    'ManhattanAttention',
    'BiLevelRoutingAttention',
    'NeighborhoodAttention',
)
WHOLE_MAPS = (
    'MambaInspiredLinearAttention',
    'GatedDifferentialLinearAttention',
    'HiddenStateMixer',
    'StateSpaceAttention',
    *ROWS_AND_COLUMNS,
)
NO_REDUCED_KEYS = (
    'MultiScaleLinearAttention',
    'ContractBroadcastAttention',
    'TokenStatisticsAttention',
    *WHOLE_MAPS,
)
NO_PADDING = (
    'TTTAttention',
    'TransformerToTTTAttention',
    'GatedDifferentialLinearAttention',
    *ROWS_AND_COLUMNS,
)
OWN_PROJECTIONS = (
    'FocalAttention',
    'MambaInspiredLinearAttention',
    'MultiScaleLinearAttention',
    'TokenLevelMultiHeadAttention',
    'TTTAttention',
    'GatedDifferentialLinearAttention',
    'ContractBroadcastAttention',
    'TokenStatisticsAttention',
    'HiddenStateMixer',
    'StateSpaceAttention',
)
# Loss scales for outputs that grow faster than the input, as a GradScaler would find. If only the
# numerator is rotated, the denominator does not bound it.
LOSS_SCALES = {
    'mala': 1e-9,
    'inline': 1e-9,
    'rala': 1e-20,
    'polaformer++': 1e-20,
    **dict.fromkeys(('gated-softmax', 'polaformer', 'mila', 'ttt', 'circulant', 'performer'), 1e-6),
    'hsm-ssd': 1e-12,
    'nc-ssd': 1e-9,
}
PYRAMID = dict(attn_types='LL', out_indices=(0, 1))
STAGES = dict(depths=(1, 1), num_heads=(2, 4))
RATIOS = dict(linear_sr_ratios=(1, 1), sr_ratios=(2, 1))
FAMILIES = {
    'FLattenSwin': dict(PYRAMID, arch=dict(STAGES, embed_dims=16)),
    'FLattenPVT': dict(
        PYRAMID, **RATIOS, arch=dict(STAGES, embed_dims=(16, 32), mlp_ratios=(2, 2))
    ),
    'FLattenPVTv2': dict(
        PYRAMID, **RATIOS, arch=dict(STAGES, embed_dims=(16, 32), mlp_ratios=(2, 2))
    ),
    'FLattenCSwin': dict(PYRAMID, softmax_split=(1, 1), arch=dict(STAGES, embed_dims=16)),
    'FLattenDeiT': dict(
        attn_types='L',
        out_type='featmap',
        out_indices=(1,),
        patch_size=8,
        arch=dict(embed_dims=16, depth=2, num_heads=2),
    ),
}


def build_backbone(family, attention):
    torch.manual_seed(0)
    whole = (
        dict(with_cls_token=False)
        if family == 'FLattenDeiT' and attention['type'] in WHOLE_MAPS
        else {}
    )
    return MODELS.build(
        dict(
            type=family,
            img_size=32,
            drop_path_rate=0.0,
            linear_attention=attention,
            **FAMILIES[family],
            **whole,
        )
    )


@pytest.mark.parametrize('attention', ATTENTIONS.values(), ids=ATTENTIONS)
@pytest.mark.parametrize('family', FAMILIES)
def test_attention_runs_in_family(family, attention):
    if family == 'FLattenCSwin' and attention['type'] in OWN_PROJECTIONS:
        with pytest.raises(ValueError, match='project'):
            build_backbone(family, attention)
        return
    model = build_backbone(family, attention)
    maps = model(torch.randn(2, 3, 41, 50))
    sum(out.square().sum() for out in maps).backward()
    assert all(out.isfinite().all() for out in maps)
    without = [
        name
        for name, p in model.named_parameters()
        if p.grad is None or not p.grad.isfinite().all()
    ]
    assert not without


@pytest.mark.parametrize('name', ATTENTIONS)
def test_attention_supports_class_tokens_and_autocast(name):
    torch.manual_seed(0)
    mixer = build_mixer(ATTENTIONS[name], embed_dims=12, num_heads=3, grid_size=(4, 4))
    x = torch.randn(2, 16, 12) * 1e3
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast('cpu', dtype=dtype):
            out = mixer(x, (4, 4))
        assert out.isfinite().all()
        mixer.zero_grad()
        # Inputs and values are about 1e3, so the gradients of an unscaled loss would overflow
        # float16.
        out.float().sum().mul(LOSS_SCALES.get(name, 1e-3)).backward()
        assert all(p.grad.isfinite().all() for p in mixer.parameters())
    if ATTENTIONS[name]['type'] in WHOLE_MAPS:
        with pytest.raises(ValueError, match='with_cls_token'):
            mixer(torch.randn(2, 17, 12), (4, 4))
        return
    assert mixer(torch.randn(2, 17, 12), (4, 4)).shape == (2, 17, 12)


class OnMap(torch.nn.Module):
    """A mixer on a fixed map of 4 x 5, because a trace takes only tensors."""

    def __init__(self, mixer):
        super().__init__()
        self.mixer = mixer

    def forward(self, x):
        return self.mixer(x, (4, 5))


@pytest.mark.filterwarnings('ignore::torch.jit.TracerWarning', 'ignore::DeprecationWarning')
@pytest.mark.parametrize('name', ATTENTIONS)
def test_attention_supports_half_precision_empty_batches_and_tracing(name):
    torch.manual_seed(0)
    mixer = build_mixer(ATTENTIONS[name], embed_dims=12, num_heads=3, grid_size=(4, 4)).eval()
    x = torch.randn(2, 20, 12)
    with torch.no_grad():
        expected = mixer(x, (4, 5))
        assert mixer(x[:0], (4, 5)).shape == (0, 20, 12)
        traced = torch.jit.trace(OnMap(mixer), x, check_trace=False)
        torch.testing.assert_close(traced(x), expected, rtol=1e-4, atol=1e-5)
        half = mixer.half()(x.half(), (4, 5))
    assert half.dtype == torch.float16
    torch.testing.assert_close(
        half.float(), expected, rtol=0.05, atol=0.02 * float(expected.abs().max())
    )


def test_routing_ignores_regions_of_padding():
    mixer = build_mixer(
        dict(type='BiLevelRoutingAttention', num_regions=7),
        embed_dims=12,
        num_heads=3,
        grid_size=(8, 8),
    )
    mixer.lepe = None
    for weight in (mixer.qkv.weight, mixer.proj.bias):
        torch.nn.init.zeros_(weight)
    torch.nn.init.eye_(mixer.proj.weight)
    # opposite queries and keys, so that a product of 0 with padding would be larger
    with torch.no_grad():
        mixer.qkv.bias.copy_(torch.tensor([1.0, -1.0, 5.0]).repeat_interleave(12))
        torch.testing.assert_close(
            mixer(torch.randn(1, 64, 12), (8, 8)), torch.full((1, 64, 12), 5.0)
        )


def test_linformer_keeps_sums_when_resized():
    torch.manual_seed(0)
    small, large = (
        build_mixer(
            dict(type='LinformerAttention', num_keys=5),
            embed_dims=12,
            num_heads=3,
            grid_size=(side, side),
        )
        for side in (4, 8)
    )
    table = torch.rand(1, 16, 5)
    small.key_sums.table.data.copy_(table)
    large.load_state_dict(small.state_dict())
    x = torch.ones(1, 1, 64, 4)
    torch.testing.assert_close(
        large._sums(x, large.key_sums, (8, 8)),
        small._sums(x, small.key_sums, (8, 8)),
        rtol=0.05,
        atol=0,
    )
    torch.testing.assert_close(
        large._sums(x, large.key_sums, (8, 8)).sum(), table.sum() * 4, rtol=0.05, atol=0
    )


@pytest.mark.parametrize('name', [name for name in ATTENTIONS if name not in ('softmax', 'focal')])
def test_attention_ignores_masked_padding(name):
    """The content of the padding does not change the output for real tokens."""
    torch.manual_seed(0)
    mixer = (
        build_mixer(ATTENTIONS[name], embed_dims=12, num_heads=3, grid_size=(3, 3)).eval().double()
    )
    x = torch.randn(2, 6, 12, dtype=torch.float64)
    mask = torch.tensor([True, True, False] * 3).view(1, 1, 9)
    padded = torch.zeros(2, 9, 12, dtype=torch.float64)
    padded[:, mask[0, 0]] = x
    other = padded.clone()
    other[:, ~mask[0, 0]] = 5.0
    real = mask[0, 0]
    if ATTENTIONS[name]['type'] in NO_PADDING:
        with pytest.raises(ValueError, match='mask'):
            mixer(padded, (3, 3), mask)
        return
    torch.testing.assert_close(
        mixer(padded, (3, 3), mask)[:, real], mixer(other, (3, 3), mask)[:, real]
    )


@pytest.mark.parametrize('name', [name for name in ATTENTIONS if name not in ('xca', 'focal')])
@pytest.mark.parametrize('class_tokens', [0, 1])
def test_attention_supports_reduced_keys(name, class_tokens):
    tokens = torch.randn(2, class_tokens + 35, 12)
    settings = dict(embed_dims=12, num_heads=3, grid_size=(2, 2), sr_ratio=2)
    if ATTENTIONS[name]['type'] in NO_REDUCED_KEYS:
        with pytest.raises(ValueError, match='sr_ratio'):
            build_mixer(ATTENTIONS[name], **settings)(tokens, (5, 7))
        return
    mixer = build_mixer(ATTENTIONS[name], **settings)
    out = mixer(tokens, (5, 7))
    assert out.shape == tokens.shape
    out.square().sum().backward()
    assert all(p.grad is not None for p in mixer.parameters())


def test_attentions_cover_the_registry():
    registered = {
        name
        for name, cls in MODELS.module_dict.items()
        if isinstance(cls, type)
        and issubclass(cls, TokenMixer)
        and cls.__module__.startswith('mmflatten.')
    }
    assert registered == {cfg['type'] for cfg in ATTENTIONS.values()}


def test_docs_list_a_valid_config_for_each_attention():
    page = (Path(__file__).parents[2] / 'docs' / 'attentions.md').read_text(encoding='utf-8')
    lines = [
        line.replace('dict(type=...)', "dict(type='SoftmaxAttention')")
        for line in re.findall(r"`(type='\w+'[^`]*)`", page)
    ]
    configs = [eval(f'dict({line})') for line in lines]
    mixers = [
        build_mixer(cfg, embed_dims=12, num_heads=3, grid_size=(4, 4))
        for cfg in configs
        # a layer for feature maps, not a token mixer
        if cfg['type'] != 'FactorizedAttention'
    ]
    assert {type(mixer).__name__ for mixer in mixers} == {
        cfg['type'] for cfg in ATTENTIONS.values()
    } | {'CrossShapedAttention'}


def millions_of_parameters(attention, **backbone):
    with torch.device('meta'):
        model = MODELS.build(dict(backbone, linear_attention=ATTENTIONS[attention]))
    return (sum(p.numel() for p in model.parameters()) + 1000 * (model.out_channels[-1] + 1)) / 1e6


@pytest.mark.parametrize(
    ('attention', 'attn_types', 'printed'),
    [
        # FLatten, Tables 3a and 4.
        ('hydra', 'L', 5.7),
        ('efficient', 'L', 5.7),
        ('angular', 'L', 5.7),
        ('enhanced', 'L', 5.8),
        ('linear-relu', 'L', 5.7),
        ('focused-without-dwc', 'L', 5.7),
        ('softmax', 'S', 5.7),
        # L2ViT, Tables 1 and 8.
        ('softmax', 'L', 5.7),
        ('xca', 'L', 5.7),
        ('cosformer', 'L', 5.7),
        ('efficient', 'L', 5.7),
        ('sima', 'L', 5.7),
        ('linear-relu', 'L', 5.7),
        ('linear-leaky_relu', 'L', 5.7),
        ('clamped-lcm', 'L', 5.8),
        # L2ViT, Table 11: the 1st, 3rd, ... 11th block are unchanged.
        ('clamped-lcm', 'SL' * 6, 5.7),
    ],
)
def test_deit_tiny_parameters_match_papers(attention, attn_types, printed):
    assert (
        round(millions_of_parameters(attention, type='FLattenDeiT', attn_types=attn_types), 1)
        == printed
    )


def test_flatten_deit_tiny_parameters_match_paper():
    """Tables 3a and 4 of FLatten report 6.1 M; with the positional encoding it is 6.19 M."""
    total = millions_of_parameters('focused-3', type='FLattenDeiT')
    assert int(10 * total) == 61 and round(total, 2) == 6.19


@pytest.mark.parametrize('attention', ['hydra', 'efficient', 'angular', 'enhanced', 'focused-3'])
def test_swin_tiny_parameters_match_paper(attention):
    """FLatten, Table 3b: 29 M for all attentions and for Swin-T, which has 28.29 M."""
    swin = millions_of_parameters(
        'softmax', type='FLattenSwin', attn_types='SSSS', out_indices=(3,)
    )
    total = millions_of_parameters(attention, type='FLattenSwin', out_indices=(3,))
    assert ceil(swin) == 29
    assert round(total) == 29 if attention == 'focused-3' else abs(total - swin) < 0.02
