"""Exported panoptic and semantic models with queries: the same maps as mmdet's and mmseg's."""

import copy
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from mmengine.config import ConfigDict
from mmengine.structures import InstanceData
from torch.export import Dim

from mmflatten.config import build_model
from mmflatten.engine.setup import load_config
from mmflatten.export.comparison import compare, noise_case
from mmflatten.export.laid_segments import lay_masks, translations
from mmflatten.export.metadata import describe
from mmflatten.export.onnx_files import side_range, write
from mmflatten.export.openvino_core import openvino_core
from mmflatten.export.wrappers import ExportError, wrap
from mmflatten.runtime import RUNTIMES
from mmflatten.runtime.files import ModelFile

CONFIGS = Path(__file__).resolve().parents[2] / 'configs' / 'digits'
PANOPTIC = (
    'mask2former_flatten-swin-nano_digits-panoptic',
    'encoder-mask_flatten-swin-nano_digits-panoptic',
)
FPN = 'panoptic-fpn_flatten-swin-nano_fpn_digits'
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
    fusion, head = model.panoptic_fusion_head, module.head
    settings = dict(object_mask_thr=0.6, iou_thr=0.3, filter_low_score=filters)
    monkeypatch.setattr(fusion, 'test_cfg', settings)
    monkeypatch.setattr(head, 'score_threshold', 0.6)
    monkeypatch.setattr(head, 'least_visible', 0.3)
    monkeypatch.setattr(head, 'filters_pixels', filters)
    logits, masks = queries(40, head.num_classes, (48, 64))
    found = head.join(logits, masks.sigmoid())
    for image in range(2):
        expected = fusion.panoptic_postprocess(logits[image], masks[image]).sem_seg[0]
        torch.testing.assert_close(found[image], expected.long(), rtol=0, atol=0)
    # Several instances, stuff and pixels without a segment.
    assert (found > 2000).any() and (found < 14).any() and (found == 14).any()
    # An image without a certain query has no segments.
    assert (head.join(torch.zeros_like(logits), masks) == 14).all()


def instances(number):
    """Masks of two images that overlap, with scores in falling order and padding in the second."""
    generator = torch.Generator().manual_seed(0)
    masks = torch.randn(2, number, 6, 8, generator=generator)
    masks = F.interpolate(masks, size=(44, 60), mode='bilinear') > 1
    labels = torch.randint(0, 10, (2, number), generator=generator)
    labels[1, number // 2 :] = -1
    masks[0, 1] = False
    masks[0, 3] = masks[0, 2]
    return masks, labels


@pytest.mark.parametrize('most_covered', [0.0, 0.5, 1.0])
def test_laid_segments_agree_with_mmdet(built, most_covered, monkeypatch):
    _, model, module = built(FPN)
    fusion = model.panoptic_fusion_head
    limits = dict(mask_overlap=most_covered, stuff_area_limit=500)
    monkeypatch.setattr(fusion, 'test_cfg', ConfigDict(limits))
    monkeypatch.setattr(module.head, 'least_area', 500)
    masks, labels = instances(12)
    stuff = torch.rand(2, 5, 44, 60, generator=torch.Generator().manual_seed(1))
    stuff[:, 2, :20] += 1
    laid = lay_masks(masks, labels, most_covered)
    found = module.head.join(laid, stuff.argmax(1))
    for image in range(2):
        is_real = labels[image] >= 0
        results = InstanceData(
            bboxes=torch.zeros(int(is_real.sum()), 4),
            scores=torch.linspace(0.9, 0.5, int(is_real.sum())),
            labels=labels[image][is_real],
            masks=masks[image][is_real],
        )
        expected = fusion._predict_single(results, stuff[image]).sem_seg[0]
        torch.testing.assert_close(found[image], expected.long(), rtol=0, atol=0)
    # An instance, several where they may overlap, and stuff of many and of few pixels.
    assert (found > (2000 if most_covered else 1000)).any()
    assert (found == 12).any() and (found == 14).any()
    assert not (found == 10).any()


class Laid(torch.nn.Module):
    def forward(self, masks, labels):
        return lay_masks(masks, labels, 0.5)


def test_laid_segments_agree_in_both_runtimes(tmp_path):
    file = str(tmp_path / 'laid.onnx')
    axes = [Dim(name) for name in ('batch', 'number', 'height', 'width')]
    shapes = (dict(enumerate(axes)), dict(enumerate(axes[:2])))
    program = torch.export.export(Laid(), instances(12), strict=False, dynamic_shapes=shapes)
    torch.onnx.export(
        program, dynamo=True, verbose=False, custom_translation_table=translations()
    ).save(file)
    session = onnxruntime.InferenceSession(file, providers=['CPUExecutionProvider'])
    names = [entry.name for entry in session.get_inputs()]
    core = openvino_core().compile_model(file, 'CPU')
    # An image without instances has one row of padding.
    absent = torch.zeros(1, 1, 9, 7, dtype=torch.bool), torch.full((1, 1), -1)
    for masks, labels in (instances(12), instances(5), absent):
        inputs = [masks.numpy(), labels.numpy()]
        expected = lay_masks(masks, labels, 0.5).numpy()
        (found,) = session.run(None, dict(zip(names, inputs)))
        np.testing.assert_array_equal(found, expected)
        (found,) = core(inputs).values()
        np.testing.assert_array_equal(found, expected)


@pytest.mark.full
@pytest.mark.parametrize('name', (*PANOPTIC, FPN, *SEMANTIC))
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


def test_another_fusion_is_refused(built):
    _, model, _ = built(FPN)
    other = copy.deepcopy(model)
    other.panoptic_fusion_head = torch.nn.Identity()
    with pytest.raises(ExportError, match='panoptic_fusion_head.*Identity'):
        wrap(other)
