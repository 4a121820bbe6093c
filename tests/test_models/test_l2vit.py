"""L2ViT: comparison of blocks with explicit formulas, parameter counts, options."""

import copy

import pytest
import torch
import torch.nn.functional as F

from mmflatten.models.attention import ClampedLinearAttention, SoftmaxAttention, Windowed
from mmflatten.models.backbones import L2ViT
from mmflatten.models.layers import LocalConcentration, NormalizedConv

ARCH = dict(embed_dims=12, depths=(2, 2, 2, 2), num_heads=(1, 2, 3, 6))


def small(arch=ARCH, **kwargs):
    torch.manual_seed(0)
    return L2ViT(arch, **kwargs)


def randomise(module, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.data = 0.3 * torch.randn(
            parameter.shape, generator=generator, dtype=parameter.dtype
        )
    for name, statistics in module.named_buffers():
        if name.endswith('running_mean'):
            statistics.copy_(
                torch.randn(statistics.shape, generator=generator, dtype=statistics.dtype)
            )
    return module.eval()


def count(**kwargs):
    with torch.device('meta'):
        model = L2ViT(out_indices=(3,), **kwargs)
    return sum(p.numel() for p in model.parameters()) + 1000 * (model.out_channels[-1] + 1)


@pytest.mark.parametrize(
    ('kwargs', 'expected'),
    [
        (dict(arch='tiny'), 28_596_781),
        (dict(arch='small'), 50_199_157),
        (dict(arch='base'), 88_577_188),
        (dict(arch='base', window_size=12, img_size=384), 88_577_188),
        (dict(arch='tiny', conv_stem=False), 28_558_285),
    ],
)
def test_l2vit_parameter_counts_are_official(kwargs, expected):
    assert count(**kwargs) == expected


@pytest.mark.parametrize(
    ('kwargs', 'millions'),
    [
        (dict(arch=dict(embed_dims=64, depths=(4, 4, 18, 4), num_heads=(2, 4, 8, 16))), 29.54),
        (dict(), 24.91),
        (dict(conv_stem='4L'), 24.92),
        (dict(conv_stem='4L', last_projection=True), 26.35),
        (dict(conv_stem='4L', last_projection=1280, overlapped_downsample=True), 27.21),
    ],
)
def test_l2vit_parameter_counts_of_model_augmentations(kwargs, millions):
    assert round(count(**{'arch': 'deep-narrow', **kwargs}) / 1e6, 2) == millions


@pytest.mark.parametrize(
    ('kwargs', 'millions'),
    [
        (dict(block_order='WV', conv_stem=False), 28),
        (dict(block_order='WC'), 29),
        (dict(conv_stem=False, temperature=False, lcm_kernel=0), 28),
        (dict(temperature=False, lcm_kernel=None), 28),
        (dict(lcm_kernel=0), 28),
        (dict(), 29),
        (dict(lcm_kernel=0, mlp='pvt_v2'), 29),
        (dict(lcm_kernel=0, mlp='local'), 29),
    ],
)
def test_l2vit_parameter_counts_of_ablations(kwargs, millions):
    assert round(count(**kwargs) / 1e6) == millions


def explicit_clamped_attention(mixer, x):
    B, N, C = x.shape
    q, k, v = mixer.qkv(x).view(B, N, 3, mixer.num_heads, -1).permute(2, 0, 3, 1, 4)
    scores = q.relu() @ k.relu().transpose(-2, -1)
    out = (
        scores
        @ v
        / scores.sum(-1, keepdim=True).clamp(min=mixer.min_denominator)
        * mixer.temperature
    )
    return mixer.proj(out.transpose(1, 2).flatten(2))


@pytest.mark.parametrize('min_denominator', [1e-6, 3.0, 100.0])
@pytest.mark.parametrize('hw_shape', [(1, 1), (3, 7), (9, 9)])
def test_clamped_linear_attention_matches_explicit_formula(hw_shape, min_denominator):
    mixer = randomise(
        ClampedLinearAttention(12, 3, hw_shape, min_denominator=min_denominator).double()
    )
    x = torch.randn(2, hw_shape[0] * hw_shape[1], 12, dtype=torch.float64)
    out, expected = mixer(x, hw_shape), explicit_clamped_attention(mixer, x)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)
    ours, references = (
        torch.autograd.grad(y.square().sum(), list(mixer.parameters())) for y in (out, expected)
    )
    for gradient, reference in zip(ours, references):
        torch.testing.assert_close(gradient, reference, rtol=1e-9, atol=1e-9)


def test_clamped_linear_attention_bound_affects_only_small_maps():
    """The bound applies to the sum over tokens, which is 400 times as large for a map repeated 400
    times.
    """
    free, bound = (
        randomise(ClampedLinearAttention(12, 3, (4, 4), min_denominator=value))
        for value in (1e-6, 20.0)
    )
    x = torch.randn(1, 16, 12)
    assert not torch.allclose(free(x, (4, 4)), bound(x, (4, 4)), atol=1e-3)
    many = x.repeat(1, 400, 1)
    assert (free(many, (80, 80)) - bound(many, (80, 80))).abs().mean() < 1e-3


def test_clamped_linear_attention_temperature_starts_from_head_width():
    mixer = ClampedLinearAttention(12, 3, (4, 4))
    assert mixer.temperature.flatten().tolist() == [0.5] * 3
    plain = ClampedLinearAttention(12, 3, (4, 4), temperature=False)
    plain.load_state_dict({k: v for k, v in mixer.state_dict().items() if k != 'temperature'})
    mixer.temperature.data.fill_(1.0)
    x = torch.randn(1, 16, 12)
    torch.testing.assert_close(plain(x, (4, 4)), mixer(x, (4, 4)))


def test_clamped_linear_attention_adds_local_concentration():
    mixer = randomise(ClampedLinearAttention(12, 3, (4, 4), lcm_kernel=3))
    x = torch.randn(2, 1 + 35, 12)
    out = mixer(x, (5, 7))
    alone = copy.deepcopy(mixer)
    alone.lcm = None
    y = alone(x, (5, 7))
    torch.testing.assert_close(out[:, :1], y[:, :1])  # convolutions skip the class token
    torch.testing.assert_close(out, y + mixer.lcm(mixer.lcm_norm(y), (5, 7)))
    assert not torch.allclose(out[:, 1:], y[:, 1:])


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_clamped_linear_attention_is_finite_in_half_precision(dtype):
    mixer = randomise(ClampedLinearAttention(12, 3, (40, 40)))
    x = (1e3 * torch.randn(1, 1600, 12)).requires_grad_()
    with torch.autocast('cpu', dtype=dtype):
        out = mixer(x, (40, 40))
    out.float().sum().backward()
    assert out.isfinite().all() and x.grad.isfinite().all()


def depthwise(x, conv):
    return F.conv2d(
        x, conv.weight, conv.bias, padding=conv.weight.shape[-1] // 2, groups=x.shape[1]
    )


def batch_norm(x, norm):
    return F.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=1e-5)


def test_local_concentration_matches_explicit_formula():
    module = randomise(LocalConcentration(6, 7).double())
    x = torch.randn(2, 5 * 9, 6, dtype=torch.float64)
    y = batch_norm(
        F.gelu(depthwise(x.transpose(1, 2).reshape(2, 6, 5, 9), module.conv1)), module.norm
    )
    expected = depthwise(y, module.conv2).flatten(2).transpose(1, 2)
    torch.testing.assert_close(module(x, (5, 9)), expected, rtol=1e-10, atol=1e-10)


def test_local_mlp_matches_explicit_formula():
    module = randomise(NormalizedConv(6).double())
    x = torch.randn(2, 5 * 9, 6, dtype=torch.float64)
    y = depthwise(
        F.gelu(batch_norm(x.transpose(1, 2).reshape(2, 6, 5, 9), module.norm1)), module.conv
    )
    expected = F.gelu(batch_norm(y, module.norm2)).flatten(2).transpose(1, 2)
    torch.testing.assert_close(module(x, (5, 9)), expected, rtol=1e-10, atol=1e-10)


def encode(x, block, name, H, W):
    conv = getattr(block, name).fn.conv
    return x + depthwise(x.transpose(1, 2).reshape(x.shape[0], -1, H, W), conv).flatten(
        2
    ).transpose(1, 2)


def normed(x, branch):
    return F.layer_norm(x, x.shape[-1:], branch.norm.weight, branch.norm.bias, eps=1e-5)


def mlp(x, branch):
    fc1, fc2 = branch.fn.fc1, branch.fn.fc2
    return x + fc2(F.gelu(F.linear(normed(x, branch), fc1.weight, fc1.bias)))


def test_l2vit_window_block_matches_explicit_formula():
    block = randomise(small(window_size=4).stages[1].blocks[0].double())
    H, W, C = 6, 9, 24
    x = torch.randn(2, H * W, C, dtype=torch.float64)
    s = encode(x, block, 'cpe', H, W)
    mixer = block.attn.fn.mixer
    padded = F.pad(normed(s, block.attn).view(2, H, W, C), (0, 0, 0, 3, 0, 2))
    windows = padded.view(2, 2, 4, 3, 4, C).transpose(2, 3).reshape(12, 16, C)
    # the keys of padding are the bias
    q, k, v = mixer.qkv(windows).view(12, 16, 3, 2, 12).permute(2, 0, 3, 1, 4)
    y = ((q @ k.transpose(-2, -1)) * 12**-0.5).softmax(-1) @ v
    y = (
        mixer.proj(y.transpose(1, 2).flatten(2))
        .view(2, 2, 3, 4, 4, C)
        .transpose(2, 3)
        .reshape(2, 8, 12, C)
    )
    s = encode(s + y[:, :H, :W].reshape(2, H * W, C), block, 'cpe2', H, W)
    torch.testing.assert_close(block(x, (H, W)), mlp(s, block.ffn), rtol=1e-9, atol=1e-9)


def test_l2vit_linear_block_matches_explicit_formula():
    block = randomise(small(lcm_kernel=5).stages[1].blocks[1].double())
    H, W = 6, 9
    x = torch.randn(2, H * W, 24, dtype=torch.float64)
    s = encode(x, block, 'cpe', H, W)
    s = s + explicit_clamped_attention(block.attn.fn, normed(s, block.attn))
    s = s + block.lcm.fn(normed(s, block.lcm), (H, W))
    torch.testing.assert_close(block(x, (H, W)), mlp(s, block.ffn), rtol=1e-9, atol=1e-9)


def test_l2vit_blocks_follow_block_order():
    model = small(dict(ARCH, depths=(5, 1, 1, 1)), block_order='WVLC', window_size=3)
    blocks = model.stages[0].blocks
    assert [type(getattr(b.attn.fn, 'mixer', b.attn.fn)) for b in blocks] == [
        SoftmaxAttention,
        SoftmaxAttention,
        ClampedLinearAttention,
        SoftmaxAttention,
        SoftmaxAttention,
    ]
    assert [isinstance(b.attn.fn, Windowed) and b.attn.fn.shift for b in blocks] == [
        False,
        True,
        False,
        False,
        False,
    ]
    names = [list(dict(b.named_children())) for b in blocks]
    window, linear = ['cpe', 'attn', 'cpe2', 'ffn'], ['cpe', 'attn', 'lcm', 'ffn']
    assert names == [window, window, linear, linear, window]


def test_l2vit_mask_padding_changes_only_padded_maps():
    images = {size: torch.randn(1, 3, size, size) for size in (64, 72)}
    models = [
        randomise(small(window_size=4, block_order='W', mask_padding=mask, out_indices=(0,)))
        for mask in (False, True)
    ]
    for size, same in ((64, True), (72, False)):
        a, b = (model(images[size])[0] for model in models)
        assert torch.allclose(a, b) == same


def test_l2vit_last_projection_is_only_for_classification(tmp_path):
    classifier = small(out_indices=(3,), last_projection=40)
    (out,) = classifier(torch.randn(2, 3, 65, 97))
    assert out.shape == (2, 40, 3, 4) and classifier.out_channels == (40,) and out.min() == 0
    assert small(out_indices=(0, 3), last_projection=40).out_channels == (12, 40)
    assert small(out_indices=(0, 1), last_projection=40).out_channels == (12, 24)
    path = str(tmp_path / 'classifier.pth')
    torch.save(
        {'state_dict': {f'backbone.{k}': v for k, v in classifier.state_dict().items()}}, path
    )
    detector = small(init_cfg=dict(type='Pretrained', checkpoint=path, prefix='backbone.'))
    detector.init_weights()
    assert torch.equal(
        detector.stages[3].embed.projection.weight, classifier.stages[3].embed.projection.weight
    )


@pytest.mark.parametrize(('stem', 'layers'), [(True, 2), ('4L', 4), (False, 1), ('overlapped', 1)])
def test_l2vit_stems_have_stride_4(stem, layers):
    embed = small(conv_stem=stem).stages[0].embed
    assert sum(isinstance(module, torch.nn.Conv2d) for module in embed.modules()) == layers
    tokens, hw_shape = embed(torch.randn(2, 3, 33, 65))
    assert hw_shape == (9, 17) and tokens.shape == (2, 9 * 17, 12)


def test_l2vit_downsampling_matches_explicit_formula():
    embed = randomise(small().stages[1].embed.double())
    x = torch.randn(2, 12, 5, 8, dtype=torch.float64)
    y = F.layer_norm(
        x.permute(0, 2, 3, 1), (12,), embed.input_norm.weight, embed.input_norm.bias, eps=1e-5
    )
    y = F.pad(y.permute(0, 3, 1, 2), (0, 0, 0, 1))
    expected = F.conv2d(y, embed.projection.weight, embed.projection.bias, stride=2)
    tokens, hw_shape = embed(x)
    assert hw_shape == (3, 4)
    torch.testing.assert_close(tokens, expected.flatten(2).transpose(1, 2), rtol=1e-10, atol=1e-10)


def test_l2vit_initial_values_are_official():
    model = small('tiny', out_indices=(1,))
    model.init_weights()
    for weight in (
        model.stages[0].embed.convs[3].weight,
        model.stages[1].blocks[1].lcm.fn.conv1.weight,
        model.stages[0].blocks[0].ffn.fn.fc1.weight,
    ):
        assert weight.std().item() == pytest.approx(0.02, rel=0.1)
    biases = [p for name, p in model.named_parameters() if name.endswith('.bias')]
    assert not any(bias.any() for bias in biases)


def test_l2vit_checkpointing_updates_batch_norm_once():
    plain, recomputed = (small(with_cp=with_cp, drop_path_rate=0.0) for with_cp in (False, True))
    for model in (plain, recomputed):
        model(torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0)))[
            -1
        ].sum().backward()
    for (name, a), (_, b) in zip(plain.named_buffers(), recomputed.named_buffers()):
        torch.testing.assert_close(a, b, msg=name)
    norm = recomputed.stages[0].blocks[1].lcm.fn.norm
    assert norm.num_batches_tracked == 1 and norm.momentum == 0.1


def test_l2vit_accepts_another_linear_attention():
    model = small(linear_attention=dict(type='FocusedLinearAttention', kernel_size=3), img_size=64)
    assert type(model.stages[0].blocks[1].attn.fn).__name__ == 'FocusedLinearAttention'
    assert model(torch.randn(1, 3, 65, 97))[0].shape == (1, 12, 17, 25)


@pytest.mark.parametrize(
    ('kwargs', 'message'),
    [
        (dict(block_order='WX'), r"block_order.*'WX'"),
        (dict(block_order=''), r"block_order.*''"),
        (dict(conv_stem='3L'), r"conv_stem.*'3L'"),
        (dict(mlp='wide'), r"mlp.*'wide'"),
        (dict(window_size=0), r'window_size.*0'),
        (dict(window_size=(7, 7)), r'window_size.*\(7, 7\)'),
        (dict(last_projection=-4), r'last_projection.*-4'),
        (dict(min_denominator=0.0), r'min_denominator.*0.0'),
        (dict(lcm_kernel=4), r'kernel_size.*4'),
    ],
)
def test_l2vit_rejects_invalid_arguments(kwargs, message):
    with pytest.raises(ValueError, match=message):
        small(**kwargs)
