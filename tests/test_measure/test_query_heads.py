"""Costs of deformable attention and of heads with queries, against hand counts and published
numbers.
"""

import pytest
import torch
from mmcv.ops import MultiScaleDeformableAttention

from mmflatten.config import read_config
from mmflatten.measure.flops import count_operations
from mmflatten.measure.flops.meta import build_on_meta
from mmflatten.measure.flops.model_cost import count_model
from mmflatten.measure.flops.rules import LINEAR, OTHER, PRODUCT
from mmflatten.measure.known_values import KnownValues
from mmflatten.measure.meta_memory import planned_memory


def sizes_on_meta(*maps):
    """Sizes of maps as mmdet computes them: shapes as tensors, on the device of the maps."""
    features = [torch.empty(1, 2, *size, device='meta') for size in maps]
    sizes = [torch._shape_as_tensor(feature)[2:].to(feature.device) for feature in features]
    return torch.cat(sizes).view(-1, 2)


def test_sizes_of_maps_keep_their_values_on_the_meta_device():
    with KnownValues():
        sizes = sizes_on_meta((3, 4), (2, 5))
        assert sizes.is_meta
        areas = sizes.prod(1)
        starts = torch.cat([areas.new_zeros(1), areas.cumsum(0)[:-1]])
        assert [int(start) for start in starts] == [0, 12]
        assert [(int(h), int(w)) for h, w in sizes] == [(3, 4), (2, 5)]
        assert (sizes[:, 0] * sizes[:, 1]).sum() == 22
        assert torch.linspace(0.5, sizes[0, 1] - 0.5, sizes[0, 1], device='meta').shape == (4,)
        sizes += 1
        assert sizes[1, 1].item() == 6


def test_values_are_unknown_where_an_input_has_none():
    with KnownValues():
        sizes = sizes_on_meta((3, 4))
        unknown = torch.empty(1, 2, dtype=torch.long, device='meta')
        with pytest.raises(RuntimeError, match='meta'):
            (sizes + unknown)[0, 0].item()
        sizes.copy_(unknown)
        with pytest.raises(RuntimeError, match='meta'):
            sizes[0, 0].item()


def attend(device: str):
    """Deformable attention of 7 queries to maps of 3 x 4 and 2 x 2."""
    module = MultiScaleDeformableAttention(
        embed_dims=8, num_heads=2, num_levels=2, num_points=3, batch_first=True
    ).to(device)
    query, value = (torch.zeros(1, tokens, 8, device=device) for tokens in (7, 16))
    sizes = torch.tensor([[3, 4], [2, 2]])
    points = torch.zeros(1, 7, 2, 2, device=device)
    options = dict(value=value, reference_points=points, spatial_shapes=sizes.to(device))
    return module, query, options


@pytest.mark.parametrize('device', ['cpu', 'meta'])
def test_deformable_attention_equals_the_hand_count(device):
    with KnownValues():  # the values of `sizes` on the meta device
        module, query, options = attend(device)
        counts = count_operations(module.eval(), query, **options)
    queries, tokens, channels, points = 7, 16, 8, 2 * 2 * 3  # of all heads, levels and points
    projections = 2 * channels * points + channels * points + channels * channels
    assert counts.by_kind[LINEAR] == queries * projections + tokens * channels * channels
    assert counts.by_kind[PRODUCT] == queries * 2 * 3 * channels
    assert counts.by_kind[OTHER] == 4 * queries * 2 * 3 * channels
    assert not counts.uncounted


def model_of(base: str, tmp_path):
    """Build a model of OpenMMLab's own config on the meta device."""
    config = tmp_path / 'upstream.py'
    config.write_text(f'_base_ = {base!r}\n')
    config = read_config(str(config))
    return build_on_meta(config.model, config.default_scope)


def test_mask2former_equals_the_printed_cost_of_a_crop_of_ade20k(tmp_path):
    """The paper prints 71 G with ResNet-50. Its code counts norms, as the papers' convention does,
    and the product that merges 100 masks of the size of the crop into 150 maps of classes.
    """
    model = model_of('mmseg::mask2former/mask2former_r50_8xb2-160k_ade20k-512x512.py', tmp_path)
    counts = count_model(model, (512, 512)).counts
    merging = 100 * 150 * 512 * 512
    assert round((counts.papers_convention() + merging) / 1e9) == 71
    assert not counts.uncounted


def test_dino_is_close_to_the_printed_cost(tmp_path):
    """The paper prints 279 G with ResNet-50, the mean of images of COCO in its code's own
    convention.
    """
    model = model_of('mmdet::dino/dino-4scale_r50_8xb2-12e_coco.py', tmp_path)
    counts = count_model(model, (800, 1280)).counts
    assert counts.macs / 1e9 == pytest.approx(279, rel=0.005)
    assert not counts.uncounted


def test_mask2former_decoder_layer_equals_the_hand_count(tmp_path):
    model = model_of('mmseg::mask2former/mask2former_r50_8xb2-160k_ade20k-512x512.py', tmp_path)
    counts = count_model(model, (64, 96)).counts
    queries, tokens, channels = 100, 2 * 3, 256  # of the coarsest map
    cross = counts.of_module('decode_head.transformer_decoder.layers.0.cross_attn')
    assert cross[LINEAR] == 2 * (queries + tokens) * channels**2
    assert cross[PRODUCT] == 2 * queries * tokens * channels
    own = counts.of_module('decode_head.transformer_decoder.layers.0.self_attn')
    assert own[LINEAR] == 4 * queries * channels**2
    assert own[PRODUCT] == 2 * queries**2 * channels
    # a mask of stride 4 for each query, before the first and after each of nine layers
    masks = 10 * queries * (16 * 24) * channels
    assert counts.by_module['decode_head'][PRODUCT] == masks


def test_planned_memory_of_deformable_attention():
    with KnownValues():
        module, query, options = attend('meta')
        assert planned_memory(lambda: module(query, **options)) > 0
