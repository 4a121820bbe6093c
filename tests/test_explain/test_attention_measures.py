"""Measures behind the figures of the papers, on layers with known results."""

import math

import pytest
import torch
from attention_study.focal_levels import is_focal, level_shares, pooled_biases
from attention_study.measures import SHARES, concentration, distribution, focusing, mean, ranks
from torch import nn

from mmflatten.explain.attention import AttentionLayer, entropy, rank, singular_values
from mmflatten.models.attention import build_mixer


def layer(kind, size=(8, 12), prefix=0, **arguments):
    torch.manual_seed(0)
    mixer = (
        build_mixer(dict(type=kind, embed_dims=8, num_heads=2, grid_size=size, **arguments))
        .double()
        .eval()
    )
    return AttentionLayer(
        'layer', mixer, torch.randn(1, prefix + size[0] * size[1], 8, dtype=torch.float64), size
    )


def equal_weights(**arguments):
    made = layer(**arguments)
    for parameter in made.module.parameters():
        nn.init.zeros_(parameter)
    return made


def focal(**arguments):
    made = layer('FocalAttention', window_size=4, focal_window=3, expand_size=2, **arguments)
    for parameter in made.module.parameters():
        parameter.data += torch.randn_like(parameter)
    return made


def written_out(made):
    """Weights of window, neighbours, pooled levels and prefix tokens, computed from the softmax."""
    mixer = made.module
    rows, cols = (-(-side // 4) for side in made.hw)
    # (1, S, h, d)
    q, k, _ = mixer.qkv(mixer.listed(made.x, made.hw)).unflatten(2, (3, 2, 4)).unbind(2)
    keys, visible = mixer._keys(mixer._grid(made.hw), made.prefix)
    logits = (
        torch.einsum('wnhd,wmhd->hwnm', q[0, : rows * cols * 16].unflatten(0, (-1, 16)), k[0][keys])
        / 2
    )
    logits = logits + mixer._bias(made.prefix)[:, None]
    if visible is not None:
        logits = logits.masked_fill(~visible, -torch.inf)
    weights = logits.softmax(-1)
    pooled = [len(table.index[0]) for table in mixer.pooled_bias]
    neighbours = weights.shape[-1] - 16 - sum(pooled) - made.prefix
    return [
        part.sum(-1).mean((1, 2))
        for part in weights.split([16, neighbours, *pooled, made.prefix], dim=-1)
    ]


@pytest.mark.parametrize(
    'arguments',
    [
        {},
        dict(shift=True),
        dict(focal_levels=3, prefix=2),
        dict(global_=False),
        dict(neighbor_boundary='mask'),
    ],
)
def test_fractions_of_focal_levels_equal_those_of_the_softmax(arguments):
    made = focal(**arguments)
    found = level_shares(made)
    names = {
        2: ['window', 'neighbours'],
        3: ['window', 'neighbours', 'pooled 1'],
        5: ['window', 'neighbours', 'pooled 1', 'pooled 2', 'prefix'],
    }
    assert list(found) == names[len(found)] and ('prefix' in found) == ('prefix' in arguments)
    for share, expected in zip(found.values(), written_out(made)):
        torch.testing.assert_close(share, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(sum(found.values()), torch.ones(2, dtype=torch.float64))


def test_biases_of_pooled_tokens_are_means_over_the_window():
    made = focal(focal_levels=3)
    for level, (bias, module) in enumerate(
        zip(pooled_biases(made), made.module.pooled_bias, strict=True)
    ):
        side = 3 + 2**level - 1
        table = module.table.detach().view(2, 4 + side - 1, 4 + side - 1)
        for y, x in ((0, 0), (1, 2), (side - 1, 0)):
            expected = table[:, side - 1 - y : side + 3 - y, side - 1 - x : side + 3 - x].mean(
                (1, 2)
            )
            torch.testing.assert_close(bias[:, y, x], expected)


def test_other_attentions_have_no_levels_and_no_focus():
    other = layer('LinearAttention')
    assert is_focal(focal()) and not is_focal(other)
    with pytest.raises(ValueError, match=r'layer .*LinearAttention'):
        focusing(other)


def test_ranks_include_the_convolution():
    made = layer('FocusedLinearAttention')
    found = ranks(made)
    assert found['largest'] == 96 and found['attention']['rank'] <= 4 < found['both']['rank']
    assert found['both']['rank'] == rank(singular_values(made, 'both')).double().mean().item()
    assert set(ranks(layer('LinearAttention'))) == {'largest', 'attention'}


def test_concentration_of_equal_weights_and_of_the_identity():
    found = concentration(equal_weights(kind='SoftmaxAttention'))
    assert (
        found['entropy'] == pytest.approx(found['uniform_entropy']) == pytest.approx(math.log(96))
    )
    assert found['distance'] == pytest.approx(found['uniform_distance'])
    assert distribution(equal_weights(kind='SoftmaxAttention'))['held'] == pytest.approx(SHARES)
    identity = layer('CrossCovarianceAttention')
    found = concentration(identity)
    assert found['entropy'] == found['distance'] == 0
    assert distribution(identity)['held'] == [0] + [pytest.approx(1)] * 20


def test_higher_powers_focus_the_weights():
    made = layer('FocusedLinearAttention')
    before = entropy(made).mean().item()
    found = focusing(made, powers=(1, 3, 9))
    assert found['entropy'][1] == pytest.approx(before) and found['trained'] == 3
    assert found['entropy'][0] > found['entropy'][1] > found['entropy'][2]
    assert made.module.focusing_factor == 3 and entropy(made).mean().item() == before


def test_mean_of_records_keeps_their_structure():
    records = [dict(a=1.0, b=[1, 2], c='x', d=dict(e=2)), dict(a=3.0, b=[1, 4], c='x', d=dict(e=2))]
    assert mean(records) == dict(a=2.0, b=[1, 3.0], c='x', d=dict(e=2))
