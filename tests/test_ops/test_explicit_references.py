"""Every operator against its explicit reference: values and gradients in float64, for any shape and
memory layout.
"""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from mmflatten import ops
from mmflatten.ops import reference

TOKENS = st.sampled_from([1, 2, 7, 63])
WIDTHS = st.sampled_from([1, 4, 9])
LAYOUTS = [
    'contiguous',
    'slice of qkv',
    'channels first',
    'every second token',
    'one batch expanded',
]
SHAPES = st.fixed_dictionaries(
    dict(
        B=st.integers(1, 3),
        h=st.integers(1, 3),
        N=TOKENS,
        M=TOKENS,
        d=WIDTHS,
        e=WIDTHS,
        layout=st.sampled_from(LAYOUTS),
    )
)


def leaf(layout, *shape, positive=False):
    """A float64 leaf `(..., tokens, channels)` in one of the memory layouts."""
    *batch, N, d = shape
    if layout == 'slice of qkv':
        x = torch.randn(batch[0], N, 3, *batch[1:], d, dtype=torch.float64)[:, :, 1]
        x = x.transpose(1, 2) if batch[1:] else x
    elif layout == 'channels first':
        x = torch.randn(*batch, d, N, dtype=torch.float64).transpose(-2, -1)
    elif layout == 'every second token':
        x = torch.randn(*batch, 2 * N, d, dtype=torch.float64)[..., ::2, :]
    elif layout == 'one batch expanded':
        x = torch.randn(1, *batch[1:], N, d, dtype=torch.float64).expand(shape)
    else:
        x = torch.randn(shape, dtype=torch.float64)
    assert x.shape == shape
    x = x.abs() + 1e-3 if positive else x
    return x.detach().requires_grad_()


def qkv(s, positive=False):
    B, h, layout = s['B'], s['h'], s['layout']
    q, k = (leaf(layout, B, h, n, s['d'], positive=positive) for n in (s['N'], s['M']))
    return [q, k, leaf(layout, B, h, s['M'], s['e'])]


def numbers(*shape):
    return torch.rand(shape, dtype=torch.float64).add(0.5).requires_grad_()


# Random arguments of each operator: positional tensors, tensors by keyword, and other options.
def softmax_attention(s, draw):
    bias = draw(
        st.sampled_from(
            [None, (s['N'], s['M']), (1, s['h'], s['N'], s['M']), (s['B'], 1, 1, s['M'])]
        )
    )
    return (
        qkv(s),
        {} if bias is None else dict(bias=numbers(*bias)),
        dict(scale=draw(st.sampled_from([None, 0.3]))),
    )


def linear_attention(s, draw):
    named = draw(
        st.sampled_from(
            [
                (),
                ('eps',),
                ('scale',),
                ('local_BhNe',),
                ('scale', 'local_BhNe'),
                ('rotated_q_BhNd', 'rotated_k_BhMd'),
            ]
        )
    )
    tensors = dict(
        eps=(s['B'], s['h'], s['N'], 1),
        scale=(s['h'], 1, 1),
        local_BhNe=(s['B'], s['h'], s['N'], s['e']),
        rotated_q_BhNd=(s['B'], s['h'], s['N'], s['d']),
        rotated_k_BhMd=(s['B'], s['h'], s['M'], s['d']),
    )
    bound = None if 'eps' in named else draw(st.sampled_from([None, 2.5]))  # a bound replaces eps
    return (
        qkv(s, positive=True),
        {name: numbers(*tensors[name]) for name in named},
        dict(min_denominator=bound),
    )


def kernel_product(s, draw):
    return qkv(s), dict(scale=numbers(s['h'], 1, 1)) if draw(st.booleans()) else {}, {}


def agent_attention(s, draw):
    agents = leaf(s['layout'], s['B'], s['h'], 4, s['d'])
    biases = dict(key_bias=numbers(1, s['h'], 4, s['M']), query_bias=numbers(1, s['h'], s['N'], 4))
    return [*qkv(s), agents], biases if draw(st.booleans()) else {}, {}


def inline_attention(s, draw):
    return (
        qkv(s),
        dict(mean_v_Bh1e=numbers(s['B'], s['h'], 1, s['e'])) if draw(st.booleans()) else {},
        {},
    )


def magnitude_aware_attention(s, draw):
    named = dict(
        rotated_q_BhNd=(s['B'], s['h'], s['N'], s['d']),
        rotated_k_BhMd=(s['B'], s['h'], s['M'], s['d']),
        mean_v_Bh1e=(s['B'], s['h'], 1, s['e']),
    )
    chosen = named if draw(st.booleans()) else {}
    return qkv(s, positive=True), {name: numbers(*shape) for name, shape in chosen.items()}, {}


def plain(s, draw):
    return qkv(s), {}, {}


def angular_attention(s, draw):
    inputs = qkv(s)
    if draw(st.booleans()):
        return inputs, dict(own_BhNe=leaf(s['layout'], s['B'], s['h'], s['N'], s['e'])), {}
    return [leaf(s['layout'], s['B'], s['h'], s['M'], s['d']), *inputs[1:]], {}, {}


def cross_covariance_attention(s, draw):
    tensors = [leaf(s['layout'], s['B'], s['h'], s['N'], s['d']) for _ in range(3)]
    return tensors, dict(temperature=numbers(s['h'], 1, 1)) if draw(st.booleans()) else {}, {}


def hydra_attention(s, draw):
    return [leaf(s['layout'], s['B'], n, s['h'] * s['d']) for n in (s['N'], s['M'], s['M'])], {}, {}


def focused_map(s, draw):
    x = leaf(s['layout'], s['B'], s['h'], s['N'], s['d'], positive=True)
    return [x], {}, dict(focusing_factor=draw(st.sampled_from([1, 2, 2.5, 3, 4, 8, 32])))


def contract_and_broadcast_attention(s, draw):
    representatives = leaf(s['layout'], s['B'], s['h'], 4, s['d'])
    _, k, v = qkv(s)
    pooled = leaf(s['layout'], s['B'], s['h'], 4, s['e'])
    named = dict(pooled_Bhae=pooled, contraction=numbers(s['h'], 1, 1))
    if draw(st.booleans()):
        named['bias'] = numbers(s['B'], 1, 4, s['M'])
    return [representatives, k, v], named, {}


def token_statistics_attention(s, draw):
    tokens = [leaf(s['layout'], s['B'], s['h'], s['N'], s['d']) for _ in range(2)]
    return tokens, dict(temperature_h1=numbers(s['h'], 1)), {}


def state_space_attention(s, draw):
    heads = draw(st.sampled_from([1, s['h']]))
    q, k = (leaf(s['layout'], s['B'], heads, s['N'], s['d']) for _ in range(2))
    v = leaf(s['layout'], s['B'], s['h'], s['N'], s['e'])
    named = dict(weight_BhN1=numbers(s['B'], s['h'], s['N'], 1))
    if draw(st.booleans()):
        named['skip'] = numbers(s['h'], 1, 1)
    return [q, k, v], named, {}


def hidden_state_attention(s, draw):
    q, k, logits = (leaf(s['layout'], s['B'], s['N'], s['d']) for _ in range(3))
    v = leaf(s['layout'], s['B'], s['N'], s['e'])
    named = dict(
        logits_BNs=logits,
        state_weight=numbers(6, s['e']),
        out_weight=numbers(s['e'], 3),
        skip=numbers(),
    )
    if draw(st.booleans()):
        named['gate_BNC'] = leaf(s['layout'], s['B'], s['N'], s['e'])
    return [q, k, v], named, {}


CASES = dict(
    softmax_attention=softmax_attention,
    linear_attention=linear_attention,
    kernel_product=kernel_product,
    efficient_attention=plain,
    sima_attention=plain,
    angular_attention=angular_attention,
    cross_covariance_attention=cross_covariance_attention,
    hydra_attention=hydra_attention,
    focused_map=focused_map,
    factorized_dot_attention=plain,
    conventional_dot_attention=plain,
    conventional_gaussian_attention=plain,
    agent_attention=agent_attention,
    inline_attention=inline_attention,
    magnitude_aware_attention=magnitude_aware_attention,
    contract_and_broadcast_attention=contract_and_broadcast_attention,
    token_statistics_attention=token_statistics_attention,
    state_space_attention=state_space_attention,
    hidden_state_attention=hidden_state_attention,
)


def assert_same(function, expected, inputs):
    """Equal values and gradients, to 1e-10 of the largest where that is more than 1."""
    results = []
    for f in (function, expected):
        out = f(*inputs)
        weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
        results.append((out, *torch.autograd.grad((out * weights).sum(), inputs)))
    for ours, expected in zip(*results):
        assert ours.shape == expected.shape
        scale = expected.abs().max().clamp(min=1)
        torch.testing.assert_close(ours / scale, expected / scale, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize('name', CASES)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(shape=SHAPES, data=st.data())
def test_operator_equals_reference(name, shape, data):
    torch.manual_seed(0)
    inputs, named, options = CASES[name](shape, data.draw)

    def call(function):
        return lambda *x: function(
            *x[: len(inputs)], **dict(zip(named, x[len(inputs) :])), **options
        )

    assert_same(
        call(getattr(ops, name)), call(getattr(reference, name)), [*inputs, *named.values()]
    )


def test_contraction_gathers_shared_keys_and_values_once():
    torch.manual_seed(0)
    representatives, tokens = numbers(2, 3, 4, 5), numbers(2, 3, 7, 5)
    assert_same(
        lambda r, x: ops.contract_and_broadcast_attention(r, x, x, pooled_Bhae=r),
        lambda r, x: reference.contract_and_broadcast_attention(r, x, x, pooled_Bhae=r),
        [representatives, tokens],
    )
    copies = [tokens.detach(), tokens.detach().clone()]
    with FlopCounterMode(display=False) as separate:
        ops.contract_and_broadcast_attention(representatives, *copies, pooled_Bhae=representatives)
    with FlopCounterMode(display=False) as shared:
        ops.contract_and_broadcast_attention(
            representatives, tokens, tokens, pooled_Bhae=representatives
        )
    assert separate.get_total_flops() - shared.get_total_flops() == 2 * 2 * 3 * 4 * 7 * 5


@settings(max_examples=20, deadline=None, derandomize=True)
@given(SHAPES)
def test_factorized_dot_attention_equals_conventional(shape):
    torch.manual_seed(0)
    assert_same(ops.factorized_dot_attention, ops.conventional_dot_attention, qkv(shape))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(shape=SHAPES, sides=st.lists(st.integers(1, 7), min_size=4, max_size=4))
def test_cosformer_map_products_equal_reference(shape, sides):
    torch.manual_seed(0)
    q_shape, k_shape = tuple(sides[:2]), tuple(sides[2:])
    inputs = [
        leaf(shape['layout'], shape['B'], shape['h'], H * W, shape['d'], positive=True)
        for H, W in (q_shape, k_shape)
    ]
    assert_same(
        lambda q, k: (
            ops.cosformer_map(q, q_shape) @ ops.cosformer_map(k, k_shape).transpose(-2, -1)
        ),
        lambda q, k: reference.cosformer_scores(q, k, q_shape, k_shape),
        inputs,
    )


def test_every_operator_has_a_reference_and_a_test():
    operators = {name for name in ops.__all__ if name.endswith(('_attention', '_product'))}
    # which is tested against softmax_attention
    assert operators <= set(vars(reference)) | {'routing_attention'}
    # Tested in test_focal_ops.py and test_frontier_ops.py, because they need maps or lists of keys.
    elsewhere = {
        'focal_attention',
        'circulant_attention',
        'block_linear_attention',
        'manhattan_attention',
        'neighborhood_attention',
        'nystrom_attention',
        'routing_attention',
    }
    assert operators == {name for name in CASES if not name.endswith('_map')} | elsewhere


def test_softmax_attention_fixed_bias_equals_learned_bias():
    torch.manual_seed(0)
    q, k, v, bias = (
        numbers(*shape) for shape in ((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 8), (1, 3, 5, 6))
    )
    with torch.no_grad():
        bias[..., 1] = -torch.inf
    results = [
        (
            out := ops.softmax_attention(q, k, v, bias=b),
            *torch.autograd.grad(out.square().sum(), (q, k, v)),
        )
        for b in (bias, bias.detach())
    ]
    for learned, fixed in zip(*results):
        torch.testing.assert_close(learned, fixed, rtol=1e-12, atol=1e-12)


def test_gradients_of_softmax_on_a_gpu_do_not_come_from_cudnn(on_gpu, monkeypatch):
    attend, used = F.scaled_dot_product_attention, []

    def spy(*args, **kwargs):
        used.append(
            (torch.backends.cuda.cudnn_sdp_enabled(), torch.backends.cuda.flash_sdp_enabled())
        )
        return attend(*args, **kwargs)

    monkeypatch.setattr(F, 'scaled_dot_product_attention', spy)
    q, k, v = (on_gpu(torch.randn(1, 2, 5, 4)) for _ in range(3))
    ops.softmax_attention(q, k, v)
    ops.softmax_attention(q, k, v.requires_grad_())
    with sdpa_kernel(SDPBackend.MATH):
        ops.softmax_attention(q, k, v)
    with torch.no_grad():
        ops.softmax_attention(q, k, v)
    assert used == [(True, True), (False, True), (False, False), (True, True)]
