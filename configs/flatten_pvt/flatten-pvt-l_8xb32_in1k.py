"""FLatten-PVT-L on ImageNet-1k.

FLatten Transformer, Table 8: 83.4 % top-1, 50.6 M parameters, 10.4 G FLOPs. Not run by this
project. The official file is `cfgs/flatten_pvt_b.yaml`.
"""

_base_ = ['./flatten-pvt-t_8xb128_in1k.py']

model = dict(backbone=dict(arch='large', drop_path_rate=0.3))

train_dataloader = dict(batch_size=32)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 256 / 512), clip_grad=dict(max_norm=1.0))
auto_scale_lr = dict(base_batch_size=256)
