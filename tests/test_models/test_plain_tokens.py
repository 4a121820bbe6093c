"""Class token, positions, border and pooling of plain backbones, and norms that turn into batch
norms.
"""

import pytest
import torch
from torch import nn

from mmflatten.models import FLattenDeiT
from mmflatten.models.attention import CrossShapedAttention, Maps
from mmflatten.models.layers import ProgressiveBatchNorm, Residual
from mmflatten.registry import MODELS

SMALL = dict(embed_dims=24, depth=2, num_heads=3)
PATCHES = dict(arch=SMALL, img_size=32, patch_size=8, attn_types='S', drop_path_rate=0.0)


@pytest.fixture
def image():
    return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def build(**kwargs):
    torch.manual_seed(0)
    model = FLattenDeiT(**{**PATCHES, **kwargs})
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model.eval()


def shuffled(image):
    """The same patches in another order."""
    patches = image.unfold(2, 8, 8).unfold(3, 8, 8).flatten(2, 3)[:, :, torch.randperm(16)]
    return patches.unflatten(2, (4, 4)).permute(0, 1, 2, 4, 3, 5).reshape(image.shape)


@pytest.mark.parametrize('with_cls_token', [True, False])
@pytest.mark.parametrize('with_positions', [True, False])
def test_class_token_and_positions_are_two_switches(image, with_cls_token, with_positions):
    model = build(
        with_cls_token=with_cls_token,
        with_positions=with_positions,
        out_type='cls_token' if with_cls_token else 'avg_featmap',
    )
    names = dict(model.named_parameters())
    assert ('embed.cls_token' in names) == with_cls_token
    assert ('embed.position.table' in names) == with_positions
    if with_positions:
        assert names['embed.position.table'].shape == (1, 16 + with_cls_token, 24)
    torch.manual_seed(1)
    (before,), (after,) = model(image), model(shuffled(image))
    assert torch.allclose(before, after, atol=1e-5) != with_positions


def test_mean_before_and_after_the_norm(image):
    tokens = dict(with_cls_token=False)
    before, after = build(out_type='avg_featmap', **tokens), build(out_type='featmap', **tokens)
    x, hw_shape = before.embed(image)
    for block in before.blocks:
        x = block(x, hw_shape)
    torch.testing.assert_close(before(image)[0], before.norms['1'](x.mean(1)))
    torch.testing.assert_close(after(image)[0].mean((2, 3)), after.norms['1'](x).mean(1))
    with pytest.raises(ValueError, match='out_type'):
        FLattenDeiT(**PATCHES, **tokens)


def test_border_adds_patches_of_zeros_that_maps_do_not_show(image):
    model = build(border=1, with_cls_token=False, out_type='featmap')
    tokens, hw_shape = model.embed(image)
    assert hw_shape == (6, 6) and model.embed.position.table.shape == (1, 36, 24)
    border = (
        tokens.unflatten(1, (6, 6))[:, 0] - model.embed.position.table.unflatten(1, (6, 6))[:, 0]
    )
    torch.testing.assert_close(border, model.embed.projection.bias.expand_as(border))
    (maps,) = model(image)
    assert maps.shape == (2, 24, 4, 4) and maps.is_contiguous()
    assert model(torch.randn(1, 3, 20, 41))[0].shape == (1, 24, 3, 6)
    with pytest.raises(ValueError, match='border'):
        build(border=-1)


def test_progressive_norm_moves_from_layer_to_batch_norm():
    torch.manual_seed(0)
    norm = ProgressiveBatchNorm(6, steps=4)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    for step in range(7):
        x, weight = torch.randn(3, 5, 6, requires_grad=True), max(1 - step / 4, 0)
        flat = x.detach().flatten(0, 1)
        batch = (flat - flat.mean(0)) / (flat.var(0, unbiased=False) + 1e-5).sqrt()
        batch = batch * norm.batch_norm.weight + norm.batch_norm.bias + norm.alpha * flat
        expected = weight * norm.layer_norm(flat) + (1 - weight) * batch
        torch.testing.assert_close(norm(x).flatten(0, 1), expected)
    norm.eval()
    x, y = torch.randn(2, 3, 5, 6)
    # linear but for a shift
    torch.testing.assert_close(norm(x + y) - norm(y), norm(x) - norm(torch.zeros_like(x)))
    other = ProgressiveBatchNorm(6, steps=9)
    other.load_state_dict(norm.state_dict())
    assert other.steps == 4


def test_evaluation_uses_batch_norm_at_any_step():
    norm = ProgressiveBatchNorm(6, steps=100).eval()
    x = torch.randn(2, 5, 6)
    torch.testing.assert_close(norm(x), x / (1 + 1e-5) ** 0.5 + x)


def test_image_convolution_of_inline_cswin_reads_the_input_before_the_norm():
    torch.manual_seed(0)
    mixer = CrossShapedAttention(24, 2, (4, 4), split=None, mixer=dict(type='InLineAttention'))
    block, x = Residual(mixer, nn.LayerNorm(24)).eval(), torch.randn(2, 16, 24)
    seen = []
    mixer.branches[0].mixer.dwc.weights.register_forward_pre_hook(
        lambda _, inputs: seen.append(inputs[0])
    )
    block(x, (4, 4))
    torch.testing.assert_close(seen[0][..., 0], x.mean(1))


MIXER = dict(embed_dims=24, num_heads=3, grid_size=(4, 5))


def mixer_of(type, **kwargs):
    torch.manual_seed(0)
    mixer = MODELS.build(dict(type=type, _scope_='mmflatten', **MIXER, **kwargs))
    for parameter in mixer.parameters():
        nn.init.normal_(parameter, std=0.3)
    return mixer.eval()


@pytest.mark.parametrize('type', ['RankAugmentedLinearAttention', 'PolarityAwareLinearAttention'])
def test_gate_and_local_term_of_gated_mixers_can_be_left_out(type):
    whole, bare = mixer_of(type), mixer_of(type, gated=False)
    state = whole.state_dict()
    assert state['qkv.weight'].shape == (96, 24)
    assert bare.qkv.weight.shape == (72, 24)
    assert bare.lepe is None
    bare.load_state_dict(
        {
            **{key: value for key, value in state.items() if 'lepe' not in key},
            'qkv.weight': state['qkv.weight'][:72],
            'qkv.bias': state['qkv.bias'][:72],
        }
    )
    x, ends = torch.randn(2, 20, 24), []
    bare.proj.register_forward_pre_hook(lambda _, inputs: ends.append(inputs[0]))
    bare(x, (4, 5))
    if whole.lepe is not None:
        ends[0] = ends[0] + whole.lepe(bare.qkv(x)[..., 48:], Maps((4, 5), (4, 5)))
    expected = ends[0] * (x @ state['qkv.weight'][72:].T + state['qkv.bias'][72:])
    torch.testing.assert_close(
        whole(x, (4, 5)), expected @ state['proj.weight'].T + state['proj.bias']
    )


@pytest.mark.parametrize(
    'type',
    [
        'RankAugmentedLinearAttention',
        'MagnitudeAwareLinearAttention',
        'NormAwareLinearAttention',
        'ExponentialPolarityAttention',
        'GatedSoftmaxAttention',
    ],
)
def test_interpolated_positions_change_larger_maps_alone(type):
    plain, interpolated = mixer_of(type, gated=False), mixer_of(type, gated=False, interpolate=True)
    small, large = torch.randn(2, 20, 24), torch.randn(2, 80, 24)
    torch.testing.assert_close(interpolated(small, (4, 5)), plain(small, (4, 5)))
    assert not torch.allclose(interpolated(large, (8, 10)), plain(large, (8, 10)), atol=1e-3)
    with pytest.raises(TypeError, match='interpolate'):  # it has a table, which is resized
        mixer_of('PolarityAwareLinearAttention', interpolate=True)


@pytest.mark.parametrize(
    'type, whole, bare',
    [
        ('InLineAttention', {}, dict(image_conv=False)),
        ('PolarityAwareLinearAttention', dict(gated=False), dict(gated=False, kernel_size=None)),
    ],
)
def test_attentions_without_their_local_term(type, whole, bare):
    whole, bare = mixer_of(type, **whole), mixer_of(type, **bare)
    bare.load_state_dict(
        {key: value for key, value in whole.state_dict().items() if not key.startswith('dwc')}
    )
    x, ends = torch.randn(2, 20, 24), []
    for mixer in (whole, bare):
        mixer.proj.register_forward_pre_hook(lambda _, inputs: ends.append(inputs[0]))
        mixer(x, (4, 5))
    values = whole.qkv(x)[..., 48:72]
    local = (
        whole.dwc(values, x.mean(1), (4, 5))
        if type == 'InLineAttention'
        else whole.dwc(values, Maps((4, 5), (4, 5)))
    )
    torch.testing.assert_close(ends[0] - ends[1], local, rtol=1e-4, atol=1e-5)
