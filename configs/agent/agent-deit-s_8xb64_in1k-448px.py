"""Agent-DeiT-S on ImageNet-1k at 448 x 448.

Agent Attention, README: 83.1 % top-1, 23.1 M parameters, 17.7 G FLOPs. Not run by this project.
Inferred: it trains like DeiT, with the drop path of this size at 224. The images per GPU are the
authors'.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k-448px.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='small',
        attn_types='L',
        linear_attention=dict(type='AgentAttention', num_agents=49, num_prefix=1),
        img_size=448,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=384),
)

train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 512 / 512))
auto_scale_lr = dict(base_batch_size=512)
