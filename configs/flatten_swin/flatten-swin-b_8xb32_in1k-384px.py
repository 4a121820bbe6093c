"""FLatten-Swin-B on ImageNet-1k at 384 x 384, fine-tuned from 224 x 224 for 30 epochs.

FLatten Transformer, Table 8: 85.0 % top-1, 91 M parameters, 46.5 G FLOPs. Not run by this project.
Recipe: the official `cfgs/flatten_swin_b_384.yaml`, 32 images on each of 8 GPUs. It starts from
`load_from`: a checkpoint of flatten-swin-b_8xb64_in1k.py, or the official one after
tools/convert_checkpoint.py. Positional tables are resized when they are loaded.
"""

_base_ = ['../_base_/recipes/swin_30e_in1k-384px.py']
load_from = 'checkpoints/flatten-swin-b_in1k.pth'

# Linear attention over the whole maps of 96 x 96 and 48 x 48, softmax windows of 12 x 12.
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='base',
        attn_types='LLSS',
        img_size=384,
        softmax_window=12,
        drop_path_rate=0.5,
    ),
    head=dict(in_channels=1024),
)
