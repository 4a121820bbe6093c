"""Blocks that the head of a pyramid builds for its queries and tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mmengine.model import ModuleList

from mmflatten.models.attention import build_mixer
from mmflatten.models.backbones.letters import (
    FOCUSED,
    SOFTMAX,
    block_letters,
    check_letters,
    letter_mixers,
)
from mmflatten.models.layers import Block, FeedForward, pre_norm_block

_EPS = 1e-6
_XAVIER = dict(type='Xavier', layer='Linear', distribution='uniform')


def query_blocks(
    *,
    num_blocks: int,
    attn_types: str,
    mixers: Mapping[str, dict] | None,
    embed_dims: int,
    hidden_dims: int,
    **options: Any,
) -> ModuleList:
    """Build pre-norm blocks whose attention is chosen by letters, as in a plain backbone.

    Args:
        num_blocks: number of blocks.
        attn_types: one letter for all blocks, or one per block: 'S' softmax, 'L' focused linear
            attention, and those of `mixers`.
        mixers: maps letters to mixer configs.
        embed_dims: channels of the tokens.
        hidden_dims: hidden channels of the feed-forward networks.
        options: further arguments of every mixer, such as `num_heads` and `grid_size`.

    Raises:
        ValueError: an unknown letter, or another number of letters.
    """
    by_letter = letter_mixers(mixers, None, dict(L=FOCUSED, S=SOFTMAX))
    letters = block_letters(attn_types, attn_types, num_blocks)
    check_letters('attn_types', attn_types, [letters], by_letter)
    blocks: list[Block] = []
    for letter in letters:
        mixer = build_mixer(by_letter[letter], embed_dims=embed_dims, **options)
        ffn = FeedForward(embed_dims, hidden_dims)
        blocks.append(pre_norm_block(mixer, ffn, embed_dims, eps=_EPS))
    return ModuleList(blocks, init_cfg=_XAVIER)
