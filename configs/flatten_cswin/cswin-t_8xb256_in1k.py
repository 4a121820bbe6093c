"""CSwin-T on ImageNet-1k, the baseline of FLatten-CSwin-T.

FLatten Transformer, Table 8 (from CSwin's paper): 82.7 % top-1, 23 M parameters, 4.3 G FLOPs. Not run by this project.
Trained like FLatten-CSwin-T. Evaluated with the shorter side at 256, which keeps the aspect ratio.
"""
_base_ = [
    '../_base_/models/classifier.py', '../_base_/datasets/imagenet_bs128_224.py',
    '../_base_/schedules/imagenet_adamw_310e_cswin.py', '../_base_/default_runtime.py'
]

arch = dict(embed_dims=64, depths=(1, 2, 21, 1), num_heads=(2, 4, 8, 16))
model = dict(
    backbone=dict(type='mmflatten.FLattenCSwin', arch=arch, attn_types='SSSS', img_size=224, drop_path_rate=0.2),
    head=dict(in_channels=512))

train_dataloader = dict(batch_size=256)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 2048 / 512))
auto_scale_lr = dict(base_batch_size=2048)
