"""InLine-PVT-M on ImageNet-1k.

InLine, README: 83.2 % top-1. Not run by this project. Inferred: it trains like
FLatten-PVT-M, of the same lab; the drop path is the authors'.
"""

_base_ = ['./inline-pvt-t_8xb128_in1k.py']

model = dict(backbone=dict(arch=dict(depths=(3, 4, 18, 3)), drop_path_rate=0.3))

train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 512 / 512), clip_grad=dict(max_norm=1.0))
auto_scale_lr = dict(base_batch_size=512)
