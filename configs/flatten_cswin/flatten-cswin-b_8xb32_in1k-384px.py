"""FLatten-CSwin-B on ImageNet-1k at 384 x 384, fine-tuned from 224 x 224 for 30 epochs.

FLatten Transformer, Table 8: 85.5 % top-1, 78 M parameters, 46.4 G FLOPs. Not run by this project. Recipe: the
official 384 configuration, 32 images on each of 8 GPUs, 20 epochs and 10 more at the lowest rate. The weights to start
from are yours to give, `load_from` below or `--cfg-options load_from=PATH`: a checkpoint of
flatten-cswin-b_8xb64_in1k.py. Its averaged weights are taken, where the official code takes the others. Positional
tables are resized when they are loaded. Evaluated as FLatten's code does: squeezed to a square of 438, then the
centre.
"""
_base_ = [
    '../_base_/models/classifier.py', '../_base_/datasets/imagenet_bs32_flatten-cswin_384.py',
    '../_base_/schedules/imagenet_adamw_310e_cswin.py', '../_base_/default_runtime.py'
]
load_from = 'checkpoints/flatten-cswin-b_in1k.pth'

model = dict(
    backbone=dict(
        type='mmflatten.FLattenCSwin',
        arch='base',
        attn_types='LLSS',
        img_size=384,
        softmax_split=(1, 2, 12, 12),
        drop_path_rate=0.7),
    head=dict(in_channels=768))

optim_wrapper = dict(optimizer=dict(lr=5e-6 * 256 / 512, weight_decay=1e-8))
param_scheduler = [
    dict(
        type='CosineAnnealingLR',
        eta_min_ratio=5e-7 / 5e-6,
        by_epoch=True,
        begin=0,
        end=20,
        convert_to_iter_based=True),
    dict(type='ConstantLR', factor=1.0, by_epoch=True, begin=20, end=30),
]
train_cfg = dict(max_epochs=30)
custom_hooks = [dict(type='EMAHook', momentum=1.8e-4, update_buffers=True)]  # a decay of 0.99982
auto_scale_lr = dict(base_batch_size=256)
