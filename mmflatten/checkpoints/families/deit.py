"""DeiT as in timm, and FLatten-DeiT, which is not released: its names follow other DeiTs by the same authors."""
from mmflatten.checkpoints.families.common import FFN, HEAD, LAST_NORM, attention, focused
from mmflatten.checkpoints.rules import Family, Part, affine, single

_BLOCK = (*attention('attn.fn'), *FFN)

DEIT = Family('deit', (
    Part('patch_embed.proj', 'backbone.embed.projection', {'patch embedding': affine({'': ''})}),
    Part('cls_token', 'backbone.embed.cls_token', {'class token': single('', '')}),
    Part('pos_embed', 'backbone.embed.position', {'positional table': single('', 'table')}),
    Part('blocks.{i}', 'backbone.blocks.{i}', {'softmax block': _BLOCK,
                                               'linear block': (*_BLOCK, *focused('attn', 'attn.fn'))}),
    LAST_NORM,
    HEAD,
))
