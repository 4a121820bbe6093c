"""L2ViT-B on ImageNet-1k, fine-tuned for 30 epochs from ImageNet-22k.

L2ViT, Table 3: 86.0 % top-1, 89 M parameters, 15.9 G FLOPs. Not run by this project. Recipe: sec. 7 of the paper.
"""
_base_ = [
    '../_base_/models/classifier.py', '../_base_/datasets/imagenet_bs128_224.py',
    '../_base_/schedules/l2vit_in22k-pre_30e.py', '../_base_/default_runtime.py'
]
# A checkpoint of l2vit-b_32xb128_in22k.py, or the official one after tools/convert_checkpoint.py. `load_from` takes
# what fits: the backbone. The head of 21 841 classes does not, MMEngine says so (head.fc), and the one of 1000 classes
# starts anew. No map from 22k to 1k classes is used.
load_from = 'checkpoints/l2vit-b_in22k.pth'

model = dict(
    backbone=dict(type='mmflatten.L2ViT', arch='base', img_size=224, window_size=7, drop_path_rate=0.2),
    head=dict(in_channels=1024))

train_dataloader = dict(batch_size=64)
