"""COCO, 100 epochs of AdamW for a total batch of 64, with rates that decay by layer (0.7 for
ViT-B).

Source: detectron2, `projects/ViTDet/configs/COCO/mask_rcnn_vitdet_b_100ep.py`. The rate falls
tenfold after 88.9 and 96.3 % of the steps.
"""

optim_wrapper = dict(
    type='OptimWrapper',
    constructor='mmflatten.LayerDecayOptimWrapperConstructor',
    optimizer=dict(type='AdamW', lr=1e-4, weight_decay=0.1, betas=(0.9, 0.999)),
    paramwise_cfg=dict(layer_decay_rate=0.7, norm_decay_mult=0.0, bias_decay_mult=0.0),
)

param_scheduler = [
    dict(type='LinearLR', start_factor=0.001, by_epoch=False, begin=0, end=250),
    dict(type='MultiStepLR', by_epoch=True, begin=0, end=100, milestones=[89, 96], gamma=0.1),
]

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=100, val_interval=5)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

auto_scale_lr = dict(base_batch_size=64)
