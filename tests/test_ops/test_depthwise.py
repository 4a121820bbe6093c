"""Depthwise convolution against PyTorch's own, values and gradients."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from mmflatten.ops import depthwise


def tensors(B, C, H, W, side, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    shapes = [(B, H, W, C), (C, 1, side, side), (C,)]
    x, weight, bias = (torch.randn(shape, generator=generator).to(dtype) for shape in shapes)
    return [tensor.requires_grad_() for tensor in (x.permute(0, 3, 1, 2), weight, bias)]


def own(x, weight, bias):
    padding = weight.shape[-1] // 2
    return F.conv2d(x, weight, bias, padding=padding, groups=x.shape[1])


@pytest.mark.parametrize('bias', [True, False])
@pytest.mark.parametrize('size', [(1, 1, 1, 1, 5), (2, 6, 9, 11, 5), (3, 4, 3, 2, 7)])
def test_values_and_gradients(size, bias):
    inputs = tensors(*size)
    if not bias:
        inputs[2] = None
    needed = [x for x in inputs if x is not None]
    results = []
    assert depthwise.has_fast_gradient(*inputs[:2])
    for function in (depthwise.depthwise_conv, own):
        y = function(*inputs)
        weight = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
        results.append([y, *torch.autograd.grad((y * weight).sum(), needed)])
    torch.testing.assert_close(*results)


def test_first_and_second_derivatives():
    inputs = tensors(2, 2, 4, 3, 5)
    assert torch.autograd.gradcheck(depthwise.depthwise_conv, inputs)
    assert torch.autograd.gradgradcheck(depthwise.depthwise_conv, inputs)


def test_half_precision_and_autocast():
    """Errors of the gradient are those of PyTorch's own, against float64."""
    half = tensors(4, 8, 28, 28, 5, torch.bfloat16)
    exact = [x.detach().double().requires_grad_() for x in half]
    wide = [x.detach().float().requires_grad_() for x in half]
    expected = torch.autograd.grad(own(*exact).square().sum(), exact)
    with torch.autocast('cpu', dtype=torch.bfloat16):
        y = depthwise.depthwise_conv(*wide)
    assert y.dtype == torch.bfloat16
    found = [
        torch.autograd.grad(depthwise.depthwise_conv(*half).float().square().sum(), half),
        torch.autograd.grad(y.float().square().sum(), wide),
    ]
    for gradients in found:
        for gradient, exact_gradient in zip(gradients, expected):
            error = (gradient.double() - exact_gradient).norm() / exact_gradient.norm()
            assert error < 2**-7
    assert [gradient.dtype for gradient in found[1]] == [torch.float32] * 3


def test_weights_alone_or_the_map_alone_need_a_gradient():
    x, weight, _ = tensors(2, 3, 5, 5, 5)
    gradient = torch.autograd.grad(depthwise.depthwise_conv(x.detach(), weight).sum(), weight)
    expected = torch.autograd.grad(own(x.detach(), weight, None).sum(), weight)
    torch.testing.assert_close(gradient, expected)
    assert not depthwise.has_fast_gradient(x, weight.detach())


@pytest.mark.parametrize('function', [depthwise.depthwise_conv, own])
def test_transforms_of_functions(function):
    x, weight, bias = (tensor.detach() for tensor in tensors(3, 4, 6, 5, 5))

    def loss(weight):
        return function(x, weight, bias).square().sum()

    gradient = torch.func.grad(loss)(weight)
    tangent = torch.linspace(-1, 1, weight.numel(), dtype=weight.dtype).view(weight.shape)
    _, derivative = torch.func.jvp(loss, (weight,), (tangent,))
    torch.testing.assert_close(derivative, (gradient * tangent).sum())
    maps = torch.stack((x, 2 * x))
    found = torch.vmap(lambda x: function(x, weight, bias))(maps)
    torch.testing.assert_close(found[1], own(2 * x, weight, bias))


def test_where_it_is_used():
    x, weight, _ = tensors(1, 2, 4, 4, 5)
    small = torch.ones(2, 1, 3, 3, requires_grad=True)
    assert depthwise.has_fast_gradient(x, weight)
    assert not depthwise.has_fast_gradient(x, small)
    assert not depthwise.has_fast_gradient(x.to('meta'), weight)
    assert not depthwise.has_fast_gradient(x[:0], weight)
    with torch.no_grad():
        assert not depthwise.has_fast_gradient(x, weight)
    with FlopCounterMode(display=False):
        assert not depthwise.has_fast_gradient(x, weight)
