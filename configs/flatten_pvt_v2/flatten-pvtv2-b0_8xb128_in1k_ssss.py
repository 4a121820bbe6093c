"""PVTv2-B0 with softmax attention in all stages, trained by FLatten's recipe.

No paper reports it: the PVTv2 rows of FLatten's Table 8 quote PVTv2's paper, whose recipe is that
of pvtv2-b0_8xb128_in1k.py. Not run by this project. Trained like FLatten-PVTv2-B0. The larger
sizes: `--cfg-options model.backbone.attn_types=SSSS` with their FLatten-PVTv2.
"""

_base_ = ['./flatten-pvtv2-b0_8xb128_in1k.py']

model = dict(backbone=dict(attn_types='SSSS'))
