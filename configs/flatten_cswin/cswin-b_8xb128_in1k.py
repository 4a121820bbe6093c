"""CSwin-B on ImageNet-1k, the baseline of FLatten-CSwin-B: CSwin's own recipe.

FLatten Transformer, Table 8 (from CSwin's paper): 84.2 % top-1, 78 M parameters, 15.0 G FLOPs. Not
run by this project. Recipe: the command of CSwin's README for this size.
"""

_base_ = ['../_base_/recipes/cswin_310e_in1k.py']

arch = dict(embed_dims=96, depths=(2, 4, 32, 2), num_heads=(4, 8, 16, 32))
model = dict(
    backbone=dict(
        type='mmflatten.FLattenCSwin',
        arch=arch,
        attn_types='SSSS',
        img_size=224,
        drop_path_rate=0.5,
    ),
    head=dict(in_channels=768),
)

train_dataloader = dict(batch_size=128)
optim_wrapper = dict(optimizer=dict(lr=1e-3, weight_decay=0.1))
custom_hooks = [dict(type='EMAHook', momentum=8e-5, update_buffers=True)]  # a decay of 0.99992
auto_scale_lr = dict(base_batch_size=1024)
