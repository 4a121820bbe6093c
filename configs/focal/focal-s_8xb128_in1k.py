"""Focal-S on ImageNet-1k.

Focal Transformer, Table 2: 83.5 % top-1 (the authors' README: 83.6), 51.1 M parameters, 9.1 G
FLOPs. Not run by this project. Recipe: the released yaml's, drop path 0.3.
The paper's text differs (sec. 4.1): no random erasing, warm-up from 1e-5, drop path 0.2.
Its reading: `--cfg-options model.backbone.drop_path_rate=0.2 param_scheduler.0.start_factor=0.01
train_dataloader.dataset.pipeline.4.erase_prob=0`.
"""

_base_ = ['./focal-t_8xb128_in1k.py']

model = dict(backbone=dict(arch='small', drop_path_rate=0.3))
