"""The depthwise convolution of tokens as a PyTorch operator, tested on the CPU."""
import pytest
import torch
from torch.testing import assert_close

from mmflatten.measure.flops import count_operations
from mmflatten.models.layers import TokenConv
from mmflatten.ops.kernels import token_convolution
from mmflatten.ops.kernels.convolution import _backward, _forward


@pytest.mark.parametrize('kernel_size, num_groups, prefix', [(3, 1, 0), (5, 3, 0), (5, 1, 2)])
def test_token_conv_fused_equals_eager(kernel_size, num_groups, prefix, monkeypatch):
    torch.manual_seed(0)
    layer = TokenConv(12, kernel_size, num_groups).double()
    x = torch.randn(2, 35 + prefix, 36, dtype=torch.float64).requires_grad_()

    def results():
        y = layer(x[..., 12:24], (5, 7))
        return y, *torch.autograd.grad((y * y.sin()).sum(), [x, *layer.parameters()])

    expected = results()
    monkeypatch.setattr('mmflatten.models.layers.token_conv.pick_kernel', lambda *args: True)
    assert_close(results(), expected, rtol=1e-10, atol=1e-10)


def test_token_convolution_passes_opcheck():
    torch.manual_seed(0)
    x, weight, bias = torch.randn(2, 13, 8), torch.randn(4, 1, 3, 3), torch.randn(4)
    torch.library.opcheck(_backward, (torch.randn(2, 13, 8), x, weight, 3, 4))
    inputs = [tensor.requires_grad_() for tensor in (x, weight, bias)]
    torch.library.opcheck(_forward, (*inputs, 3, 4), atol=1e-5, rtol=1e-4)


def test_token_convolution_counts_macs_of_convolution(monkeypatch):
    layer, x = TokenConv(12, 5, num_groups=3).to('meta'), torch.empty(2, 36, 12, device='meta')
    macs = count_operations(layer, x, (5, 7)).by_kind
    monkeypatch.setattr('mmflatten.models.layers.token_conv.pick_kernel', lambda *args: True)
    assert count_operations(layer, x, (5, 7)).by_kind == macs


@pytest.mark.parametrize('shape', [(5, 1, 3, 3), (4, 1, 2, 2)])
def test_token_convolution_rejects_wrong_weights(shape):
    with pytest.raises(ValueError, match=rf'weight_C1kk: .*\({shape[0]}, 1, {shape[2]}, {shape[3]}\)'):
        token_convolution(torch.randn(1, 12, 8), torch.randn(shape), torch.randn(shape[0]), (3, 4))


@pytest.mark.parametrize('hw_shape', [(3, 5), (0, 4)])
def test_token_convolution_rejects_wrong_map(hw_shape):
    with pytest.raises(ValueError, match=rf'hw_shape: .*\({hw_shape[0]}, {hw_shape[1]}\)'):
        token_convolution(torch.randn(1, 12, 8), torch.randn(8, 1, 3, 3), torch.randn(8), hw_shape)


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_token_convolution_under_autocast_returns_type_of_convolution(dtype, monkeypatch):
    torch.manual_seed(0)
    layer, x = TokenConv(8, 3), torch.randn(1, 12, 8)
    with torch.autocast('cpu', dtype=dtype):
        expected = layer(x, (3, 4))
        monkeypatch.setattr('mmflatten.models.layers.token_conv.pick_kernel', lambda *args: True)
        actual = layer(x, (3, 4))
    assert actual.dtype == expected.dtype == dtype
    assert_close(actual, expected)
