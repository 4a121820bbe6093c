"""What fused linear attention moves through memory, by the calls it makes: on the meta device, nothing is computed."""
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mmflatten.ops.kernels import has_triton
from mmflatten.ops.kernels.closed_form import Options

if not has_triton():
    pytest.skip('no Triton', allow_module_level=True)

from mmflatten.analysis.flops.rules import is_free
from mmflatten.ops.kernels import launch_attention


class Traffic(TorchDispatchMode):
    """The bytes that each call reads and writes: operators of PyTorch, and kernels, which note themselves."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def note(self, name, tensors):
        bytes_of = {id(x): x.numel() * x.element_size() for x in tree_leaves(tensors) if isinstance(x, torch.Tensor)}
        self.calls.append((name, sum(bytes_of.values())))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not is_free(func):
            self.note(func.name(), (args, out))
        return out


@pytest.fixture
def traffic(monkeypatch):
    watch = Traffic()
    monkeypatch.setattr(launch_attention, '_run', lambda kernel, tile, grid, *args, **constants:
                        watch.note(kernel.__name__, args))
    return watch


@pytest.mark.parametrize('B, N, h', [(128, 3136, 3), (2, 64000, 3), (128, 784, 6)])
def test_forward_moves_10_bytes_of_an_element_and_backward_14(traffic, B, N, h):
    qkv = torch.empty(B, N, 3, h, 32, dtype=torch.bfloat16, device='meta')
    q, k, v = (x.transpose(1, 2) for x in qkv.unbind(2))
    local = torch.empty(B, N, h, 32, dtype=torch.bfloat16, device='meta').transpose(1, 2)
    rescale, options = torch.empty(h, 32, device='meta'), Options('focused', 3, 1e-6, 0.)
    elements = B * N * h * 32
    with traffic:
        y, state = launch_attention.forward(q, k, v, None, rescale, None, None, local, options)
    assert [name for name, _ in traffic.calls] == ['state_kernel', 'aten::sum.dim_IntList', 'output_kernel']
    assert 10 <= sum(size for _, size in traffic.calls) / elements < 11.5
    traffic.calls.clear()
    with traffic:
        launch_attention.backward(y, q, k, v, None, rescale, None, None, state, options)
    kernels = [name for name, _ in traffic.calls if 'kernel' in name]
    assert kernels == ['query_backward_kernel', 'key_backward_kernel']
    assert 14 <= sum(size for _, size in traffic.calls) / elements < 16
