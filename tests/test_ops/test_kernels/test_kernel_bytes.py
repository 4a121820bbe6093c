"""Launches of the kernels, recorded on the meta device: memory traffic, devices and types of
sums.
"""

from contextlib import contextmanager

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mmflatten.ops.linear.kernels import has_triton

if not has_triton():
    pytest.skip(
        'Triton 3.6 or newer is not installed, which has no wheels outside Linux',
        allow_module_level=True,
    )

from gpu_sheet.compiled import attention_launches

from mmflatten.measure.flops.rules import is_free
from mmflatten.ops.linear.kernels import attention, fused_linear_attention, launch, launch_attention
from mmflatten.ops.linear.kernels.options import Options
from mmflatten.ops.linear.kernels.tile_table import EAGER_BYTES
from tests.test_ops.test_kernels.launches import FUSED, Launches

FORWARD = ['norms_kernel', 'norms_kernel', 'state_kernel', 'output_kernel']
BACKWARD = [
    'state_backward_kernel',
    'query_backward_kernel',
    'value_backward_kernel',
    'key_backward_kernel',
]


def bytes_of(tensors):
    sizes = {
        id(x): x.numel() * x.element_size()
        for x in tree_leaves(tensors)
        if isinstance(x, torch.Tensor)
    }
    return sum(sizes.values())


@pytest.mark.parametrize(
    'feature_map, heads, tokens, forward, backward',
    [('focused', 3, 3136, 14, 22), ('focused', 12, 784, 14, 22), ('relu', 6, 3136, 8, 20)],
)
def test_kernels_move_documented_bytes(feature_map, heads, tokens, forward, backward):
    parts = attention_launches(feature_map, heads, 32, tokens=tokens)
    names = FORWARD if feature_map == 'focused' else FORWARD[2:]
    expectations = ((names, forward), (BACKWARD, backward))
    for part, (kernels, expected) in zip(parts, expectations, strict=True):
        assert [call.name for call in part] == kernels
        moved = sum(bytes_of(call.arguments) for call in part) / (128 * tokens * heads * 32)
        assert expected <= moved < expected + 2.5


class Traffic(TorchDispatchMode):
    """Bytes that PyTorch's operators read and write."""

    total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not is_free(func):
            self.total += bytes_of((args, out))
        return out


@pytest.mark.parametrize('feature_map', EAGER_BYTES)
def test_eager_attention_moves_the_bytes_that_the_choice_assumes(feature_map):
    q, k, v = (
        torch.empty(8, 784, 192, dtype=torch.bfloat16, device='meta').requires_grad_()
        for _ in range(3)
    )
    rescale = torch.empty(192, device='meta') if feature_map == 'focused' else None
    with Traffic() as traffic:
        y = fused_linear_attention(q, k, v, 6, feature_map=feature_map, rescale_C=rescale)
        torch.autograd.grad(y, (q, k, v), torch.empty_like(y))
    assert EAGER_BYTES[feature_map] <= traffic.total / q.numel() < 1.1 * EAGER_BYTES[feature_map]


def test_kernels_are_launched_on_the_device_of_their_tensors(monkeypatch):
    active, launched = [], []

    @contextmanager
    def device_of(tensor):
        active.append(tensor)
        yield
        active.clear()

    monkeypatch.setattr(torch.cuda, 'device_of', device_of)
    monkeypatch.setattr(
        launch, 'run', lambda kernel, grid, **arguments: launched.append(list(active))
    )
    q, k, v = torch.randn(3, 1, 1, 4, 16).unbind()
    options = ('relu', 1, 1e-6, 0.0)
    _, *saved = attention._forward._init_fn(q, k, v, *[None] * 5, *options)
    attention._backward._init_fn(torch.randn(1, 4, 1, 16), q, k, v, *[None] * 4, *saved, *options)
    assert len(launched) == 2 + 4
    assert all(len(x) == 1 and x[0] is q for x in launched)
    assert not active


# one chunk per head needs no sum of its state
@pytest.mark.parametrize('images, saved', [(2, 0), (128, 2)])
def test_launchers_need_the_launches_that_are_counted_for_a_model(images, saved):
    with Launches() as launches:
        parts = attention_launches('focused', 3, 32, images=images)
    del launches.names['aten::clone']  # this call's tensors have another layout than a model's
    assert sum(map(len, parts)) + sum(launches.names.values()) == sum(FUSED.values()) - saved


def test_partial_sums_are_float32():
    backward = attention_launches('focused', 3, 32, torch.float16, tokens=784, images=2)[1]
    partial = 0
    for call in backward:
        for name, tensor in call.arguments.items():
            if name.startswith('partial'):
                assert tensor.dtype == torch.float32
                partial += 1
    assert partial == 3


def test_loops_with_products_have_one_stage():
    for part in attention_launches('focused', 3, 32):
        assert {call.arguments['num_stages'] for call in part} == {1}


@pytest.mark.parametrize(
    'feature_map, N, M', [('focused', 49, 49), ('focused', 196, 49), ('relu', 49, 49)]
)
def test_kernels_return_the_shapes_of_the_operator(feature_map, N, M, monkeypatch):
    monkeypatch.setattr(launch, 'run', lambda *args, **kwargs: None)
    q, k, v = (
        torch.empty(2, 3, tokens, 32, dtype=torch.bfloat16, device='meta') for tokens in (N, M, M)
    )
    rescale = torch.empty(3, 32, device='meta') if feature_map == 'focused' else None
    inputs, options = (q, k, v, None, rescale, None, None), (feature_map, 3, 1e-6, 0.0)
    y, *saved = launch_attention.forward(*inputs, None, Options(*options))
    expected = attention._forward_shapes(*inputs, None, *options)
    assert [(x.shape, x.dtype) for x in (y, *saved)] == [(x.shape, x.dtype) for x in expected]
    gradients = launch_attention.backward(y, *inputs, *saved, Options(*options))
    expected = attention._backward_shapes(y, *inputs, *saved, *options)
    assert [(x.shape, x.dtype) for x in gradients] == [(x.shape, x.dtype) for x in expected]
