"""Data of the attention viewer: rows of every kind of map, their budget, and statistics of the layers."""
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
from mmflatten.report.attention import attention_data, packed, tokens_of

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


def unpack(data):
    """Weights (queries, heads, keys), scales and sums (queries, heads), decoded as the page does."""
    queries = data['prefix'] + data['grid'][0] * data['grid'][1]
    codes = np.frombuffer(base64.b64decode(data['codes']), np.int8).reshape(queries, data['heads'], -1)
    rows = np.frombuffer(base64.b64decode(data['rows']), '<f4').reshape(queries, data['heads'], 2)
    return codes / 127 * rows[..., :1], rows[..., 0], rows[..., 1]


def blocks_of(row, prefix, kv_hw, stored):
    """Prefix weights, then the mean of each block of the map, one by one."""
    weights = row[prefix:].reshape(kv_hw)
    edges = [[(number * size // new, -(-(number + 1) * size // new)) for number in range(new)]
             for size, new in zip(kv_hw, stored)]
    return np.array([*row[:prefix], *(weights[top:bottom, left:right].mean()
                                      for top, bottom in edges[0] for left, right in edges[1])])


@pytest.mark.parametrize('side', [24, 6])
@pytest.mark.parametrize('name', BACKBONES)
def test_decoded_rows_are_those_of_the_layer(name, side):
    for layer in layers_of(name):
        data = json.loads(json.dumps(packed(layer, side)))
        tokens = tokens_of(layer, data['grid'])
        rows = layer.rows(tokens).numpy()
        rows = np.concatenate((rows.mean(1, keepdims=True), rows[:, :32]), axis=1)
        decoded, scales, sums = unpack(data)
        assert decoded.shape[:2] == rows.shape[:2]
        np.testing.assert_allclose(sums, rows.sum(-1), rtol=1e-4, atol=1e-6)
        assert data['signed'] == bool((rows < 0).any()) and (data['signed'] or name != 'negative')
        pairs = zip(rows.reshape(-1, layer.num_keys), decoded.reshape(-1, decoded.shape[-1]), scales.reshape(-1))
        for row, found, scale in itertools.islice(pairs, 0, None, 13):
            wanted = blocks_of(row, layer.prefix, layer.kv_hw, data['stored'])
            np.testing.assert_allclose(found, wanted, rtol=0, atol=np.abs(wanted).max() / 127 / 2 * 1.001)
            assert scale == pytest.approx(np.abs(wanted).max(), rel=1e-5)
        if side == 24:
            assert data['grid'] == list(layer.hw) and data['stored'] == list(layer.kv_hw)
            assert tokens == list(range(layer.num_queries))
        else:
            assert max(np.prod(data['grid']), np.prod(data['stored'])) <= 36


def test_query_of_the_grid_lies_in_its_cell():
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


def characters(images):
    return sum(len(layer[name]) for image in images for layer in image['layers'] for name in ('codes', 'rows'))


def test_data_keep_to_the_budget_and_have_the_statistics_of_their_layers(predictor, photo):
    small, _ = attention_data(predictor, dict(one=photo, two=photo[:, ::-1]), 60_000, queries=8)
    (image,), statistics = attention_data(predictor, dict(one=photo), queries=8)
    assert characters(small) <= 60_000 < characters([image])
    assert image['layers'][0]['grid'] == (16, 16)
    probe, _ = probe_image(predictor, photo)
    assert image['size'] == (64, 64) and image['picture'].startswith('data:image/webp;base64,')
    for layer, found in zip(probe.layers, statistics, strict=True):
        assert found['effective_rank'] == pytest.approx(float(effective_rank(singular_values(layer)).mean()), rel=1e-3)
        assert 0 < found['entropy'] <= 1 + 1e-6
        uniform = head_statistics(layer, 8)[0]['uniform_distance']
        assert found['uniform_distance'] == pytest.approx(uniform)
