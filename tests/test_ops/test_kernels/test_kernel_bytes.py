"""Memory traffic of fused linear attention, counted from its calls on the meta device."""
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mmflatten.ops.kernels import has_triton
from mmflatten.ops.kernels.closed_form import Options

if not has_triton():
    pytest.skip('no Triton', allow_module_level=True)

from gpu_sheet.speed import BACKWARD_BYTES, FORWARD_BYTES

from mmflatten.measure.flops.rules import is_free
from mmflatten.ops.kernels import attention, launch, launch_attention, launch_windows


class Traffic(TorchDispatchMode):
    """Bytes that each call reads and writes: PyTorch operators are intercepted, kernels call `record`."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def record(self, name, tensors):
        bytes_of = {id(x): x.numel() * x.element_size() for x in tree_leaves(tensors) if isinstance(x, torch.Tensor)}
        self.calls.append((name, sum(bytes_of.values())))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not is_free(func):
            self.record(func.name(), (args, out))
        return out


@pytest.fixture
def traffic(monkeypatch):
    recorder = Traffic()
    monkeypatch.setattr(launch, 'run', lambda kernel, tile, grid, *args, **constants:
                        recorder.record(kernel.__name__, args))
    return recorder


def tokens(B, h, N, d=32, dtype=torch.bfloat16):
    """Queries, keys and values as views of a projection's output, and a local term."""
    qkv = torch.empty(B, N, 3, h, d, dtype=dtype, device='meta')
    local = torch.empty(B, N, h, d, dtype=dtype, device='meta')
    return *(x.transpose(1, 2) for x in qkv.unbind(2)), local.transpose(1, 2)


@pytest.mark.parametrize('B, N, h', [(128, 3136, 3), (2, 64000, 3), (128, 784, 6)])
def test_image_kernels_move_documented_bytes(traffic, B, N, h):
    q, k, v, local = tokens(B, h, N)
    rescale, options = torch.empty(h, 32, device='meta'), Options('focused', 3, 1e-6, 0.)
    elements = B * N * h * 32
    with traffic:
        y, state = launch_attention.forward(q, k, v, None, rescale, None, None, local, options)
    assert [name for name, _ in traffic.calls] == ['state_kernel', 'aten::sum.dim_IntList', 'output_kernel']
    assert FORWARD_BYTES <= sum(size for _, size in traffic.calls) / elements < FORWARD_BYTES + 1.5
    traffic.calls.clear()
    with traffic:
        launch_attention.backward(y, q, k, v, None, rescale, None, None, state, options)
    kernels = [name for name, _ in traffic.calls if 'kernel' in name]
    assert kernels == ['query_backward_kernel', 'key_backward_kernel']
    assert BACKWARD_BYTES <= sum(size for _, size in traffic.calls) / elements < BACKWARD_BYTES + 2


@pytest.mark.parametrize('B, N, h', [(4096, 49, 3), (512, 196, 6)])
def test_window_kernels_move_documented_bytes(traffic, B, N, h):
    q, k, v, _ = tokens(B, h, N)
    rescale, options = torch.empty(h, 32, device='meta'), Options('focused', 3, 1e-6, 0.)
    elements = B * N * h * 32
    with traffic:
        y, state = launch_windows.forward(q, k, v, None, rescale, None, None, None, options)
    assert [name for name, _ in traffic.calls] == ['window_kernel'] and state.numel() == 0
    assert 8 <= traffic.calls[0][1] / elements < 8.01
    traffic.calls.clear()
    with traffic:
        launch_windows.backward(y, q, k, v, None, rescale, None, None, state, options)
    assert [name for name, _ in traffic.calls if 'kernel' in name] == ['window_backward_kernel']
    assert 14 <= sum(size for _, size in traffic.calls) / elements < 14.4


@pytest.mark.parametrize('feature_map, h, N, d, dtype, window', [
    ('focused', 3, 49, 32, torch.bfloat16, True), ('focused', 8, 256, 24, torch.float16, True),
    ('focused', 1, 196, 64, torch.float32, True), ('relu', 24, 49, 64, torch.float32, True),
    ('focused', 3, 257, 32, torch.bfloat16, False), ('focused', 12, 196, 32, torch.bfloat16, False),
    ('focused', 3, 49, 64, torch.bfloat16, False), ('focused', 3, 49, 32, torch.float32, False),
    ('relu', 1, 784, 16, torch.float16, False)])
def test_fused_attention_chooses_window_or_image_kernels(traffic, feature_map, h, N, d, dtype, window):
    q, k, v, _ = tokens(2, h, N, d, dtype)
    extra, options = (None, torch.empty(h, d, device='meta'), None, None), (feature_map, 3, 1e-6, 0.)
    with traffic:
        y, state = attention._forward_on_gpu(q, k, v, *extra, None, *options)
        attention._backward_on_gpu(y, q, k, v, *extra, state, *options)
    kernels = [name for name, _ in traffic.calls if 'kernel' in name]
    assert kernels == (['window_kernel', 'window_backward_kernel'] if window else [
        'state_kernel', 'output_kernel', 'query_backward_kernel', 'key_backward_kernel'])
    fakes = attention._forward_shapes(q, k, v, *extra, None, *options)
    assert [x.shape for x in fakes] == [y.shape, state.shape]


def test_fused_attention_with_reduced_keys_uses_image_kernels(traffic):
    (q, *_), (_, k, v, _) = tokens(2, 3, 196), tokens(2, 3, 49)
    with traffic:
        attention._forward_on_gpu(q, k, v, None, None, None, None, None, 'relu', 1, 1e-6, 0.)
    assert [name for name, _ in traffic.calls if 'kernel' in name] == ['state_kernel', 'output_kernel']
