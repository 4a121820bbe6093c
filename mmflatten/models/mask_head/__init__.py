"""One mask head for every backbone: queries among the tokens of the last blocks.

`EncoderMaskNetwork` needs neither mmdet nor mmseg. The registry imports the models built on it on
first use.
"""

from mmflatten.models.mask_head.network import EncoderMaskNetwork

__all__ = ['EncoderMaskNetwork']
