"""ImageNet-1k at 384 for fine-tuning: 32 images per GPU, evaluated on the whole image squeezed to 384 x 384.

FLatten-Swin and L2ViT test this way at 384. Training augmentation as at 224.
"""
_base_ = ['./imagenet_bs128_224.py']

image_size = 384
bgr_mean = [103.53, 116.28, 123.675]
bgr_std = [57.375, 57.12, 58.395]
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='RandomResizedCrop', scale=image_size, backend='pillow', interpolation='bicubic'),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(
        type='RandAugment',
        policies='timm_increasing',
        num_policies=2,
        total_level=10,
        magnitude_level=9,
        magnitude_std=0.5,
        hparams=dict(pad_val=[round(x) for x in bgr_mean], interpolation='bicubic')),
    dict(
        type='RandomErasing',
        erase_prob=0.25,
        mode='rand',
        min_area_ratio=0.02,
        max_area_ratio=1 / 3,
        fill_color=bgr_mean,
        fill_std=bgr_std),
    dict(type='PackInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(
        type='Resize', scale=(image_size, image_size), keep_ratio=False, backend='pillow', interpolation='bicubic'),
    dict(type='PackInputs'),
]
tta_pipeline = [
    *test_pipeline[:-1],
    dict(
        type='TestTimeAug',
        transforms=[[dict(type='RandomFlip', prob=1.), dict(type='RandomFlip', prob=0.)], [dict(type='PackInputs')]]),
]
train_dataloader = dict(batch_size=32, dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(batch_size=32, dataset=dict(pipeline=test_pipeline))
test_dataloader = dict(batch_size=32, dataset=dict(pipeline=test_pipeline))
