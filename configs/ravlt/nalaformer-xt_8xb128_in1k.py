"""NaLaFormer-XT on ImageNet-1k.

NaLaFormer, README: 79.1 % top-1, 8 M parameters, 1.0 G FLOPs. Not run by this project. Inferred:
    the end, layer scale
and drop path are those of RAVLT, and it trains like Swin.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='extra-tiny',
        mixers=dict(
            L=dict(type='NormAwareLinearAttention'),
            S=dict(type='GatedSoftmaxAttention', normed=True),
        ),
        ffn_encoding=True,
        last_projection=1024,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=1024),
)
