"""Letters select mixers and their arguments per stage and per block, in every family."""

import itertools

import pytest
import torch

from mmflatten.models.attention import Windowed
from mmflatten.registry import MODELS

ARCH = dict(depths=(1, 1, 2, 1), num_heads=(1, 2, 4, 8))
FAMILIES = {
    'FLattenSwin': dict(arch=dict(ARCH, embed_dims=16)),
    'FLattenPVT': dict(arch=dict(ARCH, embed_dims=(16, 32, 64, 128))),
    'FLattenPVTv2': dict(arch=dict(ARCH, embed_dims=(16, 32, 64, 128))),
    'FLattenCSwin': dict(arch=dict(ARCH, embed_dims=16)),
    'FLattenDeiT': dict(arch=dict(embed_dims=16, depth=5, num_heads=2), out_type='featmap'),
    'L2ViT': dict(arch=dict(ARCH, embed_dims=16)),
}
MIXERS = dict(
    H=dict(type='HydraAttention'),
    F=dict(type='FocusedLinearAttention', focusing_factor=5),
    E=dict(type='EfficientAttention'),
)
ORDER = ('H', 'F', 'ES', 'S')  # per stage, or joined, per block
KINDS = [
    'HydraAttention',
    'FocusedLinearAttention',
    'EfficientAttention',
    'SoftmaxAttention',
    'SoftmaxAttention',
]


def build(family, letters=ORDER, **kwargs):
    torch.manual_seed(0)
    name = 'block_order' if family == 'L2ViT' else 'attn_types'
    letters = ''.join(letters) if family == 'FLattenDeiT' else letters
    return MODELS.build(
        dict(type=family, img_size=64, **{name: letters}, **FAMILIES[family], **kwargs)
    )


def mixers_of(model):
    """The innermost mixer of every block, in order."""
    stages = [model] if hasattr(model, 'blocks') else model.stages
    found = []
    for block in itertools.chain.from_iterable(stage.blocks for stage in stages):
        mixer = block.attn.fn
        if hasattr(mixer, 'branches'):
            mixer = mixer.branches[0]
        found.append(mixer.mixer if isinstance(mixer, Windowed) else mixer)
    return found


@pytest.mark.parametrize('family', FAMILIES)
def test_letters_select_mixers_per_block(family):
    model = build(family, mixers=MIXERS)
    mixers = mixers_of(model)
    assert [type(mixer).__name__ for mixer in mixers] == KINDS
    assert mixers[1].focusing_factor == 5
    maps = model(torch.randn(2, 3, 65, 97))
    sum(out.square().sum() for out in maps).backward()
    assert all(out.isfinite().all() for out in maps)
    for mixer in mixers:
        assert all(p.grad is not None for p in mixer.parameters())


@pytest.mark.parametrize('family', [family for family in FAMILIES if family != 'L2ViT'])
def test_linear_attention_sets_the_mixer_of_l(family):
    short, long = (
        build(family, ('L', 'L', 'LL', 'S'), **kwargs)
        for kwargs in (dict(linear_attention=MIXERS['E']), dict(mixers=dict(L=MIXERS['E'])))
    )
    assert [type(m) for m in mixers_of(short)] == [type(m) for m in mixers_of(long)]
    assert short.state_dict().keys() == long.state_dict().keys()
    image = torch.randn(1, 3, 64, 64)
    for a, b in zip(short.eval()(image), long.eval()(image)):
        assert torch.equal(a, b)


def test_letters_of_a_string_belong_to_stages():
    model = MODELS.build(
        dict(
            type='FLattenSwin',
            img_size=64,
            attn_types='HFSS',
            mixers=MIXERS,
            **FAMILIES['FLattenSwin'],
        )
    )
    assert [type(m).__name__ for m in mixers_of(model)] == [
        KINDS[0],
        KINDS[1],
        *['SoftmaxAttention'] * 3,
    ]


@pytest.mark.parametrize('family', [family for family in FAMILIES if family != 'L2ViT'])
def test_mixers_override_softmax(family):
    model = build(family, mixers=dict(MIXERS, S=dict(type='SoftmaxAttention', qkv_bias=False)))
    last = mixers_of(model)[-1]
    assert last.qkv is None or last.qkv.bias is None
    # the config replaces all arguments
    assert getattr(last, 'relative_position_bias', None) is None
    assert model(torch.randn(1, 3, 64, 64))[-1].isfinite().all()


@pytest.mark.parametrize(
    'mixer',
    [dict(type='HydraAttention'), dict(type='FocusedLinearAttention')],
    ids=lambda mixer: mixer['type'],
)
@pytest.mark.parametrize('family', FAMILIES)
def test_linear_mixers_ignore_padding_in_softmax_windows(family, mixer):
    """Also in shifted windows and stripes, on a map that must be padded."""
    letters = 'WVWV' if family == 'L2ViT' else ('S', 'S', 'SS', 'S')
    windows = dict(FLattenSwin=dict(softmax_window=4), L2ViT=dict(window_size=4)).get(family, {})
    model = build(
        family, letters, mixers=dict.fromkeys('SWV' if family == 'L2ViT' else 'S', mixer), **windows
    ).eval()
    assert {type(m).__name__ for m in mixers_of(model)} == {mixer['type']}
    maps = model(torch.randn(2, 3, 65, 97))
    assert all(out.isfinite().all() for out in maps)
    masked = build(
        family,
        letters,
        mixers=dict.fromkeys('SWV' if family == 'L2ViT' else 'S', mixer),
        **windows,
        **(
            {}
            if family in ('FLattenPVT', 'FLattenPVTv2', 'FLattenDeiT')
            else dict(mask_padding=True)
        ),
    )
    image = torch.randn(1, 3, 65, 97)
    for a, b in zip(model(image), masked.eval()(image)):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    ('kwargs', 'message'),
    [
        (dict(letters=('X', 'S', 'S', 'S')), r'X.*mixers'),
        (dict(letters=('HH', 'S', 'S', 'S'), mixers=MIXERS), r"'HH'"),
        (dict(mixers=dict(MIXERS, M=MIXERS['H'])), r"'M'"),
        (dict(mixers=dict(MIXERS, h=MIXERS['H'])), r"'h'"),
        (dict(mixers=dict(H='HydraAttention')), r"mixers\['H'\].*'HydraAttention'"),
        (dict(mixers=dict(L=MIXERS['H']), linear_attention=MIXERS['E']), 'linear_attention'),
    ],
)
def test_backbone_rejects_invalid_letters(kwargs, message):
    with pytest.raises(ValueError, match=message):
        build('FLattenSwin', **kwargs)
