"""Mask R-CNN with DeiT nano on digit scenes of 160 pixels, tested at 1, 4 and 16 times the area.

Larger scenes hold more digits of the same sizes; `lab/scripts/larger_scenes.py` makes them, and
others for choosing. No table of positions; a 3 x 3 convolution before each block tells them. See
lab/docs/third_study.md.
"""

_base_ = [
    '../../../configs/_base_/models/mask-rcnn_fpn_nano.py',
    '../../../configs/_base_/datasets/digits_coco.py',
    '../../../configs/_base_/schedules/digits_6e.py',
    '../../../configs/_base_/default_runtime.py',
]
custom_imports = dict(imports=['mmflatten_lab.models'])
roots = ['data/digits/', 'data/digits-320/', 'data/digits-640/', 'data/digits-choice/']

model = dict(
    backbone=dict(
        type='mmflatten.ViT',
        arch=dict(embed_dims=64, depth=4, num_heads=2),
        attn_types='L',
        linear_attention=dict(type='SoftmaxAttention'),
        img_size=160,
        patch_size=8,
        out_type='featmap',
        with_cls_token=False,
        with_positions=False,
        cpe_kernel=3,
    ),
    neck=dict(
        _delete_=True,
        type='mmflatten.SimpleFeaturePyramid',
        in_channels=64,
        out_channels=48,
        scales=[2, 1, 0.5],
        num_outs=4,
    ),
    test_cfg=dict(rpn=dict(nms_pre=3200, max_per_img=800), rcnn=dict(max_per_img=320)),
)

test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale_factor=1.0, keep_ratio=True),  # as it is
    dict(type='LoadAnnotations', with_bbox=True, with_mask=True),
    dict(
        type='PackDetInputs',
        meta_keys=('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor'),
    ),
]
train_dataloader = dict(batch_size=4, num_workers=0, persistent_workers=False)
val_dataloader = None
val_evaluator = None
val_cfg = None
test_dataloader = dict(
    _delete_=True,
    batch_size=1,
    num_workers=0,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        type='ConcatDataset',
        datasets=[
            dict(
                type={{_base_.dataset_type}},
                data_root=root,
                metainfo={{_base_.metainfo}},
                ann_file='annotations/instances_val.json',
                data_prefix=dict(img='images/validation/'),
                test_mode=True,
                pipeline=test_pipeline,
            )
            for root in roots
        ],
    ),
)
test_evaluator = dict(
    _delete_=True,
    type='MultiDatasetsEvaluator',
    metrics=[
        dict(
            type='CocoMetric',
            ann_file=root + 'annotations/instances_val.json',
            metric=['bbox', 'segm'],
        )
        for root in roots
    ],
    dataset_prefixes=['1x', '4x', '16x', 'choice'],
)
