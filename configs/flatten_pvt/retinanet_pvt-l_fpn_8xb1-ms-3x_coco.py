"""RetinaNet with PVT-L on COCO, 36 epochs.

Focal Transformer, Table 4: 43.4 box AP, 71.1 M parameters, 345 G FLOPs. Not run by this project.
Recipe: `detection/configs/retinanet_pvt_l_fpn_1x_coco.py` of whai362/PVT, with 36 epochs and the
shorter side of the images at 640 to 800, as PVT's paper has it; a config of that is not published.
"""

_base_ = ['../_base_/recipes/retinanet_ms-3x-pvt_coco.py']

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
    neck=dict(in_channels=[128, 320, 512]),
)

train_dataloader = dict(batch_size=1)
optim_wrapper = dict(optimizer=dict(lr=1e-4 / 1.4))
auto_scale_lr = dict(base_batch_size=8)
