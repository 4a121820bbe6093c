"""Operators of a training step: each launches at least one kernel on a GPU, so their number must
not grow unseen.
"""

import pytest
import torch

from mmflatten.models import backbones
from tests.test_ops.test_kernels import closed_form
from tests.test_ops.test_kernels.launches import Launches

closed_form.register()

# the depths of the tiny models
SWIN = dict(arch=dict(embed_dims=32, depths=(2, 2, 6, 2), num_heads=(1, 2, 4, 8)))


@pytest.fixture
def as_on_gpu(monkeypatch):
    """Use the fused operator, as on a GPU."""
    monkeypatch.setattr(
        'mmflatten.ops.linear.kernels.attention.pick_kernel', lambda *args, **kwargs: True
    )


def build(name, settings):
    torch.manual_seed(0)
    return getattr(backbones, name)(
        **settings, drop_path_rate=0.2, out_indices=(3,)
    ).train(), torch.randn(2, 3, 64, 96)


def step(model, x):
    with torch.autocast('cpu', torch.bfloat16):
        y = model(x)[-1].float()
    y.square().mean().backward()
    return y, {key: parameter.grad for key, parameter in model.named_parameters()}


@pytest.mark.parametrize(
    'name, settings, limit',
    [
        ('FLattenSwin', SWIN, 1120),
        ('FLattenPVT', dict(arch='tiny'), 778),
        ('L2ViT', SWIN, 1096),
        ('FLattenPVTv2', dict(arch='b1'), 790),
        ('FLattenCSwin', SWIN, 1046),
    ],
)
def test_training_step_has_few_operators(name, settings, limit, as_on_gpu):
    inputs = build(name, settings)
    step(*inputs)  # keeps the weights that resize tables
    inputs[0].zero_grad()
    with Launches() as launches:
        step(*inputs)
    most = sorted(launches.names.items(), key=lambda item: -item[1])[:12]
    assert sum(launches.names.values()) <= limit, most
