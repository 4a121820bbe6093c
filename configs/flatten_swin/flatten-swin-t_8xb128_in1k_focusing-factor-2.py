"""FLatten-Swin-T with focusing factor 2 instead of 3.

FLatten Transformer, Table 5: 82.03 % top-1 (82.11 with factor 3). Not run by this project.
"""

_base_ = ['./flatten-swin-t_8xb128_in1k.py']

model = dict(
    backbone=dict(
        linear_attention=dict(type='FocusedLinearAttention', focusing_factor=2, kernel_size=5)
    )
)
