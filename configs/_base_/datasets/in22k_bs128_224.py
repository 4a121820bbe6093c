"""ImageNet-22k (the whole of ImageNet, 21 841 classes) at 224; otherwise as imagenet_bs128_224.py.

data/imagenet22k/{train,val}/<class>/*.JPEG. ImageNet-22k has no validation set of its own: move
some images of every class to val/, or train with `--no-validate`. Labels are the classes in
alphabetical order, so both folders need all of them, empty ones too. Listing 14 million files takes
long: where data/imagenet22k/meta/train.txt exists, with lines such as `n00004475/n00004475_1.JPEG
0`, the training images are read from it.
"""

_base_ = ['./imagenet_bs128_224.py']

dataset_type = 'ImageNet21k'
data_root = 'data/imagenet22k'
data_preprocessor = dict(num_classes=21841)

train_dataloader = dict(dataset=dict(type=dataset_type, data_root=data_root))
val_dataloader = dict(
    dataset=dict(type=dataset_type, data_root=data_root, split='', data_prefix='val')
)
test_dataloader = val_dataloader
