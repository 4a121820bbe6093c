"""Semantic FPN with PVT-T on ADE20K, 40 000 iterations.

FLatten Transformer, Table 1: 36.57 mIoU, 46.72 mAcc, 17 M parameters, 158 G FLOPs at 2048 x 512.
Not run by this project. Recipe: `segmentation/configs/sem_fpn/PVT/fpn_pvt_t_ade20k_40k.py` of
whai362/PVT and its data set file: 4 images on each of 8 GPUs, tested with both sides resized to
multiples of 32.
"""

_base_ = ['../_base_/recipes/semantic-fpn_40k_ade20k-512x512.py']

# A checkpoint of pvt-t_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py. Its
# class token is left behind, as in PVT's dense tasks.
pretrained = 'checkpoints/pvt-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='tiny',
        attn_types='SSSS',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[64, 128, 320, 512]),
)

test_pipeline = [
    *_base_.test_pipeline[:2],
    dict(type='ResizeToMultiple', size_divisor=32),
    *_base_.test_pipeline[2:],
]
train_dataloader = dict(batch_size=4)
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
auto_scale_lr = dict(base_batch_size=32)
