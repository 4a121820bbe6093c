"""FLatten-DeiT-T on ImageNet-1k.

FLatten Transformer, Tables 3a, 4 and 8: 74.1 % top-1, 6.1 M parameters, 1.1 G FLOPs. Not run by this project. There is
no official code. Class token and position embedding stay, as in the same lab's other DeiTs, and all blocks are linear
(Table 9). Recipe: DeiT's, because the paper trains with "the exact same settings" as the baseline.
"""
_base_ = [
    '../_base_/models/classifier_cls_token.py', '../_base_/datasets/imagenet_bs128_224.py',
    '../_base_/schedules/imagenet_adamw_300e_deit.py', '../_base_/default_runtime.py'
]

model = dict(
    backbone=dict(type='mmflatten.FLattenDeiT', arch='tiny', attn_types='L', img_size=224, drop_path_rate=0.1),
    head=dict(in_channels=192))

# DeiT's repeated augmentation: three versions of an image in the batch of all GPUs, a third of the images in an epoch.
train_dataloader = dict(sampler=dict(type='RepeatAugSampler', num_repeats=3))
