"""CSwin-B on ImageNet-1k at 384 x 384, the baseline of FLatten-CSwin-B at that size: CSwin's own
recipe.

FLatten Transformer, Table 8 (from CSwin's paper): 85.4 % top-1, 78 M parameters, 47.0 G FLOPs. Not
run by this project. Recipe: the fine-tuning command of CSwin's README, which has weaker Mixup and
CutMix. It starts from the averaged weights of a checkpoint of cswin-b_8xb128_in1k.py, as CSwin's
does. The authors train in mixed precision, here `--amp`.
"""

_base_ = ['../_base_/recipes/cswin_30e_in1k-384px.py']
load_from = 'checkpoints/cswin-b_in1k.pth'

model = dict(
    backbone=dict(
        type='mmflatten.FLattenCSwin',
        arch=dict(embed_dims=96, depths=(2, 4, 32, 2), num_heads=(4, 8, 16, 32)),
        attn_types='SSSS',
        img_size=384,
        softmax_split=(1, 2, 12, 12),
        drop_path_rate=0.7,
    ),
    head=dict(in_channels=768),
)
