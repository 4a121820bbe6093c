"""InLine-CSwin-B on ImageNet-1k.

InLine, README: 84.5 % top-1, 96 M parameters. Not run by this project. Inferred: it trains like
FLatten-CSwin-B, of the same lab; the drop path is the authors'.
"""

_base_ = ['./inline-cswin-t_8xb256_in1k.py']

model = dict(backbone=dict(arch='base', drop_path_rate=0.5), head=dict(in_channels=768))

train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 512 / 512, weight_decay=0.1))
custom_hooks = [dict(type='EMAHook', momentum=1.8e-4, update_buffers=True)]  # a decay of 0.99982
auto_scale_lr = dict(base_batch_size=512)
