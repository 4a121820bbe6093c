"""COCO 2017 boxes, masks and stuff maps for HTC with Swin-L or Focal-L: many scales up to 1600 x 1400.

Folders as in coco_instance.py, and the stuff maps of COCO-Stuff: data/coco/stuffthingmaps/train2017/*.png
Trained with the shorter side at 400 to 1400 and the longer one at 1600 at most; tested at 2100 x 1400; with --tta at
six scales, each mirrored too (Focal Transformer, appendix A.2).
"""
_base_ = ['./coco_instance.py']

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True, with_mask=True, with_seg=True),
    dict(type='RandomResize', scale=[(1600, 400), (1600, 1400)], keep_ratio=True),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PackDetInputs'),
]
meta_keys = ('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor', 'flip', 'flip_direction')
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(2100, 1400), keep_ratio=True),
    dict(type='LoadAnnotations', with_bbox=True, with_mask=True),
    dict(type='PackDetInputs', meta_keys=meta_keys[:5]),
]
tta_scales = [(1800, 1200), (1950, 1300), (2100, 1400), (2200, 1450), (2250, 1500), (2400, 1600)]
tta_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(
        type='TestTimeAug',
        transforms=[
            [dict(type='Resize', scale=scale, keep_ratio=True) for scale in tta_scales],
            [dict(type='RandomFlip', prob=1.), dict(type='RandomFlip', prob=0.)],
            [dict(type='LoadAnnotations', with_bbox=True)],
            [dict(type='PackDetInputs', meta_keys=meta_keys)],
        ]),
]
train_dataloader = dict(
    dataset=dict(data_prefix=dict(seg='stuffthingmaps/train2017/'), pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
