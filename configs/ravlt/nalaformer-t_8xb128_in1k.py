"""NaLaFormer-T on ImageNet-1k.

NaLaFormer, README: 82.6 % top-1, 15 M parameters, 2.7 G FLOPs. Not run by this project. The paper's
ratio of the feed-forward network is 4 for this size. Inferred: the end, layer scale and drop path
are those of RAVLT, and it trains like Swin.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch=dict(
            embed_dims=(64, 128, 256, 512),
            depths=(2, 2, 6, 2),
            num_heads=(1, 2, 4, 8),
            mlp_ratio=4.0,
        ),
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
