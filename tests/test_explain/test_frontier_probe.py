"""Weights, outputs and gradients of the newer attentions against explicit formulas."""

import pytest
import torch
import torch.nn.functional as F

from mmflatten.explain.attention import AttentionProbe
from mmflatten.models.attention import build_mixer
from mmflatten.ops import merge_heads, reference, split_heads

C, HEADS, HW = 24, 3, (5, 7)


def mixer_of(kind, **more):
    torch.manual_seed(0)
    mixer = build_mixer(dict(type=kind, embed_dims=C, num_heads=HEADS, grid_size=(4, 4), **more))
    for parameter in mixer.parameters():
        parameter.data = 0.5 * torch.randn(parameter.shape)
    return mixer.double().eval()


def layer_of(mixer, prefix=0):
    torch.manual_seed(1)
    x = torch.randn(1, prefix + HW[0] * HW[1], C, dtype=torch.float64)
    with AttentionProbe(mixer) as probe, torch.no_grad():
        mixer(x, HW)
    return probe.layers[0]


def scores(q, k):
    return torch.einsum('bhnd,bhmd->bhnm', q, k)


def rotated(q, k, maps, **options):
    return reference.rotary_2d(q, maps.hw, **options), reference.rotary_2d(k, maps.kv_hw, **options)


def normalised(q, k, rotated_q, rotated_k):
    """Rotated scores divided by the row sums of the plain scores."""
    return scores(rotated_q, rotated_k) / (scores(q, k).sum(-1, keepdim=True) + 1e-6 * k.shape[-2])


def elu(*tensors):
    return [torch.where(x > 0, x + 1, x.exp()) for x in tensors]


def gated_softmax(mixer, q, k, maps):
    q, k = rotated(q, k, maps)
    return (scores(q, k) * q.shape[-1] ** -0.5).softmax(-1)


def rala(mixer, q, k, maps):
    q, k = elu(q, k)
    weights = (k * q.mean(-2, keepdim=True)).sum(-1, keepdim=True).mul(q.shape[-1] ** -0.5).softmax(
        -2
    ) * k.shape[-2]
    return normalised(q, k * weights, *rotated(q, k * weights, maps))


def mala(mixer, q, k, maps):
    q, k = elu(q, k)
    M, t = k.shape[-2], (scores(q, k) * q.shape[-1] ** -0.5).mean(-1, keepdim=True)
    return ((1 + 1 / (t + 1e-6)) * scores(*rotated(q, k, maps)) * q.shape[-1] ** -0.5 - t) / M


def signed(x):
    return torch.cat((x.clamp(min=0), (-x).clamp(min=0)), -1)


def opposite(x):
    return torch.cat(x.chunk(2, -1)[::-1], -1)


def polaformer(mixer, q, k, maps):
    k = split_heads(mixer.positional_encoding(merge_heads(k), maps.kv_hw), HEADS)
    scale = split_heads(F.softplus(mixer.scale), HEADS)
    power = 1 + 4 * torch.cat([mixer.power.sigmoid()] * 2, -1)
    q, k = (signed(x / scale) ** power for x in (q, k))
    return torch.stack([normalised(x, k, x, k) for x in (q, opposite(q))], 2)


def polaformer_pp(mixer, q, k, maps):
    q, k = signed(q), signed(k).exp() - 1
    maps_of = [(x * scale.sigmoid()).exp() - 1 for x, scale in zip((q, opposite(q)), mixer.scales)]
    return torch.stack([normalised(x, k, *rotated(x, k, maps)) for x in maps_of], 2)


def nala(mixer, q, k, maps):
    length = q.norm(dim=-1, keepdim=True)
    q, k = signed(q / length) ** (3 * (0.5 + length.tanh())), signed(k**3)
    (q1, q2), (k1, k2) = q.chunk(2, -1), k.chunk(2, -1)
    (q1, k1), (q2, k2) = rotated(q1, k1, maps), rotated(q2, k2, maps)
    return normalised(q, k, torch.cat((q1, q2), -1), torch.cat((k1, k2), -1))


def agent(mixer, q, k, maps):
    prefix = q.shape[-2] - maps.hw[0] * maps.hw[1]
    on_map = q[:, :, prefix:].flatten(0, 1).transpose(-2, -1).unflatten(-1, maps.hw)
    agents = F.adaptive_avg_pool2d(on_map, 2).flatten(2).transpose(-2, -1).unflatten(0, q.shape[:2])
    scale = q.shape[-1] ** -0.5

    def bias(table, hw):
        fine, coarse = (
            F.interpolate(x, size=hw, mode='bilinear')
            for x in (table.rows + table.cols, table.grid)
        )
        return (fine + coarse).flatten(2)

    gather = scores(agents, k) * scale + F.pad(bias(mixer.key_bias, maps.kv_hw), (prefix, 0))
    ask = scores(q, agents) * scale + F.pad(bias(mixer.query_bias, maps.hw), (prefix, 0)).transpose(
        -2, -1
    )
    return ask.softmax(-1) @ gather.softmax(-1)


def inline(mixer, q, k, maps):
    products = scores(q, k) * q.shape[-1] ** -0.5
    return (products + 1 - products.mean(-1, keepdim=True)) / k.shape[-2]


def mhla(mixer, q, k, maps):
    def features(x, weight):
        x = merge_heads(x)
        return split_heads(
            (x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight).clamp(min=0) + 1e-6,
            HEADS,
        )

    q, k = features(q, mixer.q_norm), features(k, mixer.k_norm)
    one_hot = torch.eye(k.shape[-2], dtype=q.dtype).expand(*k.shape[:2], -1, -1)
    return reference.block_linear_attention(
        q,
        k,
        one_hot,
        mixing_bb=mixer.mixing,
        hw_shape=maps.hw,
        kv_shape=maps.kv_hw,
        own_sum=mixer.own_sum,
    )


def mila(mixer, q, k, maps):
    q, k = elu(q, k)
    turned = (
        split_heads(x, HEADS)
        for x in rotated(merge_heads(q), merge_heads(k), maps, last_frequency=False)
    )
    return normalised(q, k, *turned)


def circulant(mixer, q, k, maps):
    q, k = merge_heads(q), merge_heads(k)
    N = q.shape[1]
    columns = [
        reference.circulant_attention(q, k, one_hot.expand(1, N, C), hw_shape=maps.hw)
        for one_hot in torch.eye(N, dtype=q.dtype)[:, :, None]
    ]
    return torch.stack(columns, -1).permute(0, 2, 1, 3).unflatten(1, (HEADS, -1))


def one_hot(q):
    return torch.eye(q.shape[-2], dtype=q.dtype).expand(*q.shape[:2], -1, -1)


def cells(x, hw):
    prefix = x.shape[-2] - hw[0] * hw[1]
    on_map = x[:, :, prefix:].flatten(0, 1).transpose(-2, -1).unflatten(-1, hw)
    return F.adaptive_avg_pool2d(on_map, 2).flatten(2).transpose(-2, -1).unflatten(0, x.shape[:2])


def nystrom(mixer, q, k, maps):
    return reference.nystrom_attention(
        q, k, one_hot(k), q_landmarks_Bhad=cells(q, maps.hw), k_landmarks_Bhad=cells(k, maps.kv_hw)
    )


def performer(mixer, q, k, maps):
    def features(x):
        root = x.shape[-1] ** 0.25
        exponents = x @ mixer.features.T / root - x.square().sum(-1, keepdim=True) / 2 / root**2
        top = exponents.detach().amax(-1 if x is q else (-2, -1), keepdim=True)
        return ((exponents - top).exp() + 1e-4) / len(mixer.features) ** 0.5

    return normalised(features(q), features(k), features(q), features(k))


def linformer(mixer, q, k, maps):
    prefix = k.shape[-2] - maps.kv_hw[0] * maps.kv_hw[1]

    def sums(table):
        rows = F.interpolate(
            table.table.transpose(1, 2).unflatten(-1, (4, 4)), size=maps.kv_hw, mode='bilinear'
        )
        rows = rows[0].flatten(1) * 16 / (maps.kv_hw[0] * maps.kv_hw[1])
        return torch.block_diag(torch.eye(prefix, dtype=q.dtype), rows) if prefix else rows

    return (q @ (sums(mixer.key_sums) @ k).transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(
        -1
    ) @ sums(mixer.value_sums)


def manhattan(mixer, q, k, maps):
    width, place = q.shape[-1] // 2, torch.arange(q.shape[-2], dtype=q.dtype)
    angles = place[:, None] * 10000 ** -torch.linspace(0, 1, width, dtype=q.dtype)
    turned = (
        torch.view_as_real(
            torch.view_as_complex(x.unflatten(-1, (width, 2)).contiguous())
            * torch.polar(torch.ones_like(angles), angles)
        ).flatten(-2)
        for x in (q, k)
    )
    # a buffer in float32
    decay = (1 - 2 ** (-2 - 4 * torch.arange(HEADS) / HEADS)).log().to(q.dtype)
    return reference.manhattan_attention(*turned, one_hot(k), decay_h=decay, hw_shape=maps.hw)


def neighborhood(mixer, q, k, maps):
    return reference.neighborhood_attention(
        q, k, one_hot(k), hw_shape=maps.hw, kernel_size=3, dilation=2, bias=mixer.bias
    )


def routing(mixer, q, k, maps):
    """Regions of 2 x 3 tokens. The last row is cropped and the last column has one token."""
    place = torch.arange(35)
    region = place // 7 // 2 * 3 + place % 7 // 3
    q_regions, k_regions = [], []
    for number in range(9):
        q_regions.append(merge_heads(q)[0, region == number].mean(0))
        k_regions.append(merge_heads(k)[0, region == number].mean(0))
    routes = (torch.stack(q_regions) @ torch.stack(k_regions).T).topk(2).indices
    allowed = (routes[region][:, :, None] == region).any(1)
    return (scores(q, k) * C**-0.5).masked_fill(~allowed, -torch.inf).softmax(-1)


# Weights `(1, h, N, M)`, or `(1, h, p, N, M)` if `p` parts of the values of a head have different
# weights.
REFERENCES = {
    'GatedSoftmaxAttention': (gated_softmax, {}),
    'RankAugmentedLinearAttention': (rala, {}),
    'MagnitudeAwareLinearAttention': (mala, {}),
    'PolarityAwareLinearAttention': (polaformer, {}),
    'ExponentialPolarityAttention': (polaformer_pp, {}),
    'NormAwareLinearAttention': (nala, {}),
    'AgentAttention': (agent, dict(num_agents=4)),
    'InLineAttention': (inline, {}),
    'TokenLevelMultiHeadAttention': (mhla, dict(num_blocks=4)),
    'MambaInspiredLinearAttention': (mila, {}),
    'CirculantAttention': (circulant, {}),
    'NystromAttention': (nystrom, dict(num_landmarks=4)),
    'PerformerAttention': (performer, {}),
    'LinformerAttention': (linformer, dict(num_keys=5)),
    'ManhattanAttention': (manhattan, {}),
    'NeighborhoodAttention': (neighborhood, dict(kernel_size=3, dilation=2)),
    'BiLevelRoutingAttention': (routing, dict(num_regions=3, topk=2)),
}
POOLED = ('num_agents', 'num_landmarks', 'num_representatives')
WHOLE_MAPS = (
    'MambaInspiredLinearAttention',
    'CirculantAttention',
    'ManhattanAttention',
    'NeighborhoodAttention',
    'BiLevelRoutingAttention',
    'GatedDifferentialLinearAttention',
    'HiddenStateMixer',
    'StateSpaceAttention',
)
REJECT_PADDING = WHOLE_MAPS[1:6]


@pytest.mark.parametrize(
    ('name', 'sr_ratio', 'prefix'),
    [
        *((name, 1, 0) for name in REFERENCES),
        *((name, 1, 1) for name in REFERENCES if name not in WHOLE_MAPS),
        *((name, 2, 0) for name in REFERENCES if name not in WHOLE_MAPS),
    ],
)
def test_weights_equal_the_explicit_formula(name, sr_ratio, prefix):
    matrix, more = REFERENCES[name]
    mixer = mixer_of(name, **({} if name in WHOLE_MAPS else dict(sr_ratio=sr_ratio)), **more)
    layer = layer_of(mixer, prefix)
    q, k, _, maps = mixer.projections(layer.x, HW)
    with torch.no_grad():
        expected = matrix(mixer, split_heads(q, HEADS), split_heads(k, HEADS), maps)[0]
    expected = expected if expected.dim() == 3 else expected.mean(1)  # over the parts of the values
    torch.testing.assert_close(
        layer.matrix(), expected, rtol=0, atol=1e-6 * expected.abs().max().item()
    )


@pytest.mark.parametrize(
    'name', ['TTTAttention', 'TransformerToTTTAttention', 'GatedDifferentialLinearAttention']
)
def test_weights_of_nonlinear_attentions_are_derivatives_at_zero_values(name):
    """The output is not linear in the values, so the weights are its derivatives at values of 0."""
    layer = layer_of(mixer_of(name))
    assert layer.matrix().shape == (HEADS, 35, 35) and layer.matrix().isfinite().all()


@pytest.mark.parametrize('name', ['ContractBroadcastAttention', 'StateSpaceAttention'])
def test_weights_times_values_equal_the_attention(name):
    layer = layer_of(mixer_of(name))
    q, k, v, maps = layer.module.projections(layer.x, HW)
    expected = split_heads(layer.module.attend(q, k, v, maps), HEADS)[0]
    torch.testing.assert_close(layer.matrix() @ split_heads(v, HEADS)[0], expected)


def test_token_statistics_weigh_each_token_alone():
    weights = layer_of(mixer_of('TokenStatisticsAttention')).matrix()
    own = weights.diagonal(dim1=-2, dim2=-1)
    assert (own < 0).all() and torch.equal(weights, torch.diag_embed(own))


def depthwise(conv, v, hw):
    """A convolution of the values. All heads share its weights if there is only one set."""
    prefix, repeats = v.shape[1] - hw[0] * hw[1], C // len(conv.weight)
    on_map = v[:, prefix:].transpose(1, 2).unflatten(-1, hw)
    result = (
        F.conv2d(
            on_map,
            conv.weight.repeat(repeats, 1, 1, 1),
            conv.bias.repeat(repeats),
            groups=C,
            padding=conv.weight.shape[-1] // 2,
        )
        .flatten(2)
        .transpose(1, 2)
    )
    return torch.cat((v[:, :prefix] * 0, result), 1)


def with_lepe(mixer, y, v, maps):
    return y + depthwise(mixer.lepe.conv, v, maps.hw)


def with_conv(mixer, y, v, maps):
    return y + depthwise(mixer.dwc.conv, v, maps.hw)


def times_gate(mixer, y, v, maps):
    return with_lepe(mixer, y, v, maps) * maps.extra[0]


def conv_times_gate(mixer, y, v, maps):
    return with_conv(mixer, y, v, maps) * maps.extra[0]


def norm_times_gate(mixer, y, v, maps):
    y = with_lepe(mixer, y, v, maps)
    y = (y - y.mean(-1, keepdim=True)) / (y.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    return (y * mixer.norm.weight + mixer.norm.bias) * F.silu(maps.extra[0])


def times_circulant_gate(mixer, y, v, maps):
    return y * F.silu(maps.extra[0] @ mixer.gate.weight.T + mixer.gate.bias)


def with_image_conv(mixer, y, v, maps):
    """Gate of one image: its mean token after two grouped layers with one group per head."""
    first, _, second = mixer.dwc.weights
    hidden = F.gelu(
        torch.block_diag(*first.weight[..., 0].chunk(HEADS)) @ maps.extra[0].mean(1)[0] + first.bias
    )
    weight = (torch.block_diag(*second.weight[..., 0].chunk(HEADS)) @ hidden + second.bias).view(
        C, 1, 3, 3
    )
    prefix = v.shape[1] - HW[0] * HW[1]
    on_map = v[:, prefix:].transpose(1, 2).unflatten(-1, HW)
    local = F.conv2d(on_map, weight, padding=1, groups=C).flatten(2).transpose(1, 2)
    return y + torch.cat((v[:, :prefix] * 0, local), 1)


# Operations between the weighted sum of the values and the last projection.
TAILS = {
    **dict.fromkeys(
        (
            'GatedSoftmaxAttention',
            'RankAugmentedLinearAttention',
            'MagnitudeAwareLinearAttention',
            'ExponentialPolarityAttention',
            'MambaInspiredLinearAttention',
        ),
        times_gate,
    ),
    **dict.fromkeys(
        ('TokenLevelMultiHeadAttention', 'ManhattanAttention', 'BiLevelRoutingAttention'), with_lepe
    ),
    'CirculantAttention': times_circulant_gate,
    'PolarityAwareLinearAttention': conv_times_gate,
    'NormAwareLinearAttention': norm_times_gate,
    'AgentAttention': with_conv,
    'InLineAttention': with_image_conv,
}


def weighted_sum(mixer, q, k, v, maps):
    """Output of a mixer, computed from its `N x M` weights."""
    kind = type(mixer).__name__
    weights = REFERENCES[kind][0](mixer, split_heads(q, HEADS), split_heads(k, HEADS), maps)
    weights = weights if weights.dim() == 5 else weights[:, :, None]
    parts = split_heads(v, HEADS).unflatten(-1, (weights.shape[2], -1)).transpose(2, 3)
    y = merge_heads((weights @ parts).transpose(2, 3).flatten(3))
    return TAILS[kind](mixer, y, v, maps) if kind in TAILS else y


def visual_contrast(mixer, q, k, v, maps):
    first, second = (a.dot(b).exp() - c.dot(d).exp() + 0.8 for a, b, c, d in mixer.shares)
    pooled = merge_heads(cells(split_heads(q, HEADS), maps.hw))
    plus, minus = (split_heads(pooled + offset, HEADS) for offset in mixer.agents)
    q, k, scale = split_heads(q, HEADS), split_heads(k, HEADS), (C // HEADS) ** -0.5
    gather = (scores(plus, k) * scale).softmax(-1) - first * (scores(minus, k) * scale).softmax(-1)
    ask = (scores(q, plus) * scale).softmax(-1) - second * (scores(q, minus) * scale).softmax(-1)
    y = ask @ gather @ split_heads(v, HEADS)
    y = y / (y.square().mean(-1, keepdim=True) + 1e-6).sqrt() * mixer.norm * (1 - second)
    return with_conv(mixer, merge_heads(y), v, maps)


def multi_scale(mixer, q, k, v, maps):
    """Heads 0 to 2 use tokens, heads 3 to 5 use sums over 5 x 5 tokens that are mixed within a
    head.
    """
    depth, point = mixer.aggregate
    own, prefix = torch.cat((q, k, v), -1), q.shape[1] - HW[0] * HW[1]
    around = (
        F.pad(own[:, prefix:].unflatten(1, HW), (0, 0, 2, 2, 2, 2)).unfold(1, 5, 1).unfold(2, 5, 1)
    )
    sums = torch.einsum('byxcij,cij->byxc', around, depth.weight[:, 0]).flatten(1, 2)
    sums = sums @ torch.block_diag(*point.weight[..., 0, 0].chunk(3 * HEADS)).T
    wide = torch.cat((own[:, :prefix] * 0, sums), 1).chunk(3, -1)
    q, k, v = (
        torch.cat((split_heads(x, HEADS), split_heads(y, HEADS)), 1)
        for x, y in zip((q, k, v), wide)
    )
    q, k = q.relu() + 1e-6, k.relu() + 1e-6
    y = merge_heads(normalised(q, k, q, k) @ v) @ mixer.proj.linear.weight.T
    norm = mixer.proj.norm
    return (y - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias


def ttt(mixer, q, k, v, maps):
    parts = (split_heads(x, HEADS) for x in (q, k, v))
    y = merge_heads(
        reference.gated_test_time_training(
            *parts, value_hdd=mixer.value_weight, gate_hdd=mixer.gate_weight
        )
    )
    prefix = q.shape[1] - HW[0] * HW[1]
    on_map = [x[:, prefix:].transpose(1, 2).unflatten(-1, HW) for x in maps.extra]
    local = (
        reference.conv_test_time_training(*on_map, weight_C1yx=mixer.conv_weight)
        .flatten(2)
        .transpose(1, 2)
    )
    return torch.cat((y, torch.cat((local.new_zeros(len(y), prefix, C // HEADS), local), 1)), -1)


def transformer_to_ttt(mixer, q, k, v, maps):
    def on_map(x):
        return x[:, x.shape[1] - HW[0] * HW[1] :].transpose(1, 2).unflatten(-1, HW)

    def convolved(x, conv):
        local = (
            F.conv2d(on_map(x), conv.conv.weight, conv.conv.bias, padding=1, groups=C)
            .flatten(2)
            .transpose(1, 2)
        )
        return x + torch.cat((local.new_zeros(len(x), x.shape[1] - local.shape[1], C), local), 1)

    k = F.instance_norm(k.transpose(1, 2), eps=1.0).transpose(1, 2)
    parts = (
        split_heads(x, HEADS) for x in (convolved(q, mixer.q_conv), convolved(k, mixer.k_conv), v)
    )
    return merge_heads(
        reference.swiglu_test_time_training(
            *parts,
            gate_hdd=mixer.gate_weight,
            value_hdd=mixer.value_weight,
            out_hdd=mixer.out_weight,
        )
    )


def differential(mixer, q, k, v, maps):
    def path(q, k, v, gate, factor):
        q, k, v = (split_heads(x, HEADS) for x in (q, k, v))
        q, k, half = F.elu(q) + 1, F.elu(k) + 1, q.shape[-1] // 2
        first, second = (
            normalised(q[..., part], k[..., part], q[..., part], k[..., part]) @ v
            for part in (slice(half), slice(half, None))
        )
        y = F.rms_norm(first - factor * second, (2 * half,), mixer.norm_weight, 1e-5)
        return merge_heads(y) * gate.sigmoid()

    parts = torch.cat((q, k, v, maps.extra[0]), -1)
    local = mixer.local(parts.transpose(1, 2).unflatten(-1, HW)).flatten(2).transpose(1, 2)
    return torch.cat(
        (path(*parts.chunk(4, -1), mixer.factor), path(*local.chunk(4, -1), mixer.local_factor)), -1
    )


def contract_broadcast(mixer, q, k, v, maps):
    """Products of attention matrices between representatives and tokens."""
    scale = (C // HEADS) ** -0.5
    tokens, pooled = split_heads(k, HEADS), cells(split_heads(q, HEADS), maps.hw)
    gather = (scores(pooled, tokens) * scale).softmax(-1)
    moved = pooled + mixer.contraction * (gather @ tokens)
    contracted = (scores(moved, moved) * scale).softmax(-1) @ moved
    return merge_heads(mixer.broadcast * (gather.mT @ contracted))


def token_statistics(mixer, q, k, v, maps):
    return merge_heads(
        reference.token_statistics_attention(
            split_heads(k, HEADS), split_heads(v, HEADS), temperature_h1=mixer.temperature
        )
    )


def hidden_state(mixer, q, k, v, maps):
    states = (maps.extra[0].softmax(1) * k).mT @ v
    inner, z = (states @ mixer.states.weight.T).chunk(2, -1)
    return q @ (inner * F.silu(z) + inner * mixer.skip) @ mixer.out.weight.T


def state_space(mixer, q, k, v, maps):
    gate, step = maps.extra
    weight = F.softplus(step + mixer.step_bias) * mixer.log_rate.exp()
    y = reference.state_space_attention(
        q[:, None],
        k[:, None],
        split_heads(v, HEADS),
        weight_BhN1=weight.mT[..., None],
        skip=mixer.skip,
    )
    y = F.layer_norm(merge_heads(y), v.shape[-1:], mixer.norm.weight, mixer.norm.bias)
    return y * gate


FORMULAS = {
    **{name: (weighted_sum, more) for name, (_, more) in REFERENCES.items()},
    'VisualContrastAttention': (visual_contrast, dict(num_agents=4)),
    'MultiScaleLinearAttention': (multi_scale, {}),
    'TTTAttention': (ttt, {}),
    'TransformerToTTTAttention': (transformer_to_ttt, {}),
    'GatedDifferentialLinearAttention': (differential, {}),
    'ContractBroadcastAttention': (contract_broadcast, dict(num_representatives=4)),
    'TokenStatisticsAttention': (token_statistics, {}),
    'HiddenStateMixer': (hidden_state, dict(num_states=5)),
    'StateSpaceAttention': (state_space, dict(num_states=6)),
}


@pytest.mark.parametrize(
    ('name', 'prefix'),
    [
        *((name, 0) for name in FORMULAS),
        *((name, 1) for name in FORMULAS if name not in WHOLE_MAPS),
    ],
)
def test_outputs_and_gradients_equal_the_explicit_formula(name, prefix):
    """Outputs and gradients of a batch equal those of its images."""
    formula, more = FORMULAS[name]
    mixer = mixer_of(name, **more)
    x = torch.randn(2, prefix + HW[0] * HW[1], C, dtype=torch.float64).requires_grad_()

    def explicit(image):
        y = formula(mixer, *mixer.projections(image[None], HW))
        if name in ('MultiScaleLinearAttention', 'HiddenStateMixer'):  # no last projection
            return y
        return y @ mixer.proj.weight.T + mixer.proj.bias

    found, expected = mixer(x, HW), torch.cat([explicit(image) for image in x])
    leaves = [x, *mixer.parameters()]
    weights = torch.randn_like(found)
    gradients = [torch.autograd.grad((y * weights).sum(), leaves) for y in (found, expected)]
    for ours, theirs in zip((found, *gradients[0]), (expected, *gradients[1]), strict=True):
        torch.testing.assert_close(
            ours, theirs, rtol=0, atol=1e-8 * max(1, theirs.abs().max().item())
        )


@pytest.mark.parametrize(
    'name',
    [
        name
        for name in FORMULAS
        if name
        not in (
            *REJECT_PADDING,
            'TTTAttention',
            'TransformerToTTTAttention',
            'AgentAttention',
            'LinformerAttention',
            # these reject padding, or have tables or blocks
            'PolarityAwareLinearAttention',
            'TokenLevelMultiHeadAttention',
        )
    ],
)
def test_masked_padding_does_not_change_the_output(name):
    mixer = mixer_of(
        name,
        **{option: 1 for option in FORMULAS[name][1] if option in POOLED},
    )
    x, real = (
        torch.randn(1, 3, 4, C, dtype=torch.float64),
        torch.tensor([True, True, True, False]).repeat(3),
    )
    found = mixer(x.flatten(1, 2), (3, 4), real.view(1, 1, 12))[:, real]
    torch.testing.assert_close(found, mixer(x[:, :, :3].flatten(1, 2), (3, 3)))
