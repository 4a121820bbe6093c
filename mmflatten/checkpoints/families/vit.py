"""Plain vision transformers in the names of their authors, of timm and of Hugging Face.

`vit` are the names of timm's ViT, DeiT III and DINOv2, and of Meta's DINOv2; a softmax DeiT is one,
too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mmflatten.checkpoints.families.common import FFN, LAST_NORM, QKV_BIAS, attention
from mmflatten.checkpoints.families.skeletons import CLASS_TOKEN, POSITIONS
from mmflatten.checkpoints.key_tables import Axes, Family, Key, Part, affine, join, single, stacked

Keys = tuple[Key, ...]


@dataclass(frozen=True)
class MaskedKeyBias:
    """Drop the bias of the keys, which a mask of zeros beside it switches off (DINOv3)."""

    def join(self, pieces: list[Tensor]) -> Tensor:
        bias, mask = pieces
        third = len(bias) // 3
        _, expected = self.split([torch.cat((bias[:third], bias[2 * third :]))])
        if mask.shape != bias.shape or not torch.equal(mask.float(), expected.float()):
            raise ValueError('expected a mask of ones, with zeros for the keys in the middle third')
        query, _, value = bias.chunk(3)
        return torch.cat((query, value))

    def split(self, pieces: list[Tensor]) -> list[Tensor]:
        query, value = pieces[0].chunk(2)
        zeros, ones = torch.zeros_like(query), torch.ones_like(query)
        return [torch.cat((query, zeros, value)), torch.cat((ones, zeros, ones))]


@dataclass(frozen=True)
class Hidden:
    """Check the first layer of a feed-forward network, which has `parts` outputs for each input of
    the second.
    """

    parts: int

    def join(self, pieces: list[Tensor]) -> list[Tensor]:
        first, second = pieces
        if len(first) != self.parts * second.shape[1]:
            raise ValueError(f'expected {self.parts} x {second.shape[1]} rows, got {len(first)}')
        return pieces

    def split(self, pieces: list[Tensor]) -> list[Tensor]:
        return self.join(pieces)


@dataclass(frozen=True)
class FoldedClassPosition:
    """Class token that includes its position, and positions of the map alone (timm, with
    registers).

    Here the position is a row of its own, of zeros after `join`.
    """

    def join(self, pieces: list[Tensor]) -> list[Tensor]:
        token, positions = pieces
        return [token, torch.cat((torch.zeros_like(positions[:, :1]), positions), dim=1)]

    def split(self, pieces: list[Tensor]) -> list[Tensor]:
        token, positions = pieces
        return [token + positions[:, :1], positions[:, 1:].clone()]


_ONE = single('', '')


def _optional(official: str, ours: str, what: str, keys: Keys = _ONE) -> Part:
    """Make a part that a model may lack."""
    return Part(official, f'backbone.{ours}', {what: keys, f'no {what}': ()})


def _scales(first: str, second: str) -> Keys:
    return (*single(first, 'attn.layer_scale'), *single(second, 'ffn.layer_scale'))


def _gated(official: Sequence[str], last: str) -> Keys:
    """Make keys of a gated feed-forward network, whose gate and value are one layer or two in the
    official code.
    """
    return (
        *affine({'norm2': 'ffn.norm', last: 'ffn.fn.fc2'}),
        *stacked(
            official=tuple(official),
            ours='ffn.fn.gated',
            ratio=(1,) * len(official),
            bias_option='bias of the gate',
        ),
    )


def _packed(first: str, parts: int) -> Keys:
    """Make keys of timm's feed-forward networks, whose names do not tell a gated one from
    another.
    """
    return (
        *affine({'norm2': 'ffn.norm'}),
        *single('mlp.fc1.bias', f'{first}.bias'),
        *single('mlp.fc2.bias', 'ffn.fn.fc2.bias'),
        Key(
            ('mlp.fc1.weight', 'mlp.fc2.weight'),
            (f'{first}.weight', 'ffn.fn.fc2.weight'),
            layout=Hidden(parts),
        ),
    )


def _blocks(official: str, attention: Keys, kinds: dict[str, Keys]) -> Part:
    return Part(
        official,
        'backbone.blocks.{i}',
        {f'{kind} block': (*attention, *keys) for kind, keys in kinds.items()},
    )


def _embed(official: str) -> Part:
    return Part(official, 'backbone.embed.projection', {'patch embedding': affine({'': ''})})


_HEAD = Part('head', 'head.fc', {'linear layer': affine({'': ''}), 'no head': ()})
_LS = _scales('ls1.gamma', 'ls2.gamma')
_GAMMA = _scales('gamma_1', 'gamma_2')
_MASK_TOKEN = _optional('mask_token', 'embed.mask_token', 'mask token')
_PLAIN, _PACKED = _packed('ffn.fn.fc1', 1), _packed('ffn.fn.gated', 2)
_KINDS = {'plain': _PLAIN, 'scaled': (*_PLAIN, *_LS)}
_REG_TOKENS = (
    Part(
        '',
        'backbone.embed',
        {
            'class token and positions': (
                Key(
                    ('cls_token', 'pos_embed'),
                    ('cls_token', 'position.table'),
                    layout=FoldedClassPosition(),
                ),
            )
        },
    ),
    Part('reg_token', 'backbone.embed.registers', {'registers': _ONE}),
)


def _timm(
    name: str, tokens: Sequence[Part], kinds: dict[str, Keys], entry: str = 'state_dict'
) -> Family:
    return Family(
        name,
        (
            _embed('patch_embed.proj'),
            *tokens,
            _blocks('blocks.{i}', attention('attn.fn'), kinds),
            LAST_NORM,
            _HEAD,
        ),
        entry=entry,
    )


VIT = _timm(
    'vit',
    (
        CLASS_TOKEN,
        POSITIONS,
        _MASK_TOKEN,
        _optional('register_tokens', 'embed.registers', 'registers'),
    ),
    {**_KINDS, 'gated': (*_gated(('mlp.w12',), 'mlp.w3'), *_LS)},
    entry='model',
)
DEIT3 = _timm('deit3', (CLASS_TOKEN, POSITIONS), {'scaled': (*_PLAIN, *_GAMMA)}, entry='model')
TIMM_VIT_GIANT = _timm('timm_vit_giant', (CLASS_TOKEN, POSITIONS), {'gated': (*_PACKED, *_LS)})
TIMM_VIT_REG = _timm('timm_vit_reg', _REG_TOKENS, _KINDS)
TIMM_VIT_REG_GIANT = _timm('timm_vit_reg_giant', _REG_TOKENS, {'gated': (*_PACKED, *_LS)})

_QKV = (
    *single('attn.qkv.weight', 'attn.fn.qkv.weight'),
    *affine({'norm1': 'attn.norm', 'attn.proj': 'attn.fn.proj'}),
)
DINOV3 = Family(
    'dinov3',
    (
        _embed('patch_embed.proj'),
        CLASS_TOKEN,
        _MASK_TOKEN,
        Part('storage_tokens', 'backbone.embed.registers', {'registers': _ONE}),
        _optional('rope_embed.periods', 'embed.rotary.periods', 'periods'),
        _optional('local_cls_norm', 'local_cls_norm', 'norm of crops', keys=affine({'': ''})),
        _blocks(
            'blocks.{i}',
            (
                *_QKV,
                *_LS,
                Key(
                    ('attn.qkv.bias', 'attn.qkv.bias_mask'),
                    'attn.fn.qkv.bias',
                    option=QKV_BIAS,
                    layout=MaskedKeyBias(),
                ),
            ),
            {'plain': FFN, 'gated': _gated(('mlp.w1', 'mlp.w2'), 'mlp.w3')},
        ),
        LAST_NORM,
        _HEAD,
    ),
)
TIMM_DINOV3 = Family(
    'timm_dinov3',
    (
        _embed('patch_embed.proj'),
        CLASS_TOKEN,
        Part('reg_token', 'backbone.embed.registers', {'registers': _ONE}),
        _blocks(
            'blocks.{i}',
            (
                *_QKV,
                *_GAMMA,
                Key(
                    ('attn.q_bias', 'attn.v_bias'),
                    'attn.fn.qkv.bias',
                    ratio=(1, 1),
                    option=QKV_BIAS,
                ),
            ),
            {'plain': FFN, 'gated': _gated(('mlp.fc1_g', 'mlp.fc1_x'), 'mlp.fc2')},
        ),
        LAST_NORM,
        _HEAD,
    ),
    entry='state_dict',
)

_HF_SCALES = _scales('layer_scale1.lambda1', 'layer_scale2.lambda1')
_HF_DINOV2 = (
    *affine({'norm1': 'attn.norm', 'attention.output.dense': 'attn.fn.proj'}),
    *_HF_SCALES,
    *stacked(
        official=tuple(f'attention.attention.{name}' for name in ('query', 'key', 'value')),
        ours='attn.fn.qkv',
        ratio=(1, 1, 1),
        bias_option=QKV_BIAS,
    ),
)
HF_DINOV2 = Family(
    'hf_dinov2',
    (
        _embed('embeddings.patch_embeddings.projection'),
        Part(
            'embeddings',
            'backbone.embed',
            {
                'class token': (
                    *single('cls_token', 'cls_token'),
                    *single('position_embeddings', 'position.table'),
                )
            },
        ),
        _optional('embeddings.mask_token', 'embed.mask_token', 'mask token'),
        _optional('embeddings.register_tokens', 'embed.registers', 'registers'),
        _blocks(
            'encoder.layer.{i}',
            _HF_DINOV2,
            {'plain': FFN, 'gated': _gated(('mlp.weights_in',), 'mlp.weights_out')},
        ),
        replace(LAST_NORM, official='layernorm'),
    ),
)

_HF_FFN = affine({'norm2': 'ffn.norm', 'mlp.up_proj': 'ffn.fn.fc1', 'mlp.down_proj': 'ffn.fn.fc2'})
_QUERY = 'attention.q_proj'
_KEY = 'attention.k_proj'
_VALUE = 'attention.v_proj'
HF_DINOV3 = Family(
    'hf_dinov3',
    (
        _embed('embeddings.patch_embeddings'),
        Part('embeddings.cls_token', 'backbone.embed.cls_token', {'class token': _ONE}),
        _optional(
            'embeddings.mask_token',
            'embed.mask_token',
            'mask token',
            keys=single('', '', layout=Axes(3, (1,))),
        ),
        Part('embeddings.register_tokens', 'backbone.embed.registers', {'registers': _ONE}),
        _blocks(
            'layer.{i}',
            (
                *affine({'norm1': 'attn.norm', 'attention.o_proj': 'attn.fn.proj'}),
                *_HF_SCALES,
                Key(
                    tuple(join(name, 'weight') for name in (_QUERY, _KEY, _VALUE)),
                    'attn.fn.qkv.weight',
                    ratio=(1, 1, 1),
                ),
                Key(
                    (join(_QUERY, 'bias'), join(_VALUE, 'bias')),
                    'attn.fn.qkv.bias',
                    ratio=(1, 1),
                    option=QKV_BIAS,
                ),
            ),
            {'plain': _HF_FFN, 'gated': _gated(('mlp.gate_proj', 'mlp.up_proj'), 'mlp.down_proj')},
        ),
        LAST_NORM,
    ),
)
