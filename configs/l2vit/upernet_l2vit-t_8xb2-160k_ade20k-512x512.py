"""UperNet with L2ViT-T on ADE20K, 160 000 iterations.

L2ViT, Table 5: 46.2 mIoU, 60 M parameters, 943 G FLOPs at 2048 x 512. Not run by this project.
Recipe: the authors' code, which takes the same drop path for all three sizes.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']
# A checkpoint of l2vit-t_32xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/l2vit-t_in1k.pth'
# Not synchronised over the GPUs, in the heads as in the backbone.
norm_cfg = dict(type='BN', requires_grad=True)
model = dict(
    backbone=dict(
        type='mmflatten.L2ViT',
        arch='tiny',
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[96, 192, 384, 768], norm_cfg=norm_cfg),
    auxiliary_head=dict(in_channels=384, norm_cfg=norm_cfg),
)

# Everything decays: norms, biases and the temperature too.
optim_wrapper = dict(paramwise_cfg=None)
