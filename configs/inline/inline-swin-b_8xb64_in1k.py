"""InLine-Swin-B on ImageNet-1k.

InLine, README: 84.1 % top-1. Not run by this project. The first two blocks of its third stage are
linear. Inferred: it trains like FLatten-Swin-B, of the same lab; the drop path is the authors'.
"""

_base_ = ['./inline-swin-t_8xb128_in1k.py']

model = dict(
    backbone=dict(arch='base', attn_types='LLMS2', drop_path_rate=0.5), head=dict(in_channels=1024)
)

train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 512 / 512))
auto_scale_lr = dict(base_batch_size=512)
