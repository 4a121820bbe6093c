"""EncoderMaskHead on ADE20K in crops of 512 x 512, 40 000 iterations.

A config adds the backbone and `decode_head.in_channels`. Masked attention is annealed away over the
whole training.

Weights in another place: `--cfg-options model.backbone.init_cfg.checkpoint=PATH`; random ones:
`model.backbone.init_cfg=None`.
"""

_base_ = [
    '../models/encoder-mask_segmentor.py',
    '../datasets/ade20k_512x512.py',
    '../schedules/ade20k_40k_encoder-mask.py',
    '../default_runtime.py',
]
model = dict(decode_head=dict(anneal_steps=40000))
