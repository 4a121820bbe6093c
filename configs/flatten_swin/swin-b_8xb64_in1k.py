"""Swin-B on ImageNet-1k, the baseline of FLatten-Swin-B.

FLatten Transformer, Table 8 (from Swin's paper): 83.5 % top-1, 88 M parameters, 15.4 G FLOPs. Not
run by this project. The batch is that of FLatten-Swin-B; the learning rates are scaled to it.
"""

_base_ = ['./swin-t_8xb128_in1k.py']

model = dict(backbone=dict(arch='base', drop_path_rate=0.5), head=dict(in_channels=1024))

train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 512 / 512))
auto_scale_lr = dict(base_batch_size=512)
