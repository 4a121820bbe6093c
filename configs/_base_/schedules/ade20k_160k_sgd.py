"""ADE20K, 160 000 iterations of SGD for a total batch of 16: mmseg's for segmentors with residual
networks.
"""

optim_wrapper = dict(
    type='OptimWrapper', optimizer=dict(type='SGD', lr=0.01, momentum=0.9, weight_decay=5e-4)
)

param_scheduler = [
    dict(type='PolyLR', power=0.9, eta_min=1e-4, by_epoch=False, begin=0, end=160000)
]

train_cfg = dict(type='IterBasedTrainLoop', max_iters=160000, val_interval=16000)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')
log_processor = dict(by_epoch=False)

auto_scale_lr = dict(base_batch_size=16)
