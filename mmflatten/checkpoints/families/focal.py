"""Focal Transformer, version 1: microsoft/Focal-Transformer
`classification/focal_transformer.py`.
"""

from __future__ import annotations

from mmflatten.checkpoints.families.common import (
    FFN,
    HEAD,
    LAST_NORM,
    PATCH_EMBED,
    PROJECTION,
    WIDTHS,
    attention,
)
from mmflatten.checkpoints.key_tables import Family, Key, Part, affine, single

_MIXER = 'attn.fn'
_BLOCK = (
    *attention(_MIXER),
    *FFN,
    *single('attn.relative_position_bias_table', f'{_MIXER}.relative_position_bias.table'),
    # Stages whose map fits into one window have no neighbours.
    *single(
        'attn.relative_position_bias_table_to_neighbors',
        f'{_MIXER}.neighbor_bias.table',
        option='neighbours in stage {i}',
    ),
)
_MAX_LEVELS = 3


def _pooled(levels: int) -> tuple[Key, ...]:
    """Return keys for the pooling and the bias table of each pooled level."""
    keys: list[Key] = []
    for k in range(levels):
        table = f'attn.relative_position_bias_table_to_windows.{k}'
        keys += affine({f'pool_layers.{k}': f'{_MIXER}.pools.{k}'})
        keys += single(table, f'{_MIXER}.pooled_bias.{k}.table')
    return tuple(keys)


_INDEX = 'an index determined by the window size'
_BUFFERS = (
    'attn.relative_position_index',
    'attn.valid_ind_rolled',
    *(f'attn.relative_position_index_{k}' for k in range(_MAX_LEVELS)),
    *(f'attn.valid_ind_unfold_{k}' for k in range(_MAX_LEVELS)),
)

FOCAL = Family(
    'focal',
    (
        PATCH_EMBED,
        Part(
            'layers.{i-1}.downsample',
            'backbone.stages.{i}.embed',
            {'downsampling': PROJECTION},
            first_stage=1,
        ),
        Part(
            'layers.{i}.blocks.{j}',
            'backbone.stages.{i}.blocks.{j}',
            {
                f'block with {levels} pooled levels': (*_BLOCK, *_pooled(levels))
                for levels in range(_MAX_LEVELS + 1)
            },
            dropped={
                **dict.fromkeys(_BUFFERS, _INDEX),
                'attn_mask': 'a mask determined by the map size',
            },
        ),
        LAST_NORM,
        HEAD,
    ),
    widths=WIDTHS,
)
