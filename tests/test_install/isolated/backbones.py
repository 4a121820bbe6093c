"""Build every backbone and run it forward and backward. Requires torch, einops and mmengine."""

import os

import torch

environment = dict(os.environ)

from mmflatten.models import backbones  # noqa: E402
from mmflatten.registry import MODELS  # noqa: E402

assert os.environ == environment  # a library leaves the choice of threads to its user


def shallow(name: str) -> dict:
    """Return the first architecture of a backbone with one or two blocks of each kind."""
    arch = dict(next(iter(getattr(backbones, name).archs.values())))
    if 'depths' in arch:
        arch['depths'] = (2, 1, 1, 1)
    else:
        arch['depth'] = 2
    return arch


image = torch.rand(1, 3, 64, 96)
for name in backbones.__all__:
    model = MODELS.build(dict(type=f'mmflatten.{name}', arch=shallow(name)))
    model.init_weights()
    sum(output.mean() for output in model(image)).backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert gradients and all(gradient.isfinite().all() for gradient in gradients), name
print(f'{len(backbones.__all__)} backbones run')
