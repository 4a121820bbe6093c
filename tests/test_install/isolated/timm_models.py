"""Build a model of timm and run it; as a script where there are torch, einops, mmengine and
timm.
"""

import timm
import torch

import mmflatten.timm  # noqa: F401  registers the models

image = torch.rand(1, 3, 64, 64)
arch = dict(embed_dims=16, depths=(1, 1), num_heads=(1, 2))
logits = timm.create_model('flatten_swin_tiny', arch=arch, attn_types='LS', num_classes=5)(image)
logits.mean().backward()
print('timm_models run')
