"""SceneFlow, 10 epochs of Adam at a constant rate for a total batch of 12 (4 GPUs x 3 pairs):
PSMNet's own recipe.
"""

optim_wrapper = dict(type='OptimWrapper', optimizer=dict(type='Adam', lr=1e-3, betas=(0.9, 0.999)))
param_scheduler = [dict(type='ConstantLR', factor=1.0, by_epoch=True, begin=0, end=10)]

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=10, val_interval=1)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

auto_scale_lr = dict(base_batch_size=12)
