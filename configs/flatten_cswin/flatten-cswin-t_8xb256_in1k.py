"""FLatten-CSwin-T on ImageNet-1k.

FLatten Transformer, Table 8: 83.1 % top-1 (the authors' log: 83.130), 21 M parameters, 4.3 G FLOPs.
Not run by this project. Recipe: the official `cfgs/flatten_cswin_*.yaml` and `main_ema.py` on 8
GPUs, as the authors' README runs them. Evaluated like FLatten's code: squeezed to a square of 256,
then the centre.
"""

_base_ = ['../_base_/recipes/flatten-cswin_310e_in1k.py']

# The first two stages attend linearly over the whole map; the paper's Table 15 gives their windows
# as 3 x 3. They have more blocks than CSwin-T's (2, 4, 18, 1 in place of 1, 2, 21, 1).
model = dict(
    backbone=dict(
        type='mmflatten.FLattenCSwin',
        arch='tiny',
        attn_types='LLSS',
        img_size=224,
        drop_path_rate=0.2,
    ),
    head=dict(in_channels=512),
)
