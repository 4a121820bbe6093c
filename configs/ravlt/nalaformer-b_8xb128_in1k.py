"""NaLaFormer-B on ImageNet-1k.

NaLaFormer, README: 85.2 % top-1, 52 M parameters, 12 G FLOPs. Not run by this project. The paper's
ratio of the feed-forward network is 4 for this size. Inferred: the end, layer scale and drop path
are those of RAVLT, and it trains like Swin.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch=dict(
            embed_dims=(96, 192, 384, 512),
            depths=(4, 6, 12, 6),
            num_heads=(1, 2, 6, 8),
            mlp_ratio=4.0,
        ),
        mixers=dict(
            L=dict(type='NormAwareLinearAttention'),
            S=dict(type='GatedSoftmaxAttention', normed=True),
        ),
        ffn_encoding=True,
        layer_scale=(1.0, 1.0, 1e-6, 1e-6),
        last_projection=1024,
        drop_path_rate=0.4,
    ),
    head=dict(in_channels=1024),
)
