"""CSwin-S on ImageNet-1k, the baseline of FLatten-CSwin-S.

FLatten Transformer, Table 8 (from CSwin's paper): 83.6 % top-1, 35 M parameters, 6.9 G FLOPs. Not run by this project.
"""
_base_ = ['./cswin-t_8xb256_in1k.py']

model = dict(backbone=dict(arch=dict(depths=(2, 4, 32, 2)), drop_path_rate=0.4))

train_dataloader = dict(batch_size=128)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 1024 / 512))
auto_scale_lr = dict(base_batch_size=1024)
