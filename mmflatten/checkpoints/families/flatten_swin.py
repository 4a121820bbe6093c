"""FLatten-Swin, including Swin (LeapLabTHU/FLatten-Transformer `models/flatten_swin.py`), and timm's Swin."""
from __future__ import annotations

from mmflatten.checkpoints.families.common import FFN, HEAD, LAST_NORM, PATCH_EMBED, WIDTHS, attention, focused
from mmflatten.checkpoints.rules import Family, Part, affine, single

_MIXER = 'attn.fn.mixer'
_BLOCK = (*attention(_MIXER), *FFN)
_SOFTMAX = (*_BLOCK, *single('attn.relative_position_bias_table', f'{_MIXER}.relative_position_bias.table'))


def _downsample(official: str) -> Part:
    return Part(official, 'backbone.stages.{i}.embed', {
        'downsampling': (*affine({'norm': 'norm'}), *single('reduction.weight', 'reduction.weight'))}, first_stage=1)


def _blocks(**kinds: tuple) -> Part:
    return Part('layers.{i}.blocks.{j}', 'backbone.stages.{i}.blocks.{j}',
                {f'{kind} block': keys for kind, keys in kinds.items()},
                dropped={'attn.relative_position_index': 'an index determined by the window size',
                         'attn_mask': 'a mask determined by the map size'})


FLATTEN_SWIN = Family('flatten_swin', (
    PATCH_EMBED,
    _downsample('layers.{i-1}.downsample'),
    _blocks(linear=(*_BLOCK, *focused('attn', _MIXER)), softmax=_SOFTMAX),
    LAST_NORM,
    HEAD,
), widths=WIDTHS)

TIMM_SWIN = Family('timm_swin', (
    PATCH_EMBED,
    _downsample('layers.{i}.downsample'),  # in the official code it belongs to the previous stage
    _blocks(softmax=_SOFTMAX),
    LAST_NORM,
    Part('head.fc', 'head.fc', {'linear layer': affine({'': ''})}),
), widths=WIDTHS, entry='state_dict')
