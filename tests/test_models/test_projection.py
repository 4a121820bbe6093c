"""Which product projects tokens: measured once, chosen by an environment variable, and only in plain inference."""
from collections.abc import Callable, Iterator
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch.profiler import profile
from torch.utils.flop_counter import FlopCounterMode

from mmflatten.models.layers import FeedForward, FullRangeLinear, Linear, TokenConv, linear
from mmflatten.models.layers.linear import gelu_of

ONEDNN = hasattr(torch.ops.mkldnn, '_linear_pointwise')
pytestmark = pytest.mark.skipif(not ONEDNN, reason='PyTorch was built without oneDNN')


@pytest.fixture(autouse=True)
def measured_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(linear.CHOICE, raising=False)
    linear.onednn_pays.cache_clear()
    yield
    linear.onednn_pays.cache_clear()


def takes_onednn(call: Callable[[], object]) -> bool:
    with profile() as profiler:
        call()
    return any('_linear_pointwise' in event.key for event in profiler.key_averages())


@pytest.mark.parametrize('bias', [True, False])
@pytest.mark.parametrize('shape', [(7,), (2, 3, 5, 7), (0, 5, 7)])
def test_both_products_are_equal(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], bias: bool) -> None:
    monkeypatch.setenv(linear.CHOICE, 'onednn')
    torch.manual_seed(0)
    layer, x = Linear(7, 6, bias=bias), torch.randn(shape)
    for tokens in (x, torch.randn(*shape[:-1], 14)[..., ::2]):
        with torch.inference_mode():
            torch.testing.assert_close(layer(tokens), F.linear(tokens, layer.weight, layer.bias), rtol=1e-6, atol=1e-6)
    with torch.no_grad():
        assert takes_onednn(lambda: layer(x)) == bool(x.numel())
        parts = [Linear.project(x, *part) for part in layer.parts([1, 5])]
        torch.testing.assert_close(torch.cat(parts, dim=-1), layer(x))


def test_gelu_is_part_of_onednns_product(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layer, x = Linear(7, 6), 4 * torch.randn(2, 3, 7)
    expected = F.gelu(F.linear(x.double(), layer.weight.double(), layer.bias.double())).float()
    for choice in ('linear', 'onednn'):
        monkeypatch.setenv(linear.CHOICE, choice)
        linear.onednn_pays.cache_clear()
        with torch.no_grad(), profile() as profiler:
            torch.testing.assert_close(gelu_of(layer, x), expected, rtol=1e-6, atol=1e-6)
        assert ('aten::gelu' in [event.key for event in profiler.key_averages()]) == (choice == 'linear')


@pytest.mark.parametrize('num_groups', [1, 3])
def test_gelu_is_part_of_onednns_depthwise_convolution(num_groups: int) -> None:
    torch.manual_seed(0)
    layer, x = TokenConv(12, 3, num_groups), 4 * torch.randn(2, 1 + 5 * 7, 12)
    expected = F.gelu(deepcopy(layer).double()(x.double(), (5, 7))).float()
    for grad, allowed in ((True, True), (False, True), (False, False)):
        with torch.backends.mkldnn.flags(enabled=allowed), torch.set_grad_enabled(grad), profile() as profiler:
            torch.testing.assert_close(gelu_of(layer, x, (5, 7)), expected, rtol=1e-6, atol=2e-6)
        plain = 'aten::gelu' in [event.key for event in profiler.key_averages()]
        assert plain == (grad or not allowed or num_groups > 1)


@pytest.mark.parametrize('half', [False, True])
@pytest.mark.parametrize('autocast', [False, True])
def test_products_beyond_the_range_of_float16_are_projected_whole(half: bool, autocast: bool) -> None:
    layer = FullRangeLinear(8, 4)
    torch.nn.init.constant_(layer.weight, 1e-3)
    layer = layer.half() if half else layer
    with torch.no_grad(), torch.autocast('cpu', torch.float16, enabled=autocast):
        y = layer(torch.full((2, 8), 3e5))
    torch.testing.assert_close(y.float(), torch.full((2, 4), 2400.), rtol=1e-3, atol=1.)
    assert y.dtype == layer.weight.dtype


def test_hooks_and_other_layers_see_what_comes_before_gelu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(linear.CHOICE, 'onednn')
    ffn, x, seen = FeedForward(8, 16, TokenConv(16, 3)), torch.randn(2, 6, 8), []
    for layer in (ffn.fc1, ffn.inner.conv):
        layer.register_forward_hook(lambda module, inputs, output: seen.append(output))
    with torch.no_grad():
        y = ffn(x, (2, 3))
        torch.testing.assert_close(seen[0], F.linear(x, ffn.fc1.weight, ffn.fc1.bias))
        assert len(seen) == 2
        with torch.nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(module)):
            ffn(x, (2, 3))
        assert ffn.fc1 in seen and ffn.inner.conv in seen
        forward = ffn.fc1.forward
        ffn.fc1.forward = lambda x: seen.append('instead') or forward(x)  # as offloading does
        torch.testing.assert_close(ffn(x, (2, 3)), y)
        assert 'instead' in seen
        ffn.fc1 = torch.nn.Sequential(ffn.fc1)  # as tools do that wrap a layer
        torch.testing.assert_close(ffn(x, (2, 3)), y)


def test_forward_mode_derivatives_are_not_lost_without_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(linear.CHOICE, 'onednn')
    layer, x, tangent = Linear(7, 6), torch.randn(3, 7), torch.randn(3, 7)
    with torch.no_grad():
        _, found = torch.func.jvp(layer, (x,), (tangent,))
        torch.testing.assert_close(found, F.linear(tangent, layer.weight))


def test_gradients_graphs_counts_and_half_precision_keep_the_plain_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(linear.CHOICE, 'onednn')
    layer, x = Linear(8, 8), torch.randn(2, 3, 8)
    assert not takes_onednn(lambda: layer(x).sum().backward()) and layer.weight.grad is not None
    with torch.no_grad():
        assert takes_onednn(lambda: layer(x))
        assert '_linear_pointwise' not in str(torch.jit.trace(layer, x).inlined_graph)
        assert '_linear_pointwise' not in str(torch.export.export(layer, (x,)).graph)
        assert not takes_onednn(lambda: layer.double()(x.double()))
        layer.float()
        with FlopCounterMode(display=False) as counter:
            layer(x)
        assert counter.get_total_flops() == 2 * 6 * 64
        with torch.autocast('cpu', torch.bfloat16):
            assert layer(x).dtype == torch.bfloat16


def test_the_faster_product_is_measured_once_for_many_tokens_and_once_for_few(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def share_of_time(tokens: int, dims: int) -> float:
        asked.append(tokens)
        return .5 if tokens > linear.MANY_TOKENS else 1.5

    monkeypatch.setattr(linear, '_share_of_time', share_of_time)
    layer, many, few = Linear(4, 4), torch.randn(4, 1024, 4), torch.randn(4, 1023, 4)
    with torch.no_grad():
        assert [takes_onednn(lambda x=x: layer(x)) for x in (many, few, many, few)] == [True, False] * 2
    assert len(asked) == 2
    linear.onednn_pays(threads=1000, many_tokens=True)
    assert len(asked) == 3  # another number of threads is another machine


def test_measurement_ends_with_a_share_and_leaves_random_numbers_alone() -> None:
    state = torch.get_rng_state()
    assert 0.05 < linear._share_of_time(64, 16) < 20
    assert torch.equal(torch.get_rng_state(), state)


def test_environment_decides_and_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, '_share_of_time', lambda *_: pytest.fail('measured all the same'))
    layer, x = Linear(4, 4), torch.randn(2, 4)
    for choice, expected in (('linear', False), ('onednn', True)):
        monkeypatch.setenv(linear.CHOICE, choice)
        linear.onednn_pays.cache_clear()
        with torch.no_grad():
            assert takes_onednn(lambda: layer(x)) is expected
    monkeypatch.setenv(linear.CHOICE, 'fast')
    with pytest.raises(ValueError, match="MMFLATTEN_PROJECTION.*'fast'"):
        layer(x)  # in a training too, not only at its first validation
