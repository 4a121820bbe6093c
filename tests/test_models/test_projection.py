"""The rule by which linear layers and depthwise convolutions use oneDNN, and the layers that
include GELU.
"""

from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch.profiler import profile
from torch.utils.flop_counter import FlopCounterMode

from mmflatten.models.layers import (
    ConvFeedForward,
    FeedForward,
    FullRangeLinear,
    Linear,
    LinearGELU,
    TokenConv,
)
from mmflatten.models.layers.token_conv import ConvGELU

needs_onednn = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason='PyTorch was built without oneDNN'
)


def operators(call: Callable[[], object]) -> str:
    """Names of the operators that a call runs."""
    with profile() as profiler:
        call()
    return ' '.join(event.key for event in profiler.key_averages())


@needs_onednn
@pytest.mark.parametrize('bias', [True, False])
@pytest.mark.parametrize('shape', [(7,), (2, 3, 5, 7), (0, 5, 7)])
def test_linear_equals_f_linear(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    layer, x = Linear(7, 6, bias=bias), torch.randn(shape)
    for tokens in (x, torch.randn(*shape[:-1], 14)[..., ::2]):
        with torch.inference_mode():
            torch.testing.assert_close(
                layer(tokens), F.linear(tokens, layer.weight, layer.bias), rtol=1e-6, atol=1e-6
            )
    with torch.no_grad():
        assert ('_linear_pointwise' in operators(lambda: layer(x))) == bool(x.numel())
        parts = [Linear.project(x, *part) for part in layer.parts([1, 5])]
        torch.testing.assert_close(torch.cat(parts, dim=-1), layer(x))


@needs_onednn
@pytest.mark.parametrize('layer', [Linear(8, 8), LinearGELU(8, 8), ConvGELU(8, 8, 1)])
def test_frozen_layers_are_inference_unless_something_before_or_in_them_learns(
    layer: torch.nn.Module,
) -> None:
    x = torch.randn(2, 8, 3, 3) if isinstance(layer, ConvGELU) else torch.randn(2, 8)
    layer.requires_grad_(False)
    assert '_pointwise' in operators(lambda: layer(x))
    layer.bias.requires_grad_(True)
    layer(x).sum().backward()
    assert layer.bias.grad is not None
    layer.bias.requires_grad_(False)
    x.requires_grad_(True)
    layer(x).sum().backward()
    assert x.grad is not None


@needs_onednn
@pytest.mark.parametrize('kind', ['linear', 'convolution'])
def test_gelu_is_fused_where_onednn_is_used(kind: str) -> None:
    torch.manual_seed(0)
    if kind == 'linear':
        layer, inputs = LinearGELU(12, 6), ()
        plain = Linear(12, 6)
    else:
        layer, inputs = TokenConv(12, 3, gelu=True), ((5, 7),)
        plain = TokenConv(12, 3)
    plain.load_state_dict(layer.state_dict())
    x = 4 * torch.randn(2, 1 + 5 * 7, 12)
    expected = F.gelu(deepcopy(plain).double()(x.double(), *inputs)).float()
    for grad, enabled in ((True, True), (False, True), (False, False)):
        with torch.backends.mkldnn.flags(enabled=enabled), torch.set_grad_enabled(grad):
            torch.testing.assert_close(layer(x, *inputs), expected, rtol=1e-6, atol=2e-6)
            assert ('aten::gelu' in operators(lambda: layer(x, *inputs))) == (grad or not enabled)


@pytest.mark.parametrize('half', [False, True])
@pytest.mark.parametrize('autocast', [False, True])
def test_full_range_linear_accepts_values_beyond_float16(half: bool, autocast: bool) -> None:
    layer = FullRangeLinear(8, 4)
    torch.nn.init.constant_(layer.weight, 1e-3)
    layer = layer.half() if half else layer
    with torch.no_grad(), torch.autocast('cpu', torch.float16, enabled=autocast):
        y = layer(torch.full((2, 8), 3e5))
    torch.testing.assert_close(y.float(), torch.full((2, 4), 2400.0), rtol=1e-3, atol=1.0)
    assert y.dtype == layer.weight.dtype


def test_linear_keeps_forward_mode_derivatives_without_gradients() -> None:
    layer, x, tangent = Linear(7, 6), torch.randn(3, 7), torch.randn(3, 7)
    with torch.no_grad():
        _, derivative = torch.func.jvp(layer, (x,), (tangent,))
        torch.testing.assert_close(derivative, F.linear(tangent, layer.weight))


@needs_onednn
def test_linear_uses_f_linear_outside_of_eager_float32_inference() -> None:
    layer, x = Linear(8, 8), torch.randn(2, 3, 8)
    assert '_linear_pointwise' not in operators(lambda: layer(x).sum().backward())
    assert layer.weight.grad is not None
    with torch.no_grad():
        assert '_linear_pointwise' in operators(lambda: layer(x))
        assert '_linear_pointwise' not in str(torch.jit.trace(layer, x).inlined_graph)
        assert '_linear_pointwise' not in str(torch.export.export(layer, (x,)).graph)
        assert '_linear_pointwise' not in operators(lambda: layer.double()(x.double()))
        layer.float()
        with FlopCounterMode(display=False) as counter:
            layer(x)
        assert counter.get_total_flops() == 2 * 6 * 64
        with torch.autocast('cpu', torch.bfloat16):
            assert layer(x).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ('make', 'message'),
    [
        (lambda: TokenConv(10, 3, num_groups=3), r'num_groups: .*\(10\), got 3'),
        (lambda: TokenConv(12, 3, num_groups=3, gelu=True), 'num_groups: .*gelu.* got 3'),
        (lambda: FeedForward(4, 8, TokenConv(8, 3)), 'inner: .*TokenConv'),
    ],
)
def test_layers_reject_invalid_arguments(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_convolution_in_a_feed_forward_network_skips_prefix_tokens():
    """EfficientViT: linear, GELU, 3 x 3 depthwise convolution, GELU, linear; the class token is not
    convolved.
    """
    ffn, x = ConvFeedForward(4, 8, act_twice=True, residual=False), torch.randn(2, 1 + 3 * 5, 4)
    hidden = F.gelu(F.linear(x, ffn.fc1.weight, ffn.fc1.bias))
    map_BCHW = hidden[:, 1:].transpose(1, 2).unflatten(2, (3, 5))
    convolved = F.conv2d(map_BCHW, ffn.conv.conv.weight, ffn.conv.conv.bias, padding=1, groups=8)
    hidden = torch.cat((hidden[:, :1], convolved.flatten(2).transpose(1, 2)), dim=1)
    expected = F.linear(F.gelu(hidden), ffn.fc2.weight, ffn.fc2.bias)
    torch.testing.assert_close(ffn(x, (3, 5)), expected)
