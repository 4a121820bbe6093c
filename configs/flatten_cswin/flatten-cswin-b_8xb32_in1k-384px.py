"""FLatten-CSwin-B on ImageNet-1k at 384 x 384, fine-tuned from 224 x 224 for 30 epochs.

FLatten Transformer, Table 8: 85.5 % top-1, 78 M parameters, 46.4 G FLOPs. Not run by this project.
Recipe: the official 384 configuration, 32 images on each of 8 GPUs, 20 epochs and 10 more at the
lowest rate. It starts from `load_from`: a checkpoint of flatten-cswin-b_8xb64_in1k.py. It takes the
averaged weights, where the official code takes the others. Positional tables are resized when they
are loaded. Evaluated like FLatten's code: squeezed to a square of 438, then the centre.
"""

_base_ = ['../_base_/recipes/flatten-cswin_30e_in1k-384px.py']
load_from = 'checkpoints/flatten-cswin-b_in1k.pth'

model = dict(
    backbone=dict(
        type='mmflatten.FLattenCSwin',
        arch='base',
        attn_types='LLSS',
        img_size=384,
        softmax_split=(1, 2, 12, 12),
        drop_path_rate=0.7,
    ),
    head=dict(in_channels=768),
)
