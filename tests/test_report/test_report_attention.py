"""What the viewer decodes is what the layers attend, for every kind of map, and fits into its budget."""
import base64
import itertools
import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.registry import DefaultScope

from mmflatten.apis import Predictor
from mmflatten.building import build_model
from mmflatten.engine.setup import load_config
from mmflatten.explain.attention import AttentionProbe, effective_rank, singular_values
from mmflatten.explain.attention.statistics import head_statistics
from mmflatten.explain.maps import probe_image
from mmflatten.registry import MODELS
from mmflatten.report.attention import attention_data, packed, tokens_of, unpack

CONFIG = Path(__file__).parents[2] / 'configs' / 'digits' / 'flatten-swin-nano-mixed_digits.py'
SMALL = dict(embed_dims=16, depths=(1, 1), num_heads=(2, 4))
BACKBONES = dict(
    class_token=dict(type='FLattenDeiT', patch_size=8, arch=dict(embed_dims=16, depth=2, num_heads=2)),
    reduced_keys=dict(type='FLattenPVT', arch=dict(SMALL, embed_dims=(16, 32), mlp_ratios=(2, 2)), attn_types='LS',
                      linear_sr_ratios=(2, 1), sr_ratios=(2, 2), with_cls_token=True, out_indices=(1,)),
    windows=dict(type='FLattenSwin', arch=SMALL, attn_types='SS', softmax_window=4, out_indices=(1,)),
    negative=dict(type='FLattenSwin', arch=SMALL, attn_types='LL', out_indices=(1,),
                  linear_attention=dict(type='SimAAttention')),
    many_heads=dict(type='FLattenSwin', arch=dict(SMALL, embed_dims=36, num_heads=(2, 2)), attn_types='LL',
                    out_indices=(1,), linear_attention=dict(type='HydraAttention')))


def layers_of(name):
    torch.manual_seed(0)
    model = MODELS.build(dict(BACKBONES[name], img_size=32)).eval()
    with AttentionProbe(model) as probe, torch.no_grad():
        model(torch.randn(1, 3, 41, 50))
    return probe.layers


def blocks_of(row, prefix, kv_hw, stored):
    """Prefix weights, then the mean of each block of the map, one by one."""
    weights = row[prefix:].reshape(kv_hw)
    edges = [[number * size // new for number in range(new + 1)] for size, new in zip(kv_hw, stored)]
    means = [weights[top:bottom, left:right].mean() for top, bottom in zip(edges[0], edges[0][1:])
             for left, right in zip(edges[1], edges[1][1:])]
    return np.array([*row[:prefix], *means])


@pytest.mark.parametrize('side', [24, 6])
@pytest.mark.parametrize('name', BACKBONES)
def test_decoded_rows_are_those_of_the_layer(name, side):
    for layer in layers_of(name):
        data = json.loads(json.dumps(packed(layer, side)))
        tokens = tokens_of(layer, data['grid'])
        rows = layer.rows(tokens).numpy()
        rows = np.concatenate((rows.mean(1, keepdims=True), rows[:, :32]), axis=1)
        decoded = unpack(data)
        assert decoded.shape[:2] == rows.shape[:2]
        assert data['signed'] == bool((rows < 0).any()) and (data['signed'] or name != 'negative')
        pairs = zip(rows.reshape(-1, layer.num_keys), decoded.reshape(-1, decoded.shape[-1]))
        for row, found in itertools.islice(pairs, 0, None, 13):
            wanted = blocks_of(row, layer.prefix, layer.kv_hw, data['stored'])
            step = np.abs(wanted).max() / (127 if data['signed'] else 255)
            np.testing.assert_allclose(found, wanted, rtol=0, atol=step / 2 * 1.001)
        if side == 24:
            assert data['grid'] == list(layer.hw) and data['stored'] == list(layer.kv_hw)
            assert tokens == list(range(layer.num_queries))
        else:
            assert max(np.prod(data['grid']), np.prod(data['stored'])) <= 36


def test_a_query_of_the_grid_lies_in_its_cell():
    layer = layers_of('windows')[0]  # of 11 x 13 tokens
    tokens = np.array(tokens_of(layer, (5, 6))).reshape(5, 6)
    places = np.stack((tokens // 13, tokens % 13), axis=-1)
    assert np.all(np.floor((places + .5) / (11, 13) * (5, 6)) == np.stack(np.mgrid[:5, :6], axis=-1))


@pytest.fixture(scope='module')
def predictor(tmp_path_factory) -> Predictor:
    cfg, file = load_config(str(CONFIG)), tmp_path_factory.mktemp('weights') / 'weights.pth'
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope(cfg.default_scope):
        torch.save(dict(state_dict=build_model(cfg).state_dict()), file)
    return Predictor(str(CONFIG), file, 'cpu')


@pytest.fixture(scope='module')
def photo() -> np.ndarray:
    return cv2.resize(np.random.default_rng(0).integers(0, 255, (8, 10, 3), np.uint8), (120, 96))


def characters(data):
    return sum(len(image['picture']) + sum(len(layer[name]) for layer in image['layers']
                                           for name in ('weights', 'scales', 'sums')) for image in data['images'])


def test_data_of_a_predictor_keep_to_the_budget_and_have_its_statistics(predictor, photo):
    small = attention_data(predictor, [photo, photo[:, ::-1]], 60_000, queries=8)
    large = attention_data(predictor, [photo], queries=8)
    assert characters(small) <= 60_000 < characters(large)
    assert large['images'][0]['layers'][0]['grid'] == [16, 16]
    image, probe = large['images'][0], probe_image(predictor, photo)[0]
    assert image['size'] == [64, 64] and image['picture'].startswith('data:image/webp;base64,')
    for number, layer in enumerate(probe.layers):
        data, found = image['layers'][number], large['layers'][number]
        sums = np.frombuffer(base64.b64decode(data['sums']), '<f4').reshape(-1, 1 + layer.num_heads)
        wanted = layer.rows(tokens_of(layer, data['grid'])[:3]).sum(-1)
        np.testing.assert_allclose(sums[:3, 1:], wanted, rtol=1e-4)
        assert found['effective_rank'] == pytest.approx(float(effective_rank(singular_values(layer)).mean()), rel=1e-3)
        assert 0 < found['entropy'] <= 1 + 1e-6
        uniform = head_statistics(layer, 8)[0]['uniform_distance']
        assert found['uniform_distance'] == pytest.approx(uniform)


def test_a_budget_for_nothing_is_named(predictor, photo):
    with pytest.raises(ValueError, match='budget') as raised:
        attention_data(predictor, [photo], 1_000)
    assert str(1_000) in str(raised.value)
