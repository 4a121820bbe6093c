"""Exported panoptic and semantic models with queries: the same maps as mmdet's and mmseg's."""

import copy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from mmflatten.config import build_model
from mmflatten.engine.setup import load_config
from mmflatten.export.comparison import compare, noise_case
from mmflatten.export.metadata import describe
from mmflatten.export.onnx_files import side_range, write
from mmflatten.export.wrappers import ExportError, wrap
from mmflatten.runtime import RUNTIMES
from mmflatten.runtime.files import ModelFile

CONFIGS = Path(__file__).resolve().parents[2] / 'configs' / 'digits'
PANOPTIC = (
    'mask2former_flatten-swin-nano_digits-panoptic',
    'encoder-mask_flatten-swin-nano_digits-panoptic',
)
SEMANTIC = (
    'mask2former_flatten-swin-nano_digits-semantic',
    'encoder-mask_vit-nano_digits-semantic',
)


@pytest.fixture(scope='module')
def built(tmp_path_factory):
    """Function that builds the model of a digit config and its exported module once."""
    folder = tmp_path_factory.mktemp('queries')
    models = {}

    def build(name):
        if name not in models:
            cfg = load_config(str(CONFIGS / f'{name}.py'), work_dir=str(folder))
            torch.manual_seed(0)
            model = build_model(cfg).eval()
            for key, parameter in model.named_parameters():
                if parameter.dim() > 1:
                    torch.nn.init.normal_(parameter, std=0.15)
                if key.endswith(('cls_embed.weight', 'class_head.weight')):
                    parameter.data.mul_(6)  # otherwise no class is certain enough for a segment
            # The export replaces some modules.
            models[name] = cfg, copy.deepcopy(model), wrap(model).eval()
        return models[name]

    return build


def images_of(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0)) * 255


@pytest.mark.parametrize('name', SEMANTIC)
def test_logits_of_queries_agree_with_mmseg(built, name):
    _, model, module = built(name)
    images = images_of(2, 3, 83, 101)
    inputs = module.prepare(images)
    shape = tuple(inputs.shape[-2:])
    metas = [dict(img_shape=shape, pad_shape=shape, ori_shape=shape) for _ in images]
    with torch.no_grad():
        (logits,) = module(images)
        expected = model.encode_decode(inputs, metas)[..., :83, :101]
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)


def queries(number, num_classes, size):
    """Class logits and smooth masks of queries, some of them certain."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, number, num_classes + 1, generator=generator) * 6
    logits[..., -1] -= 3
    masks = torch.randn(2, number, size[0] // 8, size[1] // 8, generator=generator) * 4 - 5
    return logits, F.interpolate(masks, size=size, mode='bilinear')


@pytest.mark.parametrize('filters', [False, True])
def test_segments_of_queries_agree_with_mmdet(built, filters, monkeypatch):
    _, model, module = built(PANOPTIC[0])
    fusion = model.panoptic_fusion_head
    settings = dict(object_mask_thr=0.6, iou_thr=0.3, filter_low_score=filters)
    monkeypatch.setattr(fusion, 'test_cfg', settings)
    monkeypatch.setattr(module, 'score_threshold', 0.6)
    monkeypatch.setattr(module, 'least_visible', 0.3)
    monkeypatch.setattr(module, 'filters_pixels', filters)
    logits, masks = queries(40, module.num_classes, (48, 64))
    found = module._segments(logits, masks.sigmoid())
    for image in range(2):
        expected = fusion.panoptic_postprocess(logits[image], masks[image]).sem_seg[0]
        torch.testing.assert_close(found[image], expected.long(), rtol=0, atol=0)
    # Several instances, stuff and pixels without a segment.
    assert (found > 2000).any() and (found < 14).any() and (found == 14).any()
    # An image without a certain query has no segments.
    assert (module._segments(torch.zeros_like(logits), masks) == 14).all()


@pytest.mark.full
@pytest.mark.parametrize('name', (*PANOPTIC, *SEMANTIC))
def test_file_agrees_with_pytorch_at_open_sizes(built, tmp_path, name):
    cfg, _, module = built(name)
    file = tmp_path / 'model.onnx'
    side = side_range(module)[0] + 31
    write(module, file, describe(module, cfg, {}, size=(side, side), dynamic=True))
    odd = noise_case(module, (side + 11, side + 37), batch=3)
    for runtime in RUNTIMES:
        engine = ModelFile(file, runtime)
        for case in (noise_case(module, (side, side)), odd):
            compare('', module, engine, case)


def test_panoptic_fpn_is_refused_with_the_fusion(tmp_path):
    config = CONFIGS / 'panoptic-fpn_flatten-swin-nano_fpn_digits.py'
    cfg = load_config(str(config), work_dir=str(tmp_path))
    with pytest.raises(ExportError, match='panoptic_fusion_head.*HeuristicFusionHead'):
        wrap(build_model(cfg))
