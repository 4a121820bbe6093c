"""Build every backbone and run it forward and backward. Requires torch, einops and mmengine."""

import torch

from mmflatten.models import backbones
from mmflatten.registry import MODELS

image = torch.rand(1, 3, 64, 96)
for name in backbones.__all__:
    model = MODELS.build(dict(type=f'mmflatten.{name}'))
    model.init_weights()
    sum(output.mean() for output in model(image)).backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert gradients and all(gradient.isfinite().all() for gradient in gradients), name
print(f'{len(backbones.__all__)} backbones run')
