"""Focal attention against an explicit sum over keys, and Focal Transformer's sizes, tables and
options.
"""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from mmflatten.models.attention import FocalAttention
from mmflatten.models.backbones import FocalTransformer
from mmflatten.models.layers import NeighborBias, PooledBias
from mmflatten.ops import neighbor_offsets


def randomise(module, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.data = 0.3 * torch.randn(
            parameter.shape, generator=generator, dtype=parameter.dtype
        )
    return module.eval()


def pooled_maps(mixer, x_BHWC, grid):
    """Pooled maps of every level, computed cell by cell."""
    maps = []
    for level, pool in enumerate(mixer.pools):
        side, cells = mixer.window_size // 2**level, [count * 2**level for count in grid]
        start = [(have - count * side) // 2 for have, count in zip(x_BHWC.shape[1:3], cells)]
        cells_pooled = []
        for i, j in itertools.product(range(cells[0]), range(cells[1])):
            top, left = start[0] + i * side, start[1] + j * side
            tokens = x_BHWC[:, top : top + side, left : left + side].flatten(1, 2)
            cells_pooled.append(torch.einsum('k,bkc->bc', pool.weight[0], tokens) + pool.bias)
        maps.append(torch.stack(cells_pooled, dim=1).unflatten(1, cells))
    return maps


def keys_of(mixer, y, x, hw_shape, map_size):
    """Position, pooling level (None for fine) and bias of every key that the query at `(y, x)`
    attends to.
    """
    yield from window_keys(mixer, y, x, hw_shape)
    if mixer.neighbor_bias is not None:
        yield from neighbor_keys(mixer, y, x, hw_shape, map_size)
    for level in range(len(mixer.pooled_bias)):
        yield from pooled_keys(mixer, level, y, x, hw_shape, map_size)


def window_keys(mixer, y, x, hw_shape):
    ws = mixer.window_size
    (wy, qy), (wx, qx) = divmod(y, ws), divmod(x, ws)
    table = mixer.relative_position_bias.table
    for ky, kx in itertools.product(range(ws), range(ws)):
        real = wy * ws + ky < hw_shape[0] and wx * ws + kx < hw_shape[1]
        if real or not mixer.mask_padding:
            offset = (qy - ky + ws - 1) * (2 * ws - 1) + qx - kx + ws - 1
            yield (wy * ws + ky, wx * ws + kx), None, table[offset]


def neighbor_keys(mixer, y, x, hw_shape, map_size):
    ws = mixer.window_size
    (wy, qy), (wx, qx) = divmod(y, ws), divmod(x, ws)
    for slot, (dy, dx) in enumerate(neighbor_offsets(ws, mixer.neighbor_bias.expand)):
        ky, kx = wy * ws + dy, wx * ws + dx
        on_map = 0 <= ky < map_size[0] and 0 <= kx < map_size[1]
        ky, kx = ky % map_size[0], kx % map_size[1]
        real = ky < hw_shape[0] and kx < hw_shape[1]
        if (mixer.wrap or on_map and real) and (real or not mixer.mask_padding):
            yield (ky, kx), None, mixer.neighbor_bias.table[0, :, qy * ws + qx, slot]


def pooled_keys(mixer, level, y, x, hw_shape, map_size):
    ws, bias = mixer.window_size, mixer.pooled_bias[level]
    (wy, qy), (wx, qx) = divmod(y, ws), divmod(x, ws)
    step, side = 2**level, ws // 2**level
    region = mixer.focal_window + step - 1
    cells = [size // ws * step for size in map_size]
    start = [(size - count * side) // 2 for size, count in zip(map_size, cells)]
    if bias.side <= region:  # one bias per pooled token, for all queries
        qy = qx = 0
    for a, b in itertools.product(range(region), range(region)):
        ky = wy * step - mixer.focal_window // 2 + a
        kx = wx * step - mixer.focal_window // 2 + b
        if not (0 <= ky < cells[0] and 0 <= kx < cells[1]):
            continue
        real = start[0] + ky * side < hw_shape[0] and start[1] + kx * side < hw_shape[1]
        if real or mixer.wrap and not mixer.mask_padding:
            offset = (qy - a + region - 1) * bias.side + qx - b + region - 1
            yield (ky, kx), level, bias.get_parameter(bias.name)[:, offset]


def explicit_focal_attention(mixer, x, hw_shape):
    """The mixer without a shift, one query at a time."""
    B, _, C = x.shape
    h, ws = mixer.num_heads, mixer.window_size
    grid = [math.ceil(side / ws) for side in hw_shape]
    map_size = [count * ws for count in grid]
    x = F.pad(
        x.view(B, *hw_shape, C), (0, 0, 0, map_size[1] - hw_shape[1], 0, map_size[0] - hw_shape[0])
    )
    maps = {
        None: mixer.qkv(x),
        **{level: mixer.qkv(pooled) for level, pooled in enumerate(pooled_maps(mixer, x, grid))},
    }
    rows = []
    for y in range(hw_shape[0]):
        for column in range(hw_shape[1]):
            keys = list(keys_of(mixer, y, column, hw_shape, map_size))
            kv = torch.stack([maps[level][:, ky, kx] for (ky, kx), level, _ in keys], dim=1)
            q = maps[None][:, y, column].view(B, 3, h, -1)[:, 0]
            k, v = kv.view(B, len(keys), 3, h, -1)[:, :, 1:].unbind(2)
            logits = torch.einsum('bhd,bkhd->bhk', q, k) * q.shape[-1] ** -0.5
            weights = (logits + torch.stack([bias for _, _, bias in keys], dim=-1)).softmax(-1)
            rows.append(torch.einsum('bhk,bkhd->bhd', weights, v).flatten(1))
    return mixer.proj(torch.stack(rows, dim=1))


@pytest.mark.parametrize('hw_shape', [(8, 4), (5, 7), (3, 4), (2, 2)])
@pytest.mark.parametrize(
    'options',
    [
        {},
        dict(focal_levels=3),
        dict(focal_levels=1),
        dict(local=False),
        dict(global_=False),
        dict(local=False, global_=False),
        dict(expand_size=4),
        dict(expand_size=1, focal_window=1),
        dict(neighbor_boundary='mask', focal_levels=3),
        dict(mask_padding=True, focal_levels=3),
        dict(neighbor_boundary='mask', mask_padding=True),
        dict(bias_by_query=False, focal_levels=3),
    ],
)
def test_focal_attention_equals_explicit_sum_over_keys(options, hw_shape):
    options = {**dict(window_size=4, focal_window=3, expand_size=2), **options}
    mixer = randomise(FocalAttention(6, 2, (8, 8), **options).double())
    x = torch.randn(
        2,
        hw_shape[0] * hw_shape[1],
        6,
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(1),
    )
    expected = explicit_focal_attention(mixer, x, hw_shape)
    out = mixer(x, hw_shape)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)
    parameters = list(mixer.parameters())
    ours, references = (
        torch.autograd.grad(y.square().sum(), parameters, materialize_grads=True)
        for y in (out, expected)
    )
    for gradient, reference in zip(ours, references):
        torch.testing.assert_close(gradient, reference, rtol=1e-9, atol=1e-9)


def test_focal_shift_equals_rolling_the_map():
    """Away from the border, shifted windows give the rolled result; at the border some keys are
    masked.
    """
    plain, shifted = (
        randomise(
            FocalAttention(
                6, 2, (8, 8), window_size=4, focal_window=3, expand_size=2, shift=shift
            ).double()
        )
        for shift in (False, True)
    )
    x = torch.randn(1, 12 * 12, 6, dtype=torch.float64)
    rolled = x.view(1, 12, 12, 6).roll((-2, -2), (1, 2)).flatten(1, 2)
    expected = plain(rolled, (12, 12)).view(1, 12, 12, 6).roll((2, 2), (1, 2))
    out = shifted(x, (12, 12)).view(1, 12, 12, 6)
    torch.testing.assert_close(out[:, 2:10, 2:10], expected[:, 2:10, 2:10])
    edge = (out - expected).abs().amax((0, 3))
    assert edge[:2].min() > 1e-6 and edge[:, 10:].min() > 1e-6


def neighbourhood(mixer, hw_shape, query):
    """Tokens that change the result at a position, by differentiation, `(H, W)`."""
    x = torch.randn(1, hw_shape[0] * hw_shape[1], 6, dtype=torch.float64, requires_grad=True)
    out = mixer(x, hw_shape)[0].unflatten(0, hw_shape)[query].square().sum()
    return torch.autograd.grad(out, x)[0][0].abs().sum(-1).view(hw_shape) > 0


@pytest.mark.parametrize('shift', [False, True])
def test_focal_neighbor_boundary_mask_separates_opposite_sides(shift):
    for boundary, expected in (('wrap', True), ('mask', False)):
        mixer = randomise(
            FocalAttention(
                6,
                2,
                (8, 8),
                window_size=4,
                expand_size=2,
                global_=False,
                shift=shift,
                neighbor_boundary=boundary,
            ).double()
        )
        assert neighbourhood(mixer, (12, 12), (1, 1))[-1].any() == expected
        assert neighbourhood(mixer, (12, 12), (11, 5))[0].any() == expected
        # The last window contains one row of the map, and padding.
        if not shift:
            assert neighbourhood(mixer, (9, 12), (8, 5))[0].any() == expected


def test_focal_class_tokens_attend_and_are_attended():
    mixer = randomise(
        FocalAttention(6, 2, (8, 8), window_size=4, focal_window=3, expand_size=2).double()
    )
    x = torch.randn(2, 2 + 5 * 9, 6, dtype=torch.float64)
    out = mixer(x, (5, 9))
    assert out.shape == x.shape
    x2 = x.clone()
    x2[:, 0] += 1.0
    assert (mixer(x2, (5, 9)) - out).abs().amax(-1).min() > 1e-6
    q, k, v = mixer.qkv(x).view(2, 47, 3, 2, 3).permute(2, 0, 3, 1, 4)
    alone = ((q[:, :, :2] @ k.transpose(-2, -1)) * 3**-0.5).softmax(-1) @ v
    torch.testing.assert_close(out[:, :2], mixer.proj(alone.transpose(1, 2).flatten(2)))


def count(head=True, **kwargs):
    with torch.device('meta'):
        model = FocalTransformer(out_indices=(3,), **kwargs)
    return sum(p.numel() for p in model.parameters()) + head * 1000 * (model.out_channels[-1] + 1)


@pytest.mark.parametrize(
    ('kwargs', 'expected'),
    [
        (dict(arch='tiny'), 28_880_380),
        (dict(arch='tiny', conv_embed=True), 30_825_244),
        (dict(arch='small'), 51_141_940),
        (dict(arch='small', conv_embed=True), 53_086_804),
        (dict(arch='base'), 89_815_400),
        (dict(arch='base', conv_embed=True), 93_268_712),
    ],
)
def test_focal_parameters_match_official_classes(kwargs, expected):
    assert count(**kwargs) == expected


@pytest.mark.parametrize(
    ('arch', 'millions'), [('tiny', 28.442), ('small', 50.725), ('base', 89.260)]
)
def test_focal_detection_backbones_match_official_parameters(arch, millions):
    kwargs = dict(head=False, arch=arch, focal_windows=(15, 13, 9, 7))
    total = count(expand_always=True, **kwargs)
    assert round(total / 1e6, 3) == millions
    assert count(img_size=(800, 1280), **kwargs) == total
    assert count(**kwargs) < total


def test_focal_local_and_global_keys_are_optional():
    full, window = count(), count(local=False, global_=False)
    without_local, without_global = count(local=False), count(global_=False)
    assert window < without_local < full and window < without_global < full
    assert (full - without_local) + (full - without_global) == full - window
    assert count(focal_levels=1) == without_global and count(expand_size=0) == without_local


def test_focal_deeper_third_stage_adds_the_parameters_of_the_paper():
    counts = [
        count(arch=dict(embed_dims=96, depths=(2, 2, depth, 2), num_heads=(3, 6, 12, 24)))
        for depth in (2, 4, 6)
    ]
    # Table 8: 21.7, 25.4 and 29.1 M, each a little more than the official classes have.
    assert [round((b - a) / 1e6, 1) for a, b in zip(counts, counts[1:])] == [3.7, 3.7]


ARCH = dict(embed_dims=12, depths=(1, 1, 1, 1), num_heads=(1, 2, 3, 6))


def small(**kwargs):
    torch.manual_seed(0)
    return FocalTransformer(ARCH, **kwargs)


def test_focal_detector_loads_classifier_weights(tmp_path):
    classifier = small(out_indices=(3,))
    path = str(tmp_path / 'classifier.pth')
    torch.save(
        {'state_dict': {f'backbone.{k}': v for k, v in classifier.state_dict().items()}}, path
    )
    settings = dict(
        focal_windows=(15, 13, 9, 7),
        init_cfg=dict(type='Pretrained', checkpoint=path, prefix='backbone'),
    )
    detector = small(expand_always=True, **settings)
    detector.init_weights()
    for stage in range(4):
        old, new = (
            model.stages[stage].blocks[0].attn.fn.pooled_bias[0].table
            for model in (classifier, detector)
        )
        sides = [round(table.shape[1] ** 0.5) for table in (old, new)]
        expected = F.interpolate(
            old.view(1, -1, sides[0], sides[0]), size=sides[1], mode='bilinear'
        )
        torch.testing.assert_close(new, expected[0].flatten(1))
    for stage in range(3):
        pair = [
            model.stages[stage].blocks[0].attn.fn.neighbor_bias.table
            for model in (classifier, detector)
        ]
        assert torch.equal(*pair)
    fresh = detector.stages[3].blocks[0].attn.fn.neighbor_bias.table
    assert fresh.shape == (1, 6, 49, 132) and 0.01 < fresh.std() < 0.03
    assert [out.shape[-2:] for out in detector(torch.randn(1, 3, 96, 160))] == [
        (24, 40),
        (12, 20),
        (6, 10),
        (3, 5),
    ]
    with pytest.raises(ValueError, match=r'missing stages.3.blocks.0.attn.fn.neighbor_bias.table'):
        small(img_size=800, **settings).init_weights()


def test_focal_tables_are_resized_to_another_window():
    small, large = NeighborBias(2, 7, 3), NeighborBias(2, 12, 3)
    large.load_state_dict({'table': torch.full_like(small.table, 0.5)})
    torch.testing.assert_close(large.table.detach(), torch.full_like(large.table, 0.5))
    mixers = [FocalAttention(6, 2, (24, 24), window_size=window) for window in (7, 12)]
    mixers[0].pools[0].weight.data = torch.linspace(0, 1, 49)[None]
    mixers[1].load_state_dict(mixers[0].state_dict())
    assert mixers[1].pools[0].weight.shape == (1, 144)
    torch.testing.assert_close(
        *(mixer.pools[0].weight.sum() for mixer in mixers), rtol=0.01, atol=0
    )


def test_neighbor_bias_rejects_tables_of_impossible_size():
    with pytest.raises(ValueError, match='table.* 131'):
        NeighborBias(2, 7, 3).load_state_dict({'table': torch.zeros(1, 2, 49, 131)})


def test_focal_initial_values_match_official_code():
    model = small()
    model.init_weights()
    mixer = model.stages[0].blocks[0].attn.fn
    assert not mixer.relative_position_bias.table.any()
    for table in (mixer.neighbor_bias.table, mixer.pooled_bias[0].table, mixer.pools[0].weight):
        assert 0.01 < table.std() < 0.03
    assert not mixer.pools[0].bias.any()


def test_focal_small_maps_shrink_windows_and_disable_neighbours_and_shift():
    model = small(img_size=96, shift=True, window_size=8)
    mixers = [stage.blocks[0].attn.fn for stage in model.stages]
    assert [mixer.window_size for mixer in mixers] == [8, 8, 6, 3]
    assert [mixer.neighbor_bias is not None for mixer in mixers] == [True, True, False, False]
    deep = FocalTransformer(dict(ARCH, depths=(2, 2, 2, 2)), img_size=96, shift=True, window_size=8)
    assert [stage.blocks[1].attn.fn.shift for stage in deep.stages] == [4, 4, 0, 0]


def test_focal_window_only_attention_is_limited_to_its_window():
    mixer = randomise(
        FocalAttention(6, 2, (8, 8), window_size=4, local=False, global_=False).double()
    )
    expected = torch.zeros(12, 12, dtype=torch.bool)
    expected[4:8, 8:12] = True
    assert torch.equal(neighbourhood(mixer, (12, 12), (5, 9)), expected)
    for options in (dict(local=False), dict(global_=False)):
        wider = randomise(
            FocalAttention(6, 2, (8, 8), window_size=4, expand_size=2, **options).double()
        )
        assert neighbourhood(wider, (12, 12), (5, 9)).sum() > 16


def test_pooled_bias_subtracts_offsets_without_scaling():
    bias = PooledBias(1, 2, 3)
    bias.table.data = torch.arange(16.0).view(1, 16)
    assert bias().shape == (1, 4, 9)
    assert bias()[0, 0].tolist() == [10.0, 9.0, 8.0, 6.0, 5.0, 4.0, 2.0, 1.0, 0.0]
    assert bias()[0, 3, 0] == 15.0


@pytest.mark.parametrize(
    ('kwargs', 'message'),
    [
        (dict(focal_windows=(7, 5)), r'focal_windows.*\(7, 5\)'),
        (dict(focal_windows=(7, 5, 4, 1)), 'focal_window.* 4'),
        (dict(focal_levels=0), 'focal_levels.*0'),
        (dict(focal_levels=5), 'focal_levels.* 5'),
        (dict(expand_size=-1), 'expand_size.*-1'),
        (dict(neighbor_boundary='reflect'), "neighbor_boundary.*'reflect'"),
        (dict(window_size=0), 'window_size.*0'),
    ],
)
def test_focal_transformer_rejects_invalid_arguments(kwargs, message):
    with pytest.raises(ValueError, match=message):
        small(**kwargs)


def test_focal_attention_rejects_reduced_keys_and_masks():
    with pytest.raises(ValueError, match='sr_ratio.* 2'):
        FocalAttention(6, 2, (8, 8), sr_ratio=2)
    with pytest.raises(ValueError, match='mask: FocalAttention'):
        FocalAttention(6, 2, (8, 8))(torch.randn(1, 4, 6), (2, 2), torch.ones(1, 1, 4).bool())
