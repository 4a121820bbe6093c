"""COCO 2017 panoptic segments with large-scale jitter: resized by 0.1 to 2.0 of 640 and cropped;
tested with a longer side of 640.

EoMT's crops (Kerssies et al., CVPR 2025), which are padded to squares. The padding is void.
"""

_base_ = ['./coco_panoptic.py']

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='mmflatten.LoadPanopticAnnotations'),
    dict(type='RandomFlip', prob=0.5),
    dict(type='RandomResize', scale=(640, 640), ratio_range=(0.1, 2.0), keep_ratio=True),
    dict(
        type='RandomCrop',
        crop_type='absolute',
        crop_size=(640, 640),
        recompute_bbox=True,
        allow_negative_crop=True,
    ),
    dict(type='Pad', size=(640, 640), pad_val=dict(img=(114, 114, 114), seg=255)),
    dict(type='PackDetInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(640, 640), keep_ratio=True),
    # After the resize: drawings and files have the size of the original image.
    dict(type='mmflatten.LoadPanopticAnnotations'),
    dict(
        type='PackDetInputs',
        meta_keys=('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor'),
    ),
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
