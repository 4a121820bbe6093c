"""ImageNet-1k, 90 epochs of SGD for a total batch of 256 (8 GPUs x 32 images): torchvision's
reference training.
"""

optim_wrapper = dict(
    type='OptimWrapper', optimizer=dict(type='SGD', lr=0.1, momentum=0.9, weight_decay=1e-4)
)

param_scheduler = [
    dict(type='MultiStepLR', by_epoch=True, begin=0, end=90, milestones=[30, 60], gamma=0.1)
]

train_cfg = dict(by_epoch=True, max_epochs=90, val_interval=1)
val_cfg = dict()
test_cfg = dict()

auto_scale_lr = dict(base_batch_size=256)
