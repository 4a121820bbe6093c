"""Mask R-CNN with PVT-L on COCO, 36 epochs.

Focal Transformer, Table 4: 44.5 box AP, 40.7 mask AP, 81.0 M parameters, 364 G FLOPs. Not run by
this project. Recipe: `detection/configs/mask_rcnn_pvt_l_fpn_1x_coco.py` of whai362/PVT, with 36
epochs and the shorter side of the images at 640 to 800, as PVT's paper has it; a config of that is
not published.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-3x-pvt_coco.py']

# A checkpoint of pvt-l_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/pvt-l_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='large',
        attn_types='SSSS',
        drop_path_rate=0.0,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[64, 128, 320, 512]),
)

train_dataloader = dict(batch_size=1)
optim_wrapper = dict(optimizer=dict(lr=2e-4 / 1.4))
auto_scale_lr = dict(base_batch_size=8)
