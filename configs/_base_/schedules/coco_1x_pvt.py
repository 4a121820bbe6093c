"""COCO, 12 epochs of AdamW for a total batch of 16 (8 GPUs x 2 images): Mask R-CNN with PVT and its
like.

PVT's own (`detection/configs/mask_rcnn_pvt_t_fpn_1x_coco.py` of whai362/PVT), which decays every
parameter; the PVT detectors of FLatten's lab (Agent-Attention `downstream/detection`) have the
same.
"""

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=2e-4, weight_decay=1e-4, betas=(0.9, 0.999)),
)

param_scheduler = [
    dict(type='LinearLR', start_factor=0.001, by_epoch=False, begin=0, end=500),
    dict(type='MultiStepLR', by_epoch=True, begin=0, end=12, milestones=[8, 11], gamma=0.1),
]

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=12, val_interval=1)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

auto_scale_lr = dict(base_batch_size=16)
