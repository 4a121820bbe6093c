"""FLatten-Swin-T with focusing factor 8 instead of 3.

FLatten Transformer, Table 5: 81.99 % top-1 (82.11 with factor 3). Not run by this project.
"""

_base_ = ['./flatten-swin-t_8xb128_in1k.py']

model = dict(
    backbone=dict(
        linear_attention=dict(type='FocusedLinearAttention', focusing_factor=8, kernel_size=5)
    )
)
