"""PSMNet on SceneFlow for 100 epochs: the baseline of Factorized Attention.

Factorized Attention, Table 6: 0.513 px end-point error. Not run by this project. Recipe: section
4.2 of the paper, batch 24, learning rate 2e-3, 100 epochs, everything else as in PSMNet (Adam,
constant rate, no weight decay). How the batch was spread over GPUs is not stated; here 3 pairs on
each of 8, PSMNet's 3 per GPU.
"""

_base_ = ['../_base_/recipes/psmnet_10e_sceneflow.py']
optim_wrapper = dict(optimizer=dict(lr=2e-3))
param_scheduler = [dict(type='ConstantLR', factor=1.0, by_epoch=True, begin=0, end=100)]
train_cfg = dict(max_epochs=100, val_interval=10)
auto_scale_lr = dict(base_batch_size=24)
