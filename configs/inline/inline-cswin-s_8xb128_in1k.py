"""InLine-CSwin-S on ImageNet-1k.

InLine, README: 83.8 % top-1, 43 M parameters. Not run by this project. Inferred: it trains like
FLatten-CSwin-S, of the same lab; the drop path is the authors'. The depths are its own.
"""

_base_ = ['./inline-cswin-t_8xb256_in1k.py']

model = dict(
    backbone=dict(
        arch=dict(_delete_=True, embed_dims=64, depths=(3, 6, 29, 2), num_heads=(2, 4, 8, 16)),
        drop_path_rate=0.4,
    )
)

train_dataloader = dict(batch_size=128)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 1024 / 512))
auto_scale_lr = dict(base_batch_size=1024)
