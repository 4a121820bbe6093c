"""PVT, FLatten-PVT (including PVT without class token), FLatten-PVTv2 (including PVTv2) and timm's PVTv2.

Official code: whai362/PVT `classification/pvt.py`, LeapLabTHU/FLatten-Transformer `models/flatten_pvt.py` and
`models/flatten_pvt_v2.py`.
"""
from __future__ import annotations

from mmflatten.checkpoints.families.common import FFN, HEAD, PATCH_EMBED, PROJECTION, QKV_BIAS, focused
from mmflatten.checkpoints.rules import Family, Key, Part, affine, single, stacked

_MIXER = 'attn.fn'
_BLOCK = (*affine({'norm1': 'attn.norm', 'attn.proj': f'{_MIXER}.proj'}),
          *stacked(('attn.q', 'attn.kv'), f'{_MIXER}.qkv', ratio=(1, 2), bias_option=QKV_BIAS), *FFN)
_REDUCTION = affine({'attn.sr': f'{_MIXER}.reduction.conv', 'attn.norm': f'{_MIXER}.reduction.norm'})
_LINEAR = focused('attn', _MIXER)

_EMBED = Part('patch_embed{i+1}', 'backbone.stages.{i}.embed',
              {'patch embedding': PROJECTION})


def _blocks(common: tuple[Key, ...]) -> Part:
    return Part('block{i+1}.{j}', 'backbone.stages.{i}.blocks.{j}', {
        'softmax block': common,
        'softmax block with spatial reduction': (*common, *_REDUCTION),
        'linear block': (*common, *_LINEAR),
        'linear block with spatial reduction': (*common, *_REDUCTION, *_LINEAR)})


_POSITION = Part('pos_embed{i+1}', 'backbone.stages.{i}.position', {'positional table': single('', 'table')})
_WIDTHS = ('backbone.stages.{last}.blocks.0.attn.norm.weight', 'head.fc.weight')

# In this project the class token and the final norm belong to the last stage.
PVT = Family('pvt', (
    _POSITION,
    _EMBED,
    Part('cls_token', 'backbone.stages.{last}.embed.cls_token', {'class token': single('', '')}),
    _blocks(_BLOCK),
    Part('norm', 'backbone.stages.{last}.norm', {'norm': affine({'': ''})}),
    HEAD,
), widths=_WIDTHS)

FLATTEN_PVT = Family('flatten_pvt', (
    _POSITION,
    _EMBED,
    _blocks(_BLOCK),
    Part('norm', None, {'norm': affine({'': ''})}),  # unused in the official forward pass
    HEAD,
), widths=_WIDTHS)

FLATTEN_PVT_V2 = Family('flatten_pvt_v2', (
    _EMBED,
    _blocks((*_BLOCK, *affine({'mlp.dwconv.dwconv': 'ffn.fn.inner.conv'}))),
    Part('norm{i+1}', 'backbone.stages.{i}.norm', {'norm': affine({'': ''})}),
    HEAD,
), widths=_WIDTHS)

_TIMM_BLOCK = (*_BLOCK, *affine({'mlp.dwconv': 'ffn.fn.inner.conv'}))
TIMM_PVT_V2 = Family('timm_pvt_v2', (
    PATCH_EMBED,
    Part('stages.{i}.downsample', 'backbone.stages.{i}.embed', {'downsampling': PROJECTION}, first_stage=1),
    Part('stages.{i}.blocks.{j}', 'backbone.stages.{i}.blocks.{j}', {
        'softmax block': _TIMM_BLOCK, 'softmax block with spatial reduction': (*_TIMM_BLOCK, *_REDUCTION)}),
    Part('stages.{i}.norm', 'backbone.stages.{i}.norm', {'norm': affine({'': ''})}),
    HEAD,
), widths=_WIDTHS, entry='state_dict')
