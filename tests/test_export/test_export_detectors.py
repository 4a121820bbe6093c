"""Exported detectors: the same boxes, scores, labels and masks as mmdet, in the same order."""

from pathlib import Path

import numpy as np
import pytest
import torch
from mmdet.structures import DetDataSample

from mmflatten.config import build_model
from mmflatten.engine.setup import load_config
from mmflatten.export.comparison import TOLERANCE, compare, noise_case
from mmflatten.export.detection.agreement import image_errors
from mmflatten.export.detection.suppression import ABSENT, keep_boxes
from mmflatten.export.metadata import describe
from mmflatten.export.onnx_files import OnnxFile, write
from mmflatten.export.wrappers import wrap

ROOT = Path(__file__).resolve().parents[2]
# One block for each map, because the families of backbones are tested elsewhere.
SMALL = dict(embed_dims=8, depths=(1, 1, 1, 1), num_heads=(1, 1, 1, 1), mlp_ratio=1.0)


def changes(widths, **neck):
    return {'model.backbone.arch': SMALL, 'model.neck.in_channels': widths, **neck}


THREE_MAPS = changes([16, 32, 64])
FOUR_MAPS = changes([8, 16, 32, 64])
DETECTORS = {
    'retinanet': ('retinanet_flatten-swin-nano_fpn_digits', THREE_MAPS),
    'atss': ('atss_flatten-swin-nano_fpn_digits', THREE_MAPS),
    'mask-rcnn': ('mask-rcnn_flatten-swin-nano_fpn_digits', FOUR_MAPS),
}


@pytest.fixture(scope='module')
def built(tmp_path_factory):
    """Function that builds a detector and its exported module once."""
    models = {}

    def build(name):
        if name not in models:
            config, options = DETECTORS[name]
            folder = tmp_path_factory.mktemp(name)
            file = str(ROOT / 'configs' / 'digits' / f'{config}.py')
            cfg = load_config(file, options, work_dir=str(folder))
            torch.manual_seed(0)
            model = build_model(cfg).eval()
            # Random scores, so that there are many detections.
            for parameter in model.parameters():
                torch.nn.init.normal_(parameter, std=0.1)
            models[name] = cfg, model, wrap(model).eval()
        return models[name]

    return build


def images_of(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0)) * 255


def mmdet_results(model, module, images):
    """Instances of each image, by mmdet."""
    inputs = module.prepare(images)
    size = tuple(images.shape[-2:])
    meta = dict(
        img_shape=size,
        ori_shape=size,
        scale_factor=(1.0, 1.0),
        batch_input_shape=tuple(inputs.shape[-2:]),
    )
    samples = [DetDataSample(metainfo=meta) for _ in images]
    with torch.no_grad():
        results = model.predict(inputs, samples, rescale=False)
    return [sample.pred_instances for sample in results]


@pytest.mark.parametrize('name', DETECTORS)
def test_detector_agrees_with_mmdet(built, name):
    _, model, module = built(name)
    images = images_of(2, 3, 75, 101)
    with torch.no_grad():
        outputs = dict(zip(module.outputs, module(images), strict=True))
    for image, expected in enumerate(mmdet_results(model, module, images)):
        number = len(expected)
        assert number > 5
        torch.testing.assert_close(
            outputs['boxes'][image, :number], expected.bboxes, rtol=0, atol=1e-3
        )
        torch.testing.assert_close(
            outputs['scores'][image, :number], expected.scores, rtol=0, atol=1e-5
        )
        assert outputs['labels'][image, :number].tolist() == expected.labels.tolist()
        assert (outputs['labels'][image, number:] == -1).all()
        if 'masks' in outputs:
            assert outputs['masks'].dtype == torch.bool
            differs = outputs['masks'][image, :number] != expected.masks
            assert differs.float().mean() < 1e-4


@pytest.mark.parametrize('name', ['retinanet', 'mask-rcnn'])
def test_file_agrees_with_pytorch_at_open_sizes(built, tmp_path, name):
    cfg, _, module = built(name)
    file = tmp_path / 'model.onnx'
    metadata = describe(module, cfg, {}, size=(64, 64), dynamic=True)
    write(module, file, metadata)
    engine = OnnxFile(file)
    assert engine.metadata == metadata
    assert metadata['batch'] == [1, 256]
    assert metadata['classes'] == list('0123456789')
    assert metadata['transforms'] == dict(resize=dict(scale=[160, 160], keep_ratio=True))
    for case in (noise_case(module, (64, 64)), noise_case(module, (75, 101), batch=3)):
        assert (engine(*case.images)['labels'] >= 0).sum() > 5
        assert compare('', module, engine, case) < TOLERANCE


def test_image_without_detections_has_one_row_of_padding(built, tmp_path):
    _, _, module = built('retinanet')
    threshold = module.head.score_threshold
    module.head.score_threshold = 2.0
    try:
        with torch.no_grad():
            boxes, scores, labels = module(images_of(1, 3, 64, 64))
    finally:
        module.head.score_threshold = threshold
    assert labels.tolist() == [[-1]]
    assert scores.tolist() == [[0.0]]
    assert boxes.tolist() == [[[0.0] * 4]]


def test_kept_boxes_of_two_images():
    boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 9], [20, 20, 30, 30], [20, 20, 30, 30]])
    scores = torch.tensor([[0.5, 0.9, 0.8, 0.7], [0.9, ABSENT, ABSENT, 0.1]])
    kept = keep_boxes(boxes.expand(2, -1, -1), scores, 0.5, 10)
    assert kept.tolist() == [[False, True, True, False], [True, False, False, True]]
    kept = keep_boxes(boxes.expand(2, -1, -1), scores, 0.5, 1)
    assert kept.tolist() == [[False, True, False, False], [True, False, False, False]]


def detections(*rows):
    boxes, scores, labels = zip(*rows)
    return dict(
        boxes=np.array(boxes, np.float32).reshape(-1, 4),
        scores=np.array(scores, np.float32),
        labels=np.array(labels),
    )


def test_errors_of_moved_missing_and_additional_detections():
    one = ((0, 0, 10, 10), 0.9, 1)
    two = ((50, 50, 100, 100), 0.4, 2)
    padding = ((0, 0, 0, 0), 0.0, -1)
    theirs = detections(one, two)
    assert image_errors(detections(one, two, padding), theirs, 0.05, 20) == [0, 0]
    # One per cent of the largest corner.
    moved = ((1, 0, 10, 10), 0.9, 1)
    np.testing.assert_allclose(image_errors(detections(moved, two), theirs, 0.05, 20), [0.01, 0])
    # Far above the threshold.
    np.testing.assert_allclose(image_errors(detections(one), theirs, 0.05, 20), [0, 0.35])
    # The other list is full of better boxes.
    np.testing.assert_allclose(image_errors(detections(one), theirs, 0.05, 1), [0, 0])
    additional = ((0, 0, 10, 10), 0.3, 3)
    np.testing.assert_allclose(
        image_errors(detections(one, two, additional), theirs, 0.05, 20), [0, 0, 0.25]
    )
