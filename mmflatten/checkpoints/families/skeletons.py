"""Backbones that several families share, with the blocks of a family."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mmflatten.checkpoints.families.common import (
    FFN,
    HEAD,
    LAST_NORM,
    PATCH_EMBED,
    PROJECTION,
    QKV_BIAS,
    WIDTHS,
    attention,
)
from mmflatten.checkpoints.key_tables import Family, Key, Part, affine, dense, single, stacked

Keys = tuple[Key, ...]
SWIN_MIXER = 'attn.fn.mixer'
SWIN_SOFTMAX = (
    *attention(SWIN_MIXER),
    *FFN,
    *single('attn.relative_position_bias_table', f'{SWIN_MIXER}.relative_position_bias.table'),
)
PVT_ATTENTION = (
    *affine({'norm1': 'attn.norm', 'attn.proj': 'attn.fn.proj'}),
    *stacked(('attn.q', 'attn.kv'), 'attn.fn.qkv', ratio=(1, 2), bias_option=QKV_BIAS),
)
PVT_REDUCTION = affine({'attn.sr': 'attn.fn.reduction.conv', 'attn.norm': 'attn.fn.reduction.norm'})
PVT_POSITION = Part(
    'pos_embed{i+1}', 'backbone.stages.{i}.position', {'positional table': single('', 'table')}
)
PVT_EMBED = Part('patch_embed{i+1}', 'backbone.stages.{i}.embed', {'patch embedding': PROJECTION})
PVT_WIDTHS = ('backbone.stages.{last}.blocks.0.attn.norm.weight', 'head.fc.weight')


CLASS_TOKEN = Part('cls_token', 'backbone.embed.cls_token', {'class token': single('', '')})
POSITIONS = Part('pos_embed', 'backbone.embed.position', {'positional table': single('', 'table')})
PLAIN_ATTENTION = attention('attn.fn')
UNUSED_CLASS_TOKEN = Part('cls_token', None, {'class token': single('', '')})


def vit(
    name: str,
    blocks: Mapping[str, Keys],
    tokens: Sequence[Part] = (CLASS_TOKEN, POSITIONS),
    attention: Keys = PLAIN_ATTENTION,
    norm: Part = LAST_NORM,
    base: str = '',
) -> Family:
    """Make a family on DeiT.

    Args:
        blocks: kind of a block -> its keys besides those of `attention` and of the feed-forward
            network.
        tokens: class token and table of positions, if any.
        attention: norm and projections of the attention.
        norm: last norm.
        base: as in `Family`.
    """
    return Family(
        name,
        (
            Part(
                'patch_embed.proj',
                'backbone.embed.projection',
                {'patch embedding': affine({'': ''})},
            ),
            *tokens,
            Part(
                'blocks.{i}',
                'backbone.blocks.{i}',
                {f'{kind} block': (*attention, *FFN, *keys) for kind, keys in blocks.items()},
            ),
            norm,
            HEAD,
        ),
        base=base,
    )


def pvt_blocks(linear: Keys, more: Keys = ()) -> Part:
    """Make the blocks of PVT: softmax or linear, each with and without spatial reduction.

    Args:
        linear: keys of linear attention, with its norm and projections.
        more: keys of each block besides attention and feed-forward network.
    """
    kinds: dict[str, Keys] = {}
    for kind, attention_keys in (('softmax', PVT_ATTENTION), ('linear', linear)):
        keys = (*attention_keys, *FFN, *more)
        kinds[f'{kind} block'] = keys
        kinds[f'{kind} block with spatial reduction'] = (*keys, *PVT_REDUCTION)
    return Part('block{i+1}.{j}', 'backbone.stages.{i}.blocks.{j}', kinds)


def pvt(name: str, linear: Keys, base: str = '') -> Family:
    """Make a family on PVT, with a `base` as in `Family`. Some codes have a last norm that they
    never call.
    """
    unused = Part('norm', None, {'norm': affine({'': ''})})
    parts = (PVT_POSITION, PVT_EMBED, pvt_blocks(linear), unused, HEAD)
    return Family(name, parts, widths=PVT_WIDTHS, dense=dense(parts, None), base=base)


def swin(name: str, linear: Keys, base: str = '') -> Family:
    """Make a family on Swin.

    Args:
        linear: keys of linear attention, with its norm and projections.
        base: as in `Family`.
    """
    parts = (
        PATCH_EMBED,
        swin_downsampling('layers.{i-1}.downsample'),
        swin_blocks(linear=(*linear, *FFN), softmax=SWIN_SOFTMAX),
        LAST_NORM,
        HEAD,
    )
    return Family(name, parts, widths=WIDTHS, dense=dense(parts), base=base)


def swin_downsampling(official: str) -> Part:
    return Part(
        official,
        'backbone.stages.{i}.embed',
        {
            'downsampling': (
                *affine({'norm': 'norm'}),
                *single('reduction.weight', 'reduction.weight'),
            )
        },
        first_stage=1,
    )


def swin_blocks(**kinds: Keys) -> Part:
    return Part(
        'layers.{i}.blocks.{j}',
        'backbone.stages.{i}.blocks.{j}',
        {f'{kind} block': keys for kind, keys in kinds.items()},
        dropped={
            'attn.relative_position_index': 'an index determined by the window size',
            'attn_mask': 'a mask determined by the map size',
        },
    )


def cswin(
    name: str,
    linear: Callable[[str, str], Keys],
    dropped: Mapping[str, str] | None = None,
    base: str = '',
) -> Family:
    """Make a family on CSwin.

    Args:
        linear: gives the keys of a branch from its official name and that of its mixer here.
        dropped: as in `Part`, of a block.
        base: as in `Family`.
    """
    block = (
        *affine({'norm1': 'attn.norm', 'proj': 'attn.fn.proj'}),
        *affine({'qkv': 'attn.fn.qkv'}, bias_option=QKV_BIAS),
        *FFN,
    )

    kinds: dict[str, Keys] = {}
    for kind in ('linear', 'softmax'):
        keys = block
        for branch in range(2):
            official, ours = f'attns.{branch}', f'attn.fn.branches.{branch}.mixer'
            keys += affine({f'{official}.get_v': f'{ours}.lepe.conv'})
            if kind == 'linear':
                keys += linear(official, ours)
            kinds[f'{kind} block of {branch + 1} branches'] = keys
    return Family(
        name,
        (
            Part(
                'stage1_conv_embed',
                'backbone.stages.0.embed',
                {'patch embedding': affine({'0': 'projection', '2': 'norm'})},
            ),
            Part(
                'merge{i}',
                'backbone.stages.{i}.embed',
                {'downsampling': affine({'conv': 'projection', 'norm': 'norm'})},
                first_stage=1,
            ),
            Part(
                'stage{i+1}.{j}',
                'backbone.stages.{i}.blocks.{j}',
                kinds,
                dropped=dropped or {},
            ),
            LAST_NORM,
            HEAD,
        ),
        widths=WIDTHS,
        base=base,
    )
