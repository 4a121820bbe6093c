"""FLatten-PVTv2-B0 on ImageNet-1k.

FLatten Transformer, Table 8: 71.1 % top-1 (the authors' log: 71.098), 3.6 M parameters, 0.6 G
FLOPs. Not run by this project. Recipe: the official `cfgs/flatten_pvt_*.yaml` on 8 GPUs, as the
authors' README runs them. All stages are linear, over the whole map, without spatial reduction. The
paper lists 512 channels in the last stage; the code has 256, which fit.
"""

_base_ = ['../_base_/recipes/flatten-pvt_310e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVTv2',
        arch='b0',
        attn_types='LLLL',
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=256),
)
