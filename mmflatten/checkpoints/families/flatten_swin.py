"""FLatten-Swin, including Swin: LeapLabTHU/FLatten-Transformer `models/flatten_swin.py`."""
from __future__ import annotations

from mmflatten.checkpoints.families.common import FFN, HEAD, LAST_NORM, attention, focused
from mmflatten.checkpoints.rules import Family, Part, affine, single

_MIXER = 'attn.fn.mixer'
_BLOCK = (*attention(_MIXER), *FFN)

FLATTEN_SWIN = Family('flatten_swin', (
    Part('patch_embed', 'backbone.stages.0.embed',
         {'patch embedding': affine({'proj': 'projection', 'norm': 'norm'})}),
    Part('layers.{i-1}.downsample', 'backbone.stages.{i}.embed',
         {'downsampling': (*affine({'norm': 'norm'}), *single('reduction.weight', 'reduction.weight'))},
         first_stage=1),
    Part('layers.{i}.blocks.{j}', 'backbone.stages.{i}.blocks.{j}',
         {'linear block': (*_BLOCK, *focused('attn', _MIXER)),
          'softmax block': (*_BLOCK, *single('attn.relative_position_bias_table',
                                             f'{_MIXER}.relative_position_bias.table'))},
         dropped={'attn.relative_position_index': 'an index determined by the window size',
                  'attn_mask': 'a mask determined by the map size'}),
    LAST_NORM,
    HEAD,
), widths=('backbone.stages.{last}.blocks.0.attn.norm.weight', 'backbone.norms.{last}.weight', 'head.fc.weight'))
