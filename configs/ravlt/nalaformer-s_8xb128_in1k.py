"""NaLaFormer-S on ImageNet-1k.

NaLaFormer, README: 84.3 % top-1, 26 M parameters, 5.1 G FLOPs. Not run by this project. Inferred:
    the end, layer
scale and drop path are those of RAVLT, and it trains like Swin.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='small',
        mixers=dict(
            L=dict(type='NormAwareLinearAttention'),
            S=dict(type='GatedSoftmaxAttention', normed=True),
        ),
        ffn_encoding=True,
        last_projection=1024,
        drop_path_rate=0.15,
    ),
    head=dict(in_channels=1024),
)
