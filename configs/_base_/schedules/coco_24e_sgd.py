"""COCO, 24 epochs of SGD for a total batch of 64 (32 GPUs x 2 images): the schedule of Factorized
Attention, sec. 4.1.

The paper prints a learning rate of 1.25e-4 for this batch and names no optimizer. With SGD that is
640 times below the linear rule and would not train a Mask R-CNN in 24 epochs; it looks like a
misprint. Here: the detectors' usual 0.02 per 16 images, scaled to the batch, with momentum, weight
decay and warm-up as usual there, the warm-up twice as long.
"""

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='SGD', lr=0.02 * 64 / 16, momentum=0.9, weight_decay=1e-4),
)

# "Drops by a factor of 10 at the start of the 18-th and 21-st epochs": after 17 and after 20 of
# them.
param_scheduler = [
    dict(type='LinearLR', start_factor=0.001, by_epoch=False, begin=0, end=1000),
    dict(type='MultiStepLR', by_epoch=True, begin=0, end=24, milestones=[17, 20], gamma=0.1),
]

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=24, val_interval=1)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

auto_scale_lr = dict(base_batch_size=64)
