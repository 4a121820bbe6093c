"""MHLA on DeiT (DAGroup-PKU/MHLA)."""

from mmflatten.checkpoints.families.skeletons import POSITIONS, vit
from mmflatten.checkpoints.key_tables import Axes, Part, affine, single

_MIXER = 'attn.fn'

MHLA_DEIT = vit(
    'mhla_deit',
    {
        '': (
            *single('attn.to_qkv.weight', f'{_MIXER}.qkv.weight'),
            *single('attn.q_norm.weight', f'{_MIXER}.q_norm'),
            *single('attn.k_norm.weight', f'{_MIXER}.k_norm'),
            *single('attn.piece_attn.conv.weight', f'{_MIXER}.mixing', layout=Axes(4, (2, 3))),
        )
    },
    tokens=(POSITIONS,),
    attention=affine(
        {
            'norm1': 'attn.norm',
            'attn.norm': f'{_MIXER}.norm',
            'attn.lepe': f'{_MIXER}.lepe.conv',
            'attn.to_out.0': f'{_MIXER}.proj',
        }
    ),
    norm=Part('fc_norm', 'backbone.norms.{last}', {'norm of the mean': affine({'': ''})}),
)
