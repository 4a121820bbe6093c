"""Attention module of cmsflash/efficient-attention, which calls the coefficients queries and the
basis keys.
"""

from mmflatten.checkpoints.key_tables import Family, Part, affine

_PROJECTION = {'projection': affine({'': ''})}

EFFICIENT_ATTENTION = Family(
    'efficient_attention',
    tuple(
        Part(official, ours, _PROJECTION)
        for official, ours in (
            ('queries', 'coefficients'),
            ('keys', 'basis'),
            ('values', 'values'),
            ('reprojection', 'reprojection'),
        )
    ),
)
