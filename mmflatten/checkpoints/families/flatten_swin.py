"""FLatten-Swin, including Swin (LeapLabTHU/FLatten-Transformer `models/flatten_swin.py`), and
timm's Swin.
"""

from mmflatten.checkpoints.families.common import LAST_NORM, PATCH_EMBED, WIDTHS, attention, focused
from mmflatten.checkpoints.families.skeletons import (
    SWIN_MIXER,
    SWIN_SOFTMAX,
    swin,
    swin_blocks,
    swin_downsampling,
)
from mmflatten.checkpoints.key_tables import Family, Part, affine

FLATTEN_SWIN = swin('flatten_swin', (*attention(SWIN_MIXER), *focused('attn', SWIN_MIXER)))

TIMM_SWIN = Family(
    'timm_swin',
    (
        PATCH_EMBED,
        # in the official code it belongs to the previous stage
        swin_downsampling('layers.{i}.downsample'),
        swin_blocks(softmax=SWIN_SOFTMAX),
        LAST_NORM,
        Part('head.fc', 'head.fc', {'linear layer': affine({'': ''})}),
    ),
    widths=WIDTHS,
    entry='state_dict',
)
