"""The weights of the newer attentions are those of their explicit formulas."""
import pytest
import torch
import torch.nn.functional as F

from mmflatten.analysis.attention import AttentionProbe
from mmflatten.models.attention import build_mixer
from mmflatten.ops import merge_heads, split_heads
from mmflatten.ops import reference as twins

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
    return twins.rotary_2d(q, maps.hw, **options), twins.rotary_2d(k, maps.kv_hw, **options)


def normalised(q, k, rotated_q, rotated_k):
    """Rotated scores over the sums of the plain ones."""
    return scores(rotated_q, rotated_k) / (scores(q, k).sum(-1, keepdim=True) + 1e-6 * k.shape[-2])


def elu(*tensors):
    return [torch.where(x > 0, x + 1, x.exp()) for x in tensors]


def gated_softmax(mixer, q, k, maps):
    q, k = rotated(q, k, maps)
    return (scores(q, k) * q.shape[-1] ** -.5).softmax(-1)


def rala(mixer, q, k, maps):
    q, k = elu(q, k)
    weights = (k * q.mean(-2, keepdim=True)).sum(-1, keepdim=True).mul(q.shape[-1] ** -.5).softmax(-2) * k.shape[-2]
    return normalised(q, k * weights, *rotated(q, k * weights, maps))


def mala(mixer, q, k, maps):
    q, k = elu(q, k)
    M, t = k.shape[-2], (scores(q, k) * q.shape[-1] ** -.5).mean(-1, keepdim=True)
    return ((1 + 1 / (t + 1e-6)) * scores(*rotated(q, k, maps)) * q.shape[-1] ** -.5 - t) / M


def signed(x):
    return torch.cat((x.clamp(min=0), (-x).clamp(min=0)), -1)


def opposite(x):
    return torch.cat(x.chunk(2, -1)[::-1], -1)


def polaformer(mixer, q, k, maps):
    k = split_heads(mixer.positional_encoding(merge_heads(k), maps.kv_hw), HEADS)
    scale = split_heads(F.softplus(mixer.scale), HEADS)
    power = 1 + 4 * torch.cat([mixer.power.sigmoid()] * 2, -1)
    q, k = (signed(x / scale) ** power for x in (q, k))
    return sum(normalised(x, k, x, k) for x in (q, opposite(q))) / 2  # the mean over the two halves of the channels


def polaformer_pp(mixer, q, k, maps):
    q, k = signed(q), signed(k).exp() - 1
    maps_of = [(x * scale.sigmoid()).exp() - 1 for x, scale in zip((q, opposite(q)), mixer.scales)]
    return sum(normalised(x, k, *rotated(x, k, maps)) for x in maps_of) / 2


def nala(mixer, q, k, maps):
    length = q.norm(dim=-1, keepdim=True)
    q, k = signed(q / length) ** (3 * (.5 + length.tanh())), signed(k ** 3)
    halves = [torch.cat(parts, -1) for parts in zip(*(
        rotated(a, b, maps) for a, b in zip(q.chunk(2, -1), k.chunk(2, -1))))]
    return normalised(q, k, *halves)


def agent(mixer, q, k, maps):
    prefix = q.shape[-2] - maps.hw[0] * maps.hw[1]
    on_map = q[:, :, prefix:].flatten(0, 1).transpose(-2, -1).unflatten(-1, maps.hw)
    agents = F.adaptive_avg_pool2d(on_map, 2).flatten(2).transpose(-2, -1).unflatten(0, q.shape[:2])
    scale = q.shape[-1] ** -.5

    def bias(table, hw):
        fine, coarse = (F.interpolate(x, size=hw, mode='bilinear') for x in (table.rows + table.cols, table.grid))
        return (fine + coarse).flatten(2)

    gather = scores(agents, k) * scale + F.pad(bias(mixer.key_bias, maps.kv_hw), (prefix, 0))
    ask = scores(q, agents) * scale + F.pad(bias(mixer.query_bias, maps.hw), (prefix, 0)).transpose(-2, -1)
    return ask.softmax(-1) @ gather.softmax(-1)


def inline(mixer, q, k, maps):
    products = scores(q, k) * q.shape[-1] ** -.5
    return (products + 1 - products.mean(-1, keepdim=True)) / k.shape[-2]


def mhla(mixer, q, k, maps):
    def features(x, weight):
        x = merge_heads(x)
        return split_heads((x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight).clamp(min=0) + 1e-6, HEADS)

    q, k = features(q, mixer.q_norm), features(k, mixer.k_norm)
    one_hot = torch.eye(k.shape[-2], dtype=q.dtype).expand(*k.shape[:2], -1, -1)
    return twins.block_linear_attention(q, k, one_hot, mixing_bb=mixer.mixing, hw_shape=maps.hw, kv_shape=maps.kv_hw)


def mila(mixer, q, k, maps):
    q, k = elu(q, k)
    turned = (split_heads(x, HEADS) for x in rotated(merge_heads(q), merge_heads(k), maps, last_frequency=False))
    return normalised(q, k, *turned)


def circulant(mixer, q, k, maps):
    q, k = merge_heads(q), merge_heads(k)
    N = q.shape[1]
    columns = [twins.circulant_attention(q, k, one_hot.expand(1, N, C), hw_shape=maps.hw)
               for one_hot in torch.eye(N, dtype=q.dtype)[:, :, None]]
    return split_heads(torch.stack(columns, -1).flatten(2), 1).unflatten(-1, (HEADS, -1, N)).mean(-2)[:, 0].transpose(
        1, 2)


def one_hot(q):
    return torch.eye(q.shape[-2], dtype=q.dtype).expand(*q.shape[:2], -1, -1)


def cells(x, hw):
    prefix = x.shape[-2] - hw[0] * hw[1]
    on_map = x[:, :, prefix:].flatten(0, 1).transpose(-2, -1).unflatten(-1, hw)
    return F.adaptive_avg_pool2d(on_map, 2).flatten(2).transpose(-2, -1).unflatten(0, x.shape[:2])


def nystrom(mixer, q, k, maps):
    return twins.nystrom_attention(q, k, one_hot(k), q_landmarks_Bhad=cells(q, maps.hw),
                                   k_landmarks_Bhad=cells(k, maps.kv_hw))


def performer(mixer, q, k, maps):
    def features(x):
        root = x.shape[-1] ** .25
        exponents = x @ mixer.features.T / root - x.square().sum(-1, keepdim=True) / 2 / root ** 2
        top = exponents.amax(-1, keepdim=True) if x is q else exponents.amax((-2, -1), keepdim=True)
        return ((exponents - top).exp() + 1e-4) / len(mixer.features) ** .5

    return normalised(features(q), features(k), features(q), features(k))


def linformer(mixer, q, k, maps):
    prefix = k.shape[-2] - maps.kv_hw[0] * maps.kv_hw[1]

    def sums(table):
        rows = F.interpolate(table.table.transpose(1, 2).unflatten(-1, (4, 4)), size=maps.kv_hw, mode='bilinear')
        rows = rows[0].flatten(1) * 16 / (maps.kv_hw[0] * maps.kv_hw[1])
        return torch.block_diag(torch.eye(prefix, dtype=q.dtype), rows) if prefix else rows

    return (q @ (sums(mixer.key_sums) @ k).transpose(-2, -1) * q.shape[-1] ** -.5).softmax(-1) @ sums(mixer.value_sums)


def manhattan(mixer, q, k, maps):
    width, place = q.shape[-1] // 2, torch.arange(q.shape[-2], dtype=q.dtype)
    angles = place[:, None] * 10000 ** -torch.linspace(0, 1, width, dtype=q.dtype)
    turned = (torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (width, 2)).contiguous()) * torch.polar(
        torch.ones_like(angles), angles)).flatten(-2) for x in (q, k))
    decay = (1 - 2 ** (-2 - 4 * torch.arange(HEADS, dtype=q.dtype) / HEADS)).log()
    return twins.manhattan_attention(*turned, one_hot(k), decay_h=decay, hw_shape=maps.hw)


def neighborhood(mixer, q, k, maps):
    return twins.neighborhood_attention(q, k, one_hot(k), hw_shape=maps.hw, kernel_size=3, dilation=2, bias=mixer.bias)


def routing(mixer, q, k, maps):
    """Regions of 2 x 3 tokens, of which the last row is cut off and the last column has one token."""
    place = torch.arange(35)
    region = place // 7 // 2 * 3 + place % 7 // 3
    means = [torch.stack([merge_heads(x)[0, region == r].mean(0) for r in range(9)]) for x in (q, k)]
    routes = (means[0] @ means[1].T).topk(2).indices
    allowed = (routes[region][:, :, None] == region).any(1)
    return (scores(q, k) * C ** -.5).masked_fill(~allowed, -torch.inf).softmax(-1)


TWINS = {
    'GatedSoftmaxAttention': (gated_softmax, {}), 'RankAugmentedLinearAttention': (rala, {}),
    'MagnitudeAwareLinearAttention': (mala, {}), 'PolarityAwareLinearAttention': (polaformer, {}),
    'ExponentialPolarityAttention': (polaformer_pp, {}), 'NormAwareLinearAttention': (nala, {}),
    'AgentAttention': (agent, dict(num_agents=4)), 'InLineAttention': (inline, {}),
    'TokenLevelMultiHeadAttention': (mhla, dict(num_blocks=4)), 'MambaInspiredLinearAttention': (mila, {}),
    'CirculantAttention': (circulant, {}),
    'NystromAttention': (nystrom, dict(num_landmarks=4)), 'PerformerAttention': (performer, {}),
    'LinformerAttention': (linformer, dict(num_keys=5)), 'ManhattanAttention': (manhattan, {}),
    'NeighborhoodAttention': (neighborhood, dict(kernel_size=3, dilation=2)),
    'BiLevelRoutingAttention': (routing, dict(num_regions=3, topk=2)),
}
WHOLE_MAPS = ('MambaInspiredLinearAttention', 'CirculantAttention', 'ManhattanAttention', 'NeighborhoodAttention',
              'BiLevelRoutingAttention')


@pytest.mark.parametrize(('name', 'sr_ratio', 'prefix'), [
    (name, *case) for name in TWINS for case in ((1, 0), (1, 1), (2, 0)) if case == (1, 0) or name not in WHOLE_MAPS])
def test_weights_are_those_of_the_formula(name, sr_ratio, prefix):
    twin, more = TWINS[name]
    mixer = mixer_of(name, **({} if name in WHOLE_MAPS else dict(sr_ratio=sr_ratio)), **more)
    layer = layer_of(mixer, prefix)
    q, k, _, maps = mixer.projections(layer.x, HW)
    with torch.no_grad():
        expected = twin(mixer, split_heads(q, HEADS), split_heads(k, HEADS), maps)[0]
    torch.testing.assert_close(layer.matrix(), expected, rtol=0, atol=1e-6 * expected.abs().max().item())


def test_weights_of_test_time_training_are_its_derivatives_without_values():
    """It is no linear function of the values: the rows are those of its first order around values of 0."""
    layer = layer_of(mixer_of('TTTAttention'))
    assert layer.matrix().shape == (HEADS, 35, 35) and layer.matrix().isfinite().all()
