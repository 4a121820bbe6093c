"""NaLaFormer-L on ImageNet-1k.

NaLaFormer, README: 85.7 % top-1, 95 M parameters, 18 G FLOPs. Not run by this project. Inferred:
    the end, layer scale
and drop path are those of RAVLT, and it trains like Swin.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='large',
        mixers=dict(
            L=dict(type='NormAwareLinearAttention'),
            S=dict(type='GatedSoftmaxAttention', normed=True),
        ),
        ffn_encoding=True,
        layer_scale=1e-6,
        last_projection=1024,
        drop_path_rate=0.55,
    ),
    head=dict(in_channels=1024),
)
