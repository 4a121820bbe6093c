"""InLine-CSwin-T on ImageNet-1k.

InLine, README: 83.2 % top-1, 25 M parameters. Not run by this project. Inferred: it trains like
FLatten-CSwin-T, of the same lab; the drop path is the authors'. The image's own convolution sees
the block's input behind its norm, the official one before it.
"""

_base_ = [
    '../_base_/models/classifier.py',
    '../_base_/datasets/imagenet_bs128_flatten_224.py',
    '../_base_/schedules/imagenet_adamw_310e_flatten-cswin.py',
    '../_base_/default_runtime.py',
]

model = dict(
    backbone=dict(
        type='mmflatten.FLattenCSwin',
        arch='tiny',
        attn_types='LLSS',
        linear_attention=dict(type='InLineAttention'),
        img_size=224,
        drop_path_rate=0.2,
    ),
    head=dict(in_channels=512),
)

train_dataloader = dict(batch_size=256)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 2048 / 512))
auto_scale_lr = dict(base_batch_size=2048)
