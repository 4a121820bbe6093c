"""FLatten-PVTv2-B4 on ImageNet-1k.

FLatten Transformer, Table 8: 84.0 % top-1, 51.8 M parameters, 10.7 G FLOPs. Not run by this
project.
"""

_base_ = ['./flatten-pvtv2-b0_8xb128_in1k.py']

model = dict(backbone=dict(arch='b4', drop_path_rate=0.3), head=dict(in_channels=512))

train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 512 / 512), clip_grad=dict(max_norm=1.0))
auto_scale_lr = dict(base_batch_size=512)
