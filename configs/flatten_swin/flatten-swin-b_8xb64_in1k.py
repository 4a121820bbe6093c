"""FLatten-Swin-B on ImageNet-1k.

FLatten Transformer, Table 8: 83.8 % top-1, 89 M parameters, 15.4 G FLOPs. Not run by this project.
The authors' README trains it with 64 images on each of 8 GPUs; the learning rates are scaled to
that batch.
"""

_base_ = ['./flatten-swin-t_8xb128_in1k.py']

# The paper's Table 14 lists the heads of the smaller models (3, 6, 12, 24); the code has 4, 8, 16,
# 32, which fit.
model = dict(backbone=dict(arch='base', drop_path_rate=0.5), head=dict(in_channels=1024))

train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 512 / 512))
auto_scale_lr = dict(base_batch_size=512)
