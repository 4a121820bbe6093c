"""timm's Swin and PVTv2, `timm/models` of huggingface/pytorch-image-models; its DeiT is the family `deit`."""
from __future__ import annotations

from mmflatten.checkpoints.families.common import FFN, HEAD, LAST_NORM, QKV_BIAS, attention
from mmflatten.checkpoints.rules import Family, Part, affine, single, stacked

_SWIN_MIXER = 'attn.fn.mixer'
_EMBED = Part('patch_embed', 'backbone.stages.0.embed',
              {'patch embedding': affine({'proj': 'projection', 'norm': 'norm'})})

TIMM_SWIN = Family('timm_swin', (
    _EMBED,
    Part('layers.{i}.downsample', 'backbone.stages.{i}.embed',  # in the official code it belongs to the previous stage
         {'downsampling': (*affine({'norm': 'norm'}), *single('reduction.weight', 'reduction.weight'))},
         first_stage=1),
    Part('layers.{i}.blocks.{j}', 'backbone.stages.{i}.blocks.{j}',
         {'softmax block': (*attention(_SWIN_MIXER), *FFN, *single(
             'attn.relative_position_bias_table', f'{_SWIN_MIXER}.relative_position_bias.table'))},
         dropped={'attn.relative_position_index': 'an index determined by the window size',
                  'attn_mask': 'a mask determined by the map size'}),
    LAST_NORM,
    Part('head.fc', 'head.fc', {'linear layer': affine({'': ''})}),
), widths=('backbone.stages.{last}.blocks.0.attn.norm.weight', 'backbone.norms.{last}.weight', 'head.fc.weight'),
    entry='state_dict')

_MIXER = 'attn.fn'
_BLOCK = (*affine({'norm1': 'attn.norm', 'attn.proj': f'{_MIXER}.proj'}),
          *stacked(('attn.q', 'attn.kv'), f'{_MIXER}.qkv', ratio=(1, 2), bias_option=QKV_BIAS),
          *FFN, *affine({'mlp.dwconv': 'ffn.fn.inner.conv'}))

TIMM_PVT_V2 = Family('timm_pvt_v2', (
    _EMBED,
    Part('stages.{i}.downsample', 'backbone.stages.{i}.embed',
         {'downsampling': affine({'proj': 'projection', 'norm': 'norm'})}, first_stage=1),
    Part('stages.{i}.blocks.{j}', 'backbone.stages.{i}.blocks.{j}', {
        'softmax block': _BLOCK,
        'softmax block with spatial reduction': (
            *_BLOCK, *affine({'attn.sr': f'{_MIXER}.reduction.conv', 'attn.norm': f'{_MIXER}.reduction.norm'}))}),
    Part('stages.{i}.norm', 'backbone.stages.{i}.norm', {'norm': affine({'': ''})}),
    HEAD,
), widths=('backbone.stages.{last}.blocks.0.attn.norm.weight', 'head.fc.weight'), entry='state_dict')
