"""Fused linear attention as a PyTorch operator, on the CPU with an explicit reference in place of
the kernels.
"""

import pytest
import torch
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from mmflatten.measure.flops import count_operations
from mmflatten.models.attention import build_mixer
from mmflatten.ops import linear_attention
from mmflatten.ops.linear.kernels import (
    fused_linear_attention,
    kernels_enabled,
    pick,
    pick_kernel,
    set_kernels_enabled,
)
from mmflatten.ops.linear.kernels.attention import _backward, _forward
from tests.test_ops.test_kernels import closed_form

closed_form.register()

SIZE = (5, 7)
MIXERS = {
    'focused': dict(type='FocusedLinearAttention'),
    'focused, power 8': dict(type='FocusedLinearAttention', focusing_factor=8),
    'not focused': dict(type='FocusedLinearAttention', focusing_factor=None, kernel_size=None),
    'slab': dict(type='FocusedLinearAttention', focusing_factor=None, feature_floor=0),
    'relu': dict(type='LinearAttention'),
    'elu': dict(type='LinearAttention', feature_map='elu'),
    'leaky_relu': dict(type='LinearAttention', feature_map='leaky_relu', min_denominator=3.0),
    'clamped': dict(type='ClampedLinearAttention', min_denominator=9.0),
    'clamped, no temperature': dict(type='ClampedLinearAttention', temperature=False),
}


def mixer_of(name, **kwargs):
    """Build a mixer in float64 with random parameters."""
    torch.manual_seed(0)
    mixer = build_mixer(
        MIXERS[name], embed_dims=24, num_heads=3, grid_size=(4, 4), **kwargs
    ).double()
    for parameter in mixer.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    return mixer


def values_and_gradients(mixer, x, mask=None):
    y = mixer(x, SIZE, mask)
    grads = torch.autograd.grad((y * y.sin()).sum(), [x, *mixer.parameters()])
    return y, *grads


@pytest.fixture
def fuse(monkeypatch):
    """Function that turns the fused operator on, as on a GPU."""
    return lambda: monkeypatch.setattr(
        'mmflatten.ops.linear.kernels.attention.pick_kernel', lambda *args, **kwargs: True
    )


@pytest.mark.parametrize('name', MIXERS)
@pytest.mark.parametrize('prefix, masked', [(0, False), (1, False), (0, True)])
def test_mixer_fused_equals_eager(name, prefix, masked, fuse):
    mixer = mixer_of(name)
    x = torch.randn(4, 35 + prefix, 24, dtype=torch.float64)
    x[1, :9] -= 3  # tokens that ReLU sets almost to zero
    x.requires_grad_()
    mask = (
        torch.arange(35).expand(2, 1, 35) < torch.tensor([35, 20]).view(2, 1, 1) if masked else None
    )
    expected = values_and_gradients(mixer, x, mask)
    fuse()
    tolerance = 1e-5 if masked else 1e-9  # weights of keys are float32
    assert_close(values_and_gradients(mixer, x, mask), expected, rtol=tolerance, atol=tolerance)


def test_mixer_with_reduced_keys_fused_equals_eager(fuse):
    mixer = mixer_of('focused', sr_ratio=2)
    x = torch.randn(2, 35, 24, dtype=torch.float64).requires_grad_()
    expected = values_and_gradients(mixer, x)
    fuse()
    assert_close(values_and_gradients(mixer, x), expected, rtol=1e-9, atol=1e-9)


def arguments(dtype=torch.float32, B=2, h=3, N=12, M=9, d=8, feature_map='focused'):
    """Arguments of the operator, with every optional tensor of the feature map."""
    torch.manual_seed(0)
    q, kv = torch.randn(B, N, h * d, dtype=dtype), torch.randn(B, M, 2 * h * d, dtype=dtype)
    q, k, v = (x.unflatten(2, (h, d)).transpose(1, 2) for x in (q, *kv.chunk(2, dim=-1)))
    others = dict(
        position=torch.randn(h, M, d, dtype=dtype),
        rescale=torch.rand(h, d, dtype=dtype) + 0.5,
        weight=torch.rand(2, M, dtype=dtype),
        temperature=torch.rand(h, dtype=dtype) + 0.5,
        local=torch.randn(B, h, N, d, dtype=dtype),
    )
    tensors = [q, k, v, *others.values()]
    for tensor in tensors[:5] + tensors[6:]:
        tensor.requires_grad_()
    tensors[4] = tensors[4] if feature_map == 'focused' else None
    return tensors, [feature_map, 3, 1e-6, 0.0]


@pytest.mark.parametrize('M', [9, 12])
def test_fused_linear_attention_passes_opcheck(M):
    # the norms of which are empty
    tensors, options = arguments(M=M, feature_map='focused' if M == 9 else 'elu')
    torch.library.opcheck(_forward, (*tensors, *options), atol=1e-5, rtol=1e-4)
    _, *saved = _forward(*tensors, *options)
    detached = [x if x is None else x.detach() for x in tensors]
    torch.library.opcheck(
        _backward, (torch.randn(2, 12, 3, 8), *detached[:7], *(x.detach() for x in saved), *options)
    )


@pytest.mark.parametrize('feature_map, M', [('focused', 3), ('elu', 4)])
def test_fused_linear_attention_passes_gradcheck(feature_map, M):
    tensors, options = arguments(torch.float64, h=2, N=4, M=M, d=3, feature_map=feature_map)
    assert torch.autograd.gradcheck(lambda *tensors: _forward(*tensors, *options)[0], tensors)


def token_arguments(dtype=torch.float32, h=3, **sizes):
    """Queries, keys and values `(B, N, C)` and the rescaling `(C,)`."""
    (q, k, v, _, rescale, *_), _ = arguments(dtype, h=h, **sizes)
    leaves = [x.detach().transpose(1, 2).flatten(2) for x in (q, k, v)]
    return [x.requires_grad_() for x in (*leaves, rescale.detach().flatten())]


def attention(q, k, v, rescale):
    y = fused_linear_attention(q, k, v, 3, feature_map='focused', rescale_C=rescale)
    return y.square().sum()


def test_fused_linear_attention_compiles_checkpoints_and_exports(fuse):
    fuse()
    inputs = token_arguments()
    expected = attention(*inputs)
    grads = torch.autograd.grad(expected, inputs)
    compiled = torch.compile(attention, fullgraph=True, backend='aot_eager')(*inputs)
    assert_close(torch.autograd.grad(compiled, inputs), grads)
    recomputed = checkpoint(attention, *inputs, use_reentrant=False)
    assert_close(torch.autograd.grad(recomputed, inputs), grads)

    class Exported(torch.nn.Module):
        def forward(self, *inputs):
            return attention(*inputs)

    program = torch.export.export(Exported(), tuple(inputs))
    assert_close(program.module()(*inputs), expected)


@pytest.mark.parametrize(
    'N, feature_map, dtype, state',
    [
        (12, 'focused', torch.float32, [(2, 3, 9, 8), (2, 12, 2), (2, 9, 2)]),
        (9, 'relu', torch.bfloat16, [(2, 3, 9, 8)]),
    ],
)
def test_fused_linear_attention_saves_only_inputs_state_and_norms(
    N, feature_map, dtype, state, fuse
):
    fuse()
    q, k, v, rescale = token_arguments(dtype, N=N)
    rescale = rescale if feature_map == 'focused' else None
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
        fused_linear_attention(q, k, v, 3, feature_map=feature_map, rescale_C=rescale)
    inputs = {x.data_ptr() for x in (q, k, v, rescale) if x is not None}
    assert [tuple(x.shape) for x in saved if x.numel() and x.data_ptr() not in inputs] == state


@pytest.mark.parametrize('fused', [True, False])
@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_fused_linear_attention_computes_half_precision_in_float32(dtype, fused, fuse):
    if fused:
        fuse()
    q, k, v, rescale = token_arguments()
    q, k, v = (x.mul(100).to(dtype) for x in (q, k, v))
    with torch.autocast('cpu', dtype=dtype):
        y = fused_linear_attention(q, k, v, 3, feature_map='focused', rescale_C=rescale)
    expected = fused_linear_attention(
        q.float(), k.float(), v.float(), 3, feature_map='focused', rescale_C=rescale
    )
    assert y.dtype == dtype
    assert_close(y, expected.to(dtype))


@pytest.mark.parametrize('tokens', [(16, 16), (4, 100), (3, 2)])
def test_fused_linear_attention_counts_macs_of_linear_attention(tokens, fuse):
    fuse()
    (q, k, v, *_), _ = arguments(N=tokens[0], M=tokens[1])
    macs = count_operations(linear_attention, *(x.detach().to('meta') for x in (q, k, v))).macs
    q, k, v, _ = (x.detach().to('meta') for x in token_arguments(N=tokens[0], M=tokens[1]))
    assert count_operations(fused_linear_attention, q, k, v, 3).macs == macs
    with FlopCounterMode(display=False) as counter:
        fused_linear_attention(q, k, v, 3)
    assert counter.get_total_flops() == 2 * macs


@pytest.mark.parametrize(
    'wrong, message',
    [
        (dict(feature_map='gelu'), "feature_map: .*'gelu'"),
        (dict(num_heads=5), 'num_heads: .*got 5'),
        (dict(feature_map='focused'), 'rescale_C: .*None'),
        (
            dict(feature_map='focused', rescale_C=torch.ones(24), min_denominator=2.0),
            'min_denominator: .*2.0',
        ),
        (dict(feature_map='relu', rescale_C=torch.ones(24)), r'rescale_C: .*\(24,\)'),
        (dict(feature_map='focused', rescale_C=torch.ones(8)), r'rescale_C: .*\(8,\)'),
        (dict(position_MC=torch.ones(1, 24)), r'position_MC: .*\(1, 24\)'),
        (dict(temperature_h=torch.ones(1)), r'temperature_h: .*\(1,\)'),
        (dict(weight_WM=torch.ones(2, 1)), r'weight_WM: .*\(2, 1\)'),
        (dict(local_BNC=torch.ones(3, 24)), r'local_BNC: .*\(3, 24\)'),
    ],
)
def test_fused_linear_attention_rejects_wrong_arguments(wrong, message):
    q, k, v, _ = token_arguments()
    with pytest.raises(ValueError, match=message):
        fused_linear_attention(q, k, v, **{'num_heads': 3, **wrong})


@pytest.fixture
def gpu(monkeypatch):
    """A GPU of compute capability 9.0; the setting of the kernels is restored."""
    monkeypatch.setattr('torch.cuda.get_device_capability', lambda device: (9, 0))
    monkeypatch.setattr(pick, '_enabled', pick._enabled)


def test_pick_kernel_requires_supported_tensors_and_gpu(gpu, on_gpu, monkeypatch):
    few, x = (on_gpu(torch.ones(1, tokens, 96, dtype=torch.float16)) for tokens in (2, 196))
    single, focused = x.float(), dict(width=32, feature_map='focused')
    assert pick_kernel(x, x, power=3, **focused) and pick_kernel(x, width=32, feature_map='relu')
    assert not pick_kernel(x, few, **focused) and not pick_kernel(x[:0], **focused)
    assert not pick_kernel(torch.ones(1, 196, 96, dtype=torch.float16), **focused)
    assert not pick_kernel(single, **focused) and not pick_kernel(x, single, **focused)
    assert not pick_kernel(x, width=128, feature_map='focused')
    assert not pick_kernel(x, power=2.5, **focused) and not pick_kernel(x, power=32, **focused)
    monkeypatch.setattr('torch.cuda.get_device_capability', lambda device: (7, 5))
    assert not pick_kernel(x, **focused)
    monkeypatch.setattr('torch.cuda.get_device_capability', lambda device: (8, 0))
    monkeypatch.setattr('mmflatten.ops.linear.kernels.pick.has_triton', lambda: False)
    assert not pick_kernel(x, **focused)


def test_set_kernels_enabled_turns_kernels_off_and_on(gpu, on_gpu):
    x, relu = (
        on_gpu(torch.ones(1, 196, 96, dtype=torch.float16)),
        dict(width=32, feature_map='relu'),
    )
    assert kernels_enabled() and pick_kernel(x, **relu)
    with pytest.raises(KeyError), set_kernels_enabled(False):
        assert not kernels_enabled() and not pick_kernel(x, **relu)
        raise KeyError
    assert kernels_enabled() and pick_kernel(x, **relu)
    set_kernels_enabled(False)
    assert not kernels_enabled() and not pick_kernel(x, **relu)


def test_compiled_graph_follows_the_setting(gpu):
    compiled = torch.compile(
        lambda x: x + (kernels_enabled() and pick._available(0)), fullgraph=True, backend='eager'
    )
    assert compiled(torch.zeros(1)) == float(pick.has_triton())
    with set_kernels_enabled(False):
        assert compiled(torch.zeros(1)) == 0
