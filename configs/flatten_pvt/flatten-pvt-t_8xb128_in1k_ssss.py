"""PVT-T as FLatten's code has it: softmax attention in all stages, mean pooling without class token
or norm.

No paper reports it: the PVT rows of FLatten's Table 8 quote PVT's paper, whose model and recipe are
those of pvt-t_8xb128_in1k.py. Not run by this project. Trained like FLatten-PVT-T. The larger
sizes: `--cfg-options model.backbone.attn_types=SSSS` with their FLatten-PVT.
"""

_base_ = ['./flatten-pvt-t_8xb128_in1k.py']

model = dict(backbone=dict(attn_types='SSSS'))
