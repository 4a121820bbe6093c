"""PVT, FLatten-PVT (including PVT without class token), FLatten-PVTv2 (including PVTv2) and timm's
PVTv2.

Official code: whai362/PVT `classification/pvt.py`, LeapLabTHU/FLatten-Transformer
`models/flatten_pvt.py` and `models/flatten_pvt_v2.py`.
"""

from mmflatten.checkpoints.families.common import FFN, HEAD, PATCH_EMBED, PROJECTION, focused
from mmflatten.checkpoints.families.skeletons import (
    PVT_ATTENTION,
    PVT_EMBED,
    PVT_POSITION,
    PVT_REDUCTION,
    PVT_WIDTHS,
    pvt,
    pvt_blocks,
)
from mmflatten.checkpoints.key_tables import Family, Part, affine, single

_LINEAR = (*PVT_ATTENTION, *focused('attn', 'attn.fn'))

# In this project the class token and the final norm belong to the last stage.
PVT = Family(
    'pvt',
    (
        PVT_POSITION,
        PVT_EMBED,
        Part(
            'cls_token', 'backbone.stages.{last}.embed.cls_token', {'class token': single('', '')}
        ),
        pvt_blocks(_LINEAR),
        Part('norm', 'backbone.stages.{last}.norm', {'norm': affine({'': ''})}),
        HEAD,
    ),
    widths=PVT_WIDTHS,
)

FLATTEN_PVT = pvt('flatten_pvt', _LINEAR)

FLATTEN_PVT_V2 = Family(
    'flatten_pvt_v2',
    (
        PVT_EMBED,
        pvt_blocks(_LINEAR, more=affine({'mlp.dwconv.dwconv': 'ffn.fn.inner.conv'})),
        Part('norm{i+1}', 'backbone.stages.{i}.norm', {'norm': affine({'': ''})}),
        HEAD,
    ),
    widths=PVT_WIDTHS,
)

_TIMM_BLOCK = (*PVT_ATTENTION, *FFN, *affine({'mlp.dwconv': 'ffn.fn.inner.conv'}))
TIMM_PVT_V2 = Family(
    'timm_pvt_v2',
    (
        PATCH_EMBED,
        Part(
            'stages.{i}.downsample',
            'backbone.stages.{i}.embed',
            {'downsampling': PROJECTION},
            first_stage=1,
        ),
        Part(
            'stages.{i}.blocks.{j}',
            'backbone.stages.{i}.blocks.{j}',
            {
                'softmax block': _TIMM_BLOCK,
                'softmax block with spatial reduction': (*_TIMM_BLOCK, *PVT_REDUCTION),
            },
        ),
        Part('stages.{i}.norm', 'backbone.stages.{i}.norm', {'norm': affine({'': ''})}),
        HEAD,
    ),
    widths=PVT_WIDTHS,
    entry='state_dict',
)
