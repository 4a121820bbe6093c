"""FLatten-PVT-T on ImageNet-1k.

FLatten Transformer, Table 8: 77.8 % top-1 (the authors' log: 77.758), 12.2 M parameters, 2.0 G
FLOPs. Not run by this project. Recipe: the official `cfgs/flatten_pvt_*.yaml` on 8 GPUs, as the
authors' README runs them. All stages are linear, over the whole map, without spatial reduction.
Evaluated like FLatten's code: squeezed to a square of 256, then the centre.
"""

_base_ = ['../_base_/recipes/flatten-pvt_310e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='tiny',
        attn_types='LLLL',
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=512),
)
