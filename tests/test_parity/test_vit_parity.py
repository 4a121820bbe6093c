"""Plain ViTs against timm with random weights, and conversion of the names of Meta, timm and
Hugging Face.
"""

import pytest
import timm
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from timm.models.eva import checkpoint_filter_fn as load_dinov3
from timm.models.vision_transformer import checkpoint_filter_fn as load_dinov2

from mmflatten.checkpoints import convert_state_dict, revert_state_dict
from mmflatten.checkpoints.convert import find_family
from mmflatten.checkpoints.converted_files import read_safetensors
from mmflatten.cli.main import main
from mmflatten.models import ViT
from mmflatten.models.backbones.vit import ARCHS

SMALL = dict(embed_dim=96, depth=4, num_heads=6)
SIZES = [(224, 224), (518, 518), (640, 480), (225, 301)]
# timm's model, architecture here, family of timm's names.
MODELS = [
    ('vit_small_patch14_dinov2', 'dinov2-small', 'vit'),
    ('vit_small_patch14_reg4_dinov2', 'dinov2-reg-small', 'timm_vit_reg'),
    ('vit_giant_patch14_dinov2', 'dinov2-giant', 'timm_vit_giant'),
    ('vit_giant_patch14_reg4_dinov2', 'dinov2-reg-giant', 'timm_vit_reg_giant'),
    ('vit_small_patch16_dinov3_qkvb', 'dinov3-small', 'timm_dinov3'),
    ('vit_small_plus_patch16_dinov3_qkvb', 'dinov3-small-plus', 'timm_dinov3'),
    ('vit_7b_patch16_dinov3', 'dinov3-7b', 'timm_dinov3'),
    ('deit3_small_patch16_224', 'deit3-small', 'vit'),
    ('vit_tiny_patch16_224', 'tiny', 'vit'),
]
BIG = [
    ('vit_base_patch14_dinov2', 'dinov2-base', 'vit'),
    ('vit_large_patch14_dinov2', 'dinov2-large', 'vit'),
    ('vit_base_patch14_reg4_dinov2', 'dinov2-reg-base', 'timm_vit_reg'),
    ('vit_large_patch14_reg4_dinov2', 'dinov2-reg-large', 'timm_vit_reg'),
    ('vit_base_patch16_dinov3_qkvb', 'dinov3-base', 'timm_dinov3'),
    ('vit_large_patch16_dinov3_qkvb', 'dinov3-large', 'timm_dinov3'),
    ('deit3_base_patch16_224', 'deit3-base', 'vit'),
    ('deit3_large_patch16_224', 'deit3-large', 'vit'),
    ('vit_base_patch16_224', 'base', 'vit'),
]
GIANTS = [('vit_huge_plus_patch16_dinov3_qkvb', 'dinov3-huge-plus', 'timm_dinov3'), MODELS[2]]


def theirs(name, **kwargs):
    torch.manual_seed(0)
    dynamic = {} if 'dinov3' in name else dict(dynamic_img_size=True)
    model = timm.create_model(name, num_classes=0, **dynamic, **kwargs).eval()
    for parameter in model.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    return model


def ours(arch, model, weights):
    """Our model of timm's sizes. timm resizes all positions with antialiasing, also those of
    DINOv2.
    """
    arch = dict(
        ARCHS[arch],
        embed_dims=model.embed_dim,
        depth=len(model.blocks),
        num_heads=model.blocks[0].attn.num_heads,
    )
    if arch['resize'] == 'bicubic-offset':
        arch['resize'] = 'bicubic-antialias'
    last = arch['depth'] - 1
    backbone = ViT(
        arch,
        out_indices=sorted({0, last // 3, 2 * last // 3, last}),
        output_norm='shared',
        out_type='featmap',
    ).eval()
    missing, unexpected = backbone.load_state_dict(
        {name.removeprefix('backbone.'): value for name, value in weights.items()}, strict=False
    )
    backbone.require_fit(missing, unexpected, 'converted weights')
    return backbone


# Rounding in float32 over 24 blocks, whose sums have another order on each processor: 1e-6 to 1e-5.
TOLERANCE = 5e-5


@torch.no_grad()
def compare(model, backbone, size):
    """Four maps and the class token are those of timm's model on the image padded to whole
    patches.
    """
    side = backbone.embed.stride
    image = torch.randn(1, 3, *size, generator=torch.Generator().manual_seed(1))
    padded = F.pad(image, (0, -size[1] % side, 0, -size[0] % side))
    expected = model.forward_intermediates(
        padded, indices=list(backbone.out_indices), norm=True, intermediates_only=True
    )
    for mine, their in zip(backbone(image), expected, strict=True):
        torch.testing.assert_close(mine, their, rtol=0, atol=TOLERANCE)
    backbone.out_type = 'cls_token'
    class_token = model.forward_features(padded)[:, 0]
    torch.testing.assert_close(backbone(image)[-1], class_token, rtol=0, atol=TOLERANCE)
    backbone.out_type = 'featmap'


@pytest.mark.parametrize('name, arch, family', MODELS)
def test_small_vits_equal_timm_at_all_sizes_and_revert(name, arch, family):
    model = theirs(name, **SMALL)
    state = model.state_dict()
    weights = convert_state_dict(state, family)
    backbone = ours(arch, model, weights)
    for size in SIZES:
        compare(model, backbone, size)
    assert find_family(state) == family
    back = revert_state_dict(weights, family)
    assert back.keys() == state.keys()
    assert all(torch.equal(back[key], value) for key, value in state.items())


@pytest.mark.parametrize('name, arch, family', [MODELS[0], MODELS[4]])
def test_published_vits_equal_timm(name, arch, family):
    model = theirs(name)
    compare(model, ours(arch, model, convert_state_dict(model.state_dict(), family)), (224, 224))


@pytest.mark.full
@pytest.mark.parametrize(
    'name, arch, family', MODELS[1:2] + MODELS[5:6] + MODELS[7:] + BIG + GIANTS
)
def test_all_published_vits_equal_timm(name, arch, family):
    model = theirs(name)
    backbone = ours(arch, model, convert_state_dict(model.state_dict(), family))
    for size in SIZES[:1] if (name, arch, family) in GIANTS else SIZES:
        compare(model, backbone, size)


@pytest.mark.parametrize('arch', ARCHS)
def test_published_sizes_have_timms_parameters(arch):
    """On the meta device, so that 7B parameters are counted, too."""
    kind, _, size = arch.rpartition('-')
    if arch.startswith('dinov3'):
        kind, _, size = arch.partition('-')
        size = size.replace('-', '_')
    patch = 14 if size == 'huge' else 16
    name = {
        '': f'vit_{size}_patch{patch}_224',
        'deit3': f'deit3_{size}_patch{patch}_224',
        'dinov2': f'vit_{size}_patch14_dinov2',
        'dinov2-reg': f'vit_{size}_patch14_reg4_dinov2',
        'dinov3': f'vit_{size}_patch16_dinov3' + ('_qkvb' if size != '7b' else ''),
    }[kind]
    with torch.device('meta'):
        expected = sum(p.numel() for p in timm.create_model(name, num_classes=0).parameters())
        backbone = ViT(arch)
    if kind == 'dinov2-reg':
        # timm adds the position of the class token to the token itself in models with registers.
        expected += backbone.embed.out_channels
    assert sum(p.numel() for p in backbone.parameters()) == expected


def block_names(names, depth=2):
    blocks = {}
    for i in range(depth):
        blocks |= {name.format(i=i): shape for name, shape in names.items()}
    return blocks


C, H = 48, 64


def meta_names(gated, dinov3, registers=4):
    """Names and shapes of Meta's files: facebookresearch/dinov2 and dinov3,
    `models/vision_transformer.py`.
    """
    names = {
        'blocks.{i}.norm1.weight': (C,),
        'blocks.{i}.norm1.bias': (C,),
        'blocks.{i}.norm2.weight': (C,),
        'blocks.{i}.norm2.bias': (C,),
        'blocks.{i}.attn.qkv.weight': (3 * C, C),
        'blocks.{i}.attn.qkv.bias': (3 * C,),
        'blocks.{i}.attn.proj.weight': (C, C),
        'blocks.{i}.attn.proj.bias': (C,),
        'blocks.{i}.ls1.gamma': (C,),
        'blocks.{i}.ls2.gamma': (C,),
    }
    first = (('w1', 1), ('w2', 1)) if dinov3 else (('w12', 2),)
    first, last = (first, 'w3') if gated else ((('fc1', 1),), 'fc2')
    for layer, number in first:
        names |= {
            f'blocks.{{i}}.mlp.{layer}.weight': (number * H, C),
            f'blocks.{{i}}.mlp.{layer}.bias': (number * H,),
        }
    names |= {f'blocks.{{i}}.mlp.{last}.weight': (C, H), f'blocks.{{i}}.mlp.{last}.bias': (C,)}
    side = 16 if dinov3 else 14
    others = {
        'cls_token': (1, 1, C),
        'mask_token': (1, C),
        'patch_embed.proj.weight': (C, 3, side, side),
        'patch_embed.proj.bias': (C,),
        'norm.weight': (C,),
        'norm.bias': (C,),
    }
    if dinov3:
        names['blocks.{i}.attn.qkv.bias_mask'] = (3 * C,)
        others |= {'storage_tokens': (1, 4, C), 'rope_embed.periods': (4,)}
    else:
        others['pos_embed'] = (1, 1 + 16 * 16, C)
        if registers:
            others['register_tokens'] = (1, 4, C)
    return others | block_names(names)


def filled(names):
    generator = torch.Generator().manual_seed(0)
    state = {name: 0.3 * torch.randn(shape, generator=generator) for name, shape in names.items()}
    for name in state:
        if name.endswith('bias_mask'):
            state[name] = torch.ones(3 * C)
            state[name][C : 2 * C] = 0
        if name.endswith('periods'):
            state[name] = (100 ** (torch.arange(4) / 4)).bfloat16()
    return state


CASES = [
    (False, False, 0),
    (False, False, 4),
    (False, True, 4),
    (True, False, 0),
    (True, False, 4),
    (True, True, 4),
]


@pytest.mark.parametrize('gated, dinov3, registers', CASES)
def test_metas_files_compute_what_timm_computes_from_them(gated, dinov3, registers):
    state = filled(meta_names(gated, dinov3, registers))
    family = 'dinov3' if dinov3 else 'vit'
    assert find_family(state) == family
    weights = convert_state_dict(state, family)
    back = revert_state_dict(weights, family)
    assert back.keys() == state.keys()
    # the bias of the keys, which the mask switches off, is not kept
    for name, value in state.items():
        kept = value * state[f'{name}_mask'] if f'{name}_mask' in state else value
        assert torch.equal(back[name], kept) and back[name].dtype == value.dtype, name
    if dinov3:
        arch = 'dinov3-small-plus' if gated else 'dinov3-small'
        name = f'vit_{arch.removeprefix("dinov3-").replace("-", "_")}_patch16_dinov3_qkvb'
    else:
        arch = 'dinov2-reg-small' if registers else 'dinov2-small'
        name = f'vit_{"giant" if gated else "small"}_patch14{"_reg4" if registers else ""}_dinov2'
    ratio = H / C * (1 + (gated and not dinov3))
    model = timm.create_model(
        name,
        num_classes=0,
        embed_dim=C,
        depth=2,
        num_heads=3,
        mlp_ratio=ratio,
        dynamic_img_size=True,
        **({} if dinov3 else dict(img_size=16 * 14)),
    ).eval()
    loader = load_dinov3 if dinov3 else load_dinov2
    model.load_state_dict(loader(dict(state), model), strict=True)
    if dinov3:
        model.rope.periods.copy_(state['rope_embed.periods'])
    arch = dict(
        ARCHS[arch],
        swiglu=gated,
        embed_dims=C,
        depth=2,
        num_heads=3,
        mlp_ratio=H / C,
        img_size=16 * 14,
        resize='bicubic-antialias',
    )
    backbone = ViT(arch, output_norm='shared', out_type='featmap', out_indices=(0, 1)).eval()
    backbone.load_state_dict(
        {name.removeprefix('backbone.'): value for name, value in weights.items()}, strict=True
    )
    for size in ((224, 224), (225, 301)):
        compare(model, backbone, size)


def hugging_face(meta, dinov3):
    """The same weights in the names of `Dinov2Model`, `Dinov2WithRegistersModel` and
    `DINOv3ViTModel`.
    """
    state = {}
    changes = [
        ('rope_embed', None),
        ('bias_mask', None),
        ('storage_tokens', 'register_tokens'),
        ('patch_embed.proj', 'patch_embeddings' + ('' if dinov3 else '.projection')),
        ('pos_embed', 'position_embeddings'),
        ('blocks.', 'layer.' if dinov3 else 'encoder.layer.'),
        ('ls1.gamma', 'layer_scale1.lambda1'),
        ('ls2.gamma', 'layer_scale2.lambda1'),
        ('attn.proj', 'attention.' + ('o_proj' if dinov3 else 'output.dense')),
    ]
    if dinov3:
        gated = any('mlp.w1' in name for name in meta)
        changes += (
            [
                ('mlp.w1.', 'mlp.gate_proj.'),
                ('mlp.w2.', 'mlp.up_proj.'),
                ('mlp.w3.', 'mlp.down_proj.'),
            ]
            if (gated)
            else [('mlp.fc1', 'mlp.up_proj'), ('mlp.fc2', 'mlp.down_proj')]
        )
    else:
        changes += [('mlp.w12', 'mlp.weights_in'), ('mlp.w3', 'mlp.weights_out')]
    for name, value in meta.items():
        if any(old in name and new is None for old, new in changes):
            continue
        if name.startswith(
            ('cls_token', 'mask_token', 'storage', 'register', 'pos_embed', 'patch_embed')
        ):
            name = f'embeddings.{name}'
        for old, new in changes:
            name = name.replace(old, new or '')
        if name.startswith('norm.') and not dinov3:
            name = name.replace('norm', 'layernorm')
        value = value[None] if name == 'embeddings.mask_token' and dinov3 else value
        if 'attn.qkv' not in name:
            state[name] = value
            continue
        parts = (
            [f'attention.{part}_proj' for part in 'qkv']
            if dinov3
            else [f'attention.attention.{part}' for part in ('query', 'key', 'value')]
        )
        for part, piece in zip(parts, value.chunk(3)):
            if not (dinov3 and part.endswith('k_proj') and name.endswith('bias')):
                state[name.replace('attn.qkv', part)] = piece.clone()
    return state


@pytest.mark.parametrize('gated, dinov3, registers', CASES)
def test_hugging_faces_names_give_the_same_weights(gated, dinov3, registers, tmp_path):
    meta = filled(meta_names(gated, dinov3, registers))
    state, family = hugging_face(meta, dinov3), 'hf_dinov3' if dinov3 else 'hf_dinov2'
    expected = convert_state_dict(meta, 'dinov3' if dinov3 else 'vit')
    expected.pop('backbone.embed.rotary.periods', None)  # Hugging Face computes them
    assert find_family(state) == family
    weights = convert_state_dict(state, family)
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], value) for name, value in expected.items())
    back = revert_state_dict(weights, family)
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], value) for name, value in state.items())


def test_command_finds_the_family_of_a_safetensors_file(tmp_path, capsys):
    source, converted, reverted = (
        tmp_path / f'{name}.safetensors' for name in ('hf', 'ours', 'back')
    )
    state = hugging_face(filled(meta_names(True, True)), True)
    save_file({name: value.clone() for name, value in state.items()}, source)
    main(['convert', str(source), str(converted), '--family', 'auto'])
    assert 'hf_dinov3' in capsys.readouterr().out
    main(['convert', str(converted), str(reverted), '--family', 'hf_dinov3', '--revert'])
    back = read_safetensors(reverted)
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], value) for name, value in state.items())
    with pytest.raises(SystemExit):
        main(['convert', str(converted), str(tmp_path / 'x.pth'), '--family', 'auto', '--revert'])
    assert '--revert' in capsys.readouterr().err


@pytest.mark.parametrize(
    'name, value, words',
    [
        ('blocks.0.attn.qkv.bias_mask', torch.ones(3 * C), ('bias_mask', 'zeros')),
        ('surplus', torch.ones(1), ('surplus',)),
        ('blocks.1.mlp.w12.weight', None, ('blocks.1.mlp.w1',)),
    ],
)
def test_files_that_differ_are_refused(name, value, words):
    state = filled(meta_names(True, True))
    state.pop('blocks.1.mlp.w1.weight') if value is None else state.update({name: value})
    with pytest.raises(ValueError) as error:
        convert_state_dict(state, 'dinov3')
    assert all(word in str(error.value) for word in words)
    with pytest.raises(ValueError, match='family'):
        find_family(state)
