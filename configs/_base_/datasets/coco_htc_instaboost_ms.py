"""coco_htc_ms.py with InstaBoost, which moves instances about within their images before anything
else is read.

mmdet 3 still has the transform, and it imports; building it needs the package `instaboostfast`,
which this project does not install: `pip install --no-deps instaboostfast`, beside scikit-image
(0.1.2 works with NumPy 2.2). It leaves the stuff maps as they are. Without `--no-deps` it brings an
OpenCV of its own over the one that is installed.
"""

_base_ = ['./coco_htc_ms.py']

train_pipeline = [
    _base_.train_pipeline[0],
    # mmdet's own settings, which are those of InstaBoost's authors.
    dict(
        type='InstaBoost',
        action_candidate=('normal', 'horizontal', 'skip'),
        action_prob=(1, 0, 0),
        scale=(0.8, 1.2),
        dx=15,
        dy=15,
        theta=(-1, 1),
        color_prob=0.5,
        hflag=False,
        aug_ratio=0.5,
    ),
    *_base_.train_pipeline[1:],
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
