"""Fashion-MNIST in memory: trained on 50,000 images, chosen on 10,000 others, tested on the 10,000
of the test file.

Needs the four files (`docs/datasets.md` says from where), no images on disk. 32 images per batch,
not augmented.
"""

custom_imports = dict(imports=['mmflatten_lab.datasets', 'mmflatten_lab.models'])
dataset_type = 'mmflatten.FashionTensors'
image_size = 28
data_preprocessor = dict(num_classes=10, mean=[72.94] * 3, std=[90.02] * 3, to_rgb=False)

train_dataloader = dict(
    batch_size=32,
    num_workers=0,
    collate_fn=dict(type='default_collate'),
    sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(type=dataset_type, split='train', indices=50000),
)
val_dataloader = dict(
    batch_size=500,
    num_workers=0,
    collate_fn=dict(type='default_collate'),
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(type=dataset_type, split='train', indices=-10000),
)
test_dataloader = dict(
    batch_size=500,
    num_workers=0,
    collate_fn=dict(type='default_collate'),
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(type=dataset_type, split='val'),
)

val_evaluator = dict(type='Accuracy', topk=(1,))
test_evaluator = val_evaluator
