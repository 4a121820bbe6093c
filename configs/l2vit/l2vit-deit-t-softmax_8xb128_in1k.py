"""DeiT-T with its softmax attention, to which L2ViT compares linear attentions.

L2ViT, Tables 1, 8 and 11: 72.2 % top-1 (DeiT's; 72.5 when L2ViT's authors train it), 5.7 M parameters, 1.3 G FLOPs.
Not run by this project. L2ViT gives no recipe for its DeiTs; this is DeiT's own.
"""
_base_ = [
    '../_base_/models/classifier.py', '../_base_/datasets/imagenet_bs128_224.py',
    '../_base_/schedules/imagenet_adamw_300e_deit.py', '../_base_/default_runtime.py'
]
model = dict(
    backbone=dict(
        _delete_=True, type='mmflatten.FLattenDeiT', arch='tiny', attn_types='S', img_size=224, drop_path_rate=0.1),
    neck=None,  # the class token goes to the head
    head=dict(in_channels=192))

# Every image three times in an epoch, which is as long as without: a third of the images, drawn anew each time.
train_dataloader = dict(sampler=dict(_delete_=True, type='RepeatAugSampler', shuffle=True, num_repeats=3))
