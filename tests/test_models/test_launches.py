"""Operators of a training step: each launches at least one kernel on a GPU, so their number must not grow unseen."""
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mmflatten.models import backbones
from tests.test_ops.test_kernels import closed_form

closed_form.register()

# Kernels and sums of the launchers, forward and backward, for the focused map.
FUSED = {'mmflatten::linear_attention': 5, 'mmflatten::linear_attention_backward': 11}
NOTHING = ('empty', '_unsafe_view', 'detach', 'sym_')  # launch no kernel


class Launches(TorchDispatchMode):
    """Count operators that compute something: neither views nor allocations."""

    def __init__(self):
        super().__init__()
        self.names = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name, returns = function._schema.name, function._schema.returns
        is_view = returns and returns[0].alias_info is not None and not returns[0].alias_info.is_write
        if not is_view and not any(part in name for part in NOTHING):
            self.names[name] = self.names.get(name, 0) + FUSED.get(name, 1)
        return function(*args, **(kwargs or {}))


SWIN = dict(arch=dict(embed_dims=32, depths=(2, 2, 6, 2), num_heads=(1, 2, 4, 8)))  # the depths of the tiny models


@pytest.fixture
def as_on_gpu(monkeypatch):
    """Use the fused operator and cast weights together, as on a GPU."""
    monkeypatch.setattr('mmflatten.ops.kernels.attention.pick_kernel', lambda *args, **kwargs: True)
    monkeypatch.setattr('mmflatten.models.layers.linear._casts_together', lambda x: torch.is_grad_enabled())


def build(name, settings):
    torch.manual_seed(0)
    return getattr(backbones, name)(**settings, drop_path_rate=.2, out_indices=(3,)).train(), torch.randn(2, 3, 64, 96)


def step(model, x):
    with torch.autocast('cpu', torch.bfloat16):
        y = model(x)[-1].float()
    y.square().mean().backward()
    return y, {key: parameter.grad for key, parameter in model.named_parameters()}


@pytest.mark.parametrize('name, settings, limit', [
    ('FLattenSwin', SWIN, 965), ('FLattenPVT', dict(arch='tiny'), 690), ('L2ViT', SWIN, 970),
    ('FLattenPVTv2', dict(arch='b1'), 715), ('FLattenCSwin', SWIN, 910)])
def test_training_step_has_few_operators(name, settings, limit, as_on_gpu):
    inputs = build(name, settings)
    with Launches() as launches:
        step(*inputs)
    most = sorted(launches.names.items(), key=lambda item: -item[1])[:12]
    assert sum(launches.names.values()) <= limit, most


@pytest.mark.parametrize('settings', [dict(attn_types='LLSS'), dict(with_cp=True)])
def test_weights_cast_together_give_the_values_and_gradients_of_autocast(settings, as_on_gpu, monkeypatch):
    y, grads = step(*build('FLattenSwin', dict(SWIN, **settings)))
    monkeypatch.setattr('mmflatten.models.layers.linear._casts_together', lambda x: False)
    expected, expected_grads = step(*build('FLattenSwin', dict(SWIN, **settings)))
    torch.testing.assert_close(y, expected, rtol=0, atol=0)
    torch.testing.assert_close(grads, expected_grads, rtol=0, atol=0)
