"""PVT-L on ImageNet-1k, the baseline of FLatten-PVT-L.

FLatten Transformer, Table 8 (from PVT's paper): 81.7 % top-1, 61.4 M parameters, 9.8 G FLOPs.
Not run by this project.
"""
_base_ = ['./pvt-t_8xb128_in1k.py']

model = dict(backbone=dict(arch='large', drop_path_rate=0.3))

train_dataloader = dict(batch_size=32)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 256 / 512), clip_grad=dict(max_norm=1.0))
auto_scale_lr = dict(base_batch_size=256)
