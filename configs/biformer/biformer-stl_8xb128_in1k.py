"""BiFormer-STL on ImageNet-1k.

BiFormer, README: 82.7 % top-1, 28.4 M parameters, 4.6 G FLOPs. Not run by this project. Swin-T with other attentions.
Inferred: the last stage has Swin-T's layout without windows, and it trains like Swin-T.
"""
_base_ = [
    '../_base_/models/classifier.py', '../_base_/datasets/imagenet_bs128_224.py',
    '../_base_/schedules/imagenet_adamw_300e.py', '../_base_/default_runtime.py'
]

# A region of the map attends 1, 4 and 16 of 7 x 7 regions in the first three stages, and all of them in the last one.
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='ABCD',
        mixers=dict(
            A=dict(type='BiLevelRoutingAttention', topk=1),
            B=dict(type='BiLevelRoutingAttention', topk=4),
            C=dict(type='BiLevelRoutingAttention', topk=16),
            D=dict(type='SoftmaxAttention', lepe_kernel=5)),
        img_size=224,
        drop_path_rate=0.2),
    head=dict(in_channels=768))
