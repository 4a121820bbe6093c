"""Class activation maps: values of Grad-CAM in every family, and targets of each task."""
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mmengine.structures import InstanceData
from torch import Tensor

from mmflatten.apis import Predictor
from mmflatten.building import build_model
from mmflatten.cli.cam import METHODS as OFFERED
from mmflatten.engine.setup import load_config
from mmflatten.explain.cam import METHODS, TargetModel, cam, default_layer

DIGITS = Path(__file__).parents[2] / 'configs' / 'digits'
PYRAMID = dict(embed_dims=(8, 12, 20, 32), depths=(1, 1, 2, 1), num_heads=(1, 2, 5, 8))
# Backbone, default layer, channels of the head, and stride of the layer's map.
FAMILIES = {
    'swin': (dict(type='FLattenSwin', arch=dict(embed_dims=8, depths=(1, 1, 2, 1), num_heads=(1, 2, 4, 8))),
             'backbone.norms.3', 64, 32),
    'cswin': (dict(type='FLattenCSwin', arch=dict(embed_dims=8, depths=(1, 1, 2, 1), num_heads=(1, 2, 4, 8))),
              'backbone.norms.3', 64, 32),
    'deit': (dict(type='FLattenDeiT', arch=dict(embed_dims=16, depth=2, num_heads=2), attn_types='LS'),
             'backbone.blocks.1.attn.norm', 16, 16),
    'pvt': (dict(type='FLattenPVT', arch=PYRAMID, with_cls_token=True), 'backbone.stages.3.blocks.0.attn.norm', 32, 32),
    'pvt-v2': (dict(type='FLattenPVTv2', arch=PYRAMID), 'backbone.stages.3.norm', 32, 32),
    'focal': (dict(type='FocalTransformer', arch=dict(embed_dims=8, depths=(1, 1, 2, 1), num_heads=(1, 2, 4, 8)),
                   window_size=2, expand_size=1, focal_windows=(5, 3, 3, 1)), 'backbone.norms.3', 64, 32),
    'l2vit': (dict(type='L2ViT', arch=dict(embed_dims=8, depths=(2, 2, 2, 2), num_heads=(1, 2, 4, 8)),
                   last_projection=40), 'backbone.norms.3', 40, 32),
    'resnet': (dict(type='AttentionResNet', depth=18, attention_after=(4,), out_indices=(3,)), 'backbone.layer4',
               512, 32),
}
DETECTORS = ('mask-rcnn_flatten-swin-nano_fpn_digits', 'retinanet_flatten-swin-nano_fpn_digits',
             'atss_flatten-swin-nano_fpn_digits')


@pytest.fixture(scope='module')
def photo(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp('photo') / 'photo.png'
    noise = np.random.default_rng(0).integers(0, 255, (8, 12, 3), dtype=np.uint8)
    cv2.imwrite(str(path), cv2.resize(noise, (96, 64)))
    return str(path)


def random_predictor(cfg, folder: Path) -> Predictor:
    """A predictor of a model with random weights whose dense head finds boxes."""
    torch.manual_seed(0)
    state = build_model(cfg).state_dict()
    for name in state:
        if name.endswith(('retina_cls.bias', 'atss_cls.bias')):
            state[name].zero_()
    torch.save(dict(state_dict=state), folder / 'random.pth')
    return Predictor(cfg, folder / 'random.pth', 'cpu')


def classifier(family: str, folder: Path) -> Predictor:
    backbone, _, channels, _ = FAMILIES[family]
    cfg = load_config(str(DIGITS / 'flatten-swin-nano_digits.py'))
    size = {} if 'ResNet' in backbone['type'] else dict(img_size=64)
    cfg.model.backbone = dict(backbone, type=f'mmflatten.{backbone["type"]}', **size)
    cfg.model.head.in_channels = channels
    if family == 'deit':
        cfg.model.neck = None
    for step in cfg.test_dataloader.dataset.pipeline:
        if step['type'] == 'Resize':
            step['scale'] = (96, 64)  # width, height
    return random_predictor(cfg, folder)


@pytest.fixture(scope='module')
def swin(tmp_path_factory) -> Predictor:
    return classifier('swin', tmp_path_factory.mktemp('swin'))


def record(predictor: Predictor, layer: str) -> tuple[list, object]:
    outputs = []
    module = predictor.model.get_submodule(layer)
    return outputs, module.register_forward_hook(lambda module, args, output: outputs.append(output))


def as_map(tensor: Tensor, height: int, width: int) -> Tensor:
    """The map of one image by hand: `(C, height, width)`."""
    if tensor.ndim == 4:
        return tensor[0]
    return tensor[0, -height * width:].T.reshape(-1, height, width)


def scaled(values: Tensor) -> Tensor:
    return (values - values.min()) / (values.max() - values.min() + 1e-7)


def upsampled(heat: Tensor, size: tuple[int, int]) -> np.ndarray:
    return scaled(F.interpolate(scaled(heat)[None, None], size, mode='bilinear')[0, 0]).numpy()


@pytest.mark.parametrize('family', FAMILIES)
def test_gradcam_equals_its_formula_in_every_family_for_non_square_images(family, photo, tmp_path):
    predictor = classifier(family, tmp_path)
    _, layer, _, stride = FAMILIES[family]
    picture, found = cam(predictor, photo, classes=[3, '7', 1, 5])
    assert picture.shape == (64, 96, 3) and default_layer(predictor) == layer
    outputs, hook = record(predictor, layer)
    logits = predictor.model(predictor.prepare(photo)['inputs'], mode='tensor')[0]
    hook.remove()
    for activation, label in zip(found, (3, 7, 1, 5), strict=True):
        gradient, = torch.autograd.grad(logits[label], outputs[0], retain_graph=True)
        weights, maps = (as_map(tensor.detach(), 64 // stride, 96 // stride) for tensor in (gradient, outputs[0]))
        heat = (weights.mean((1, 2))[:, None, None] * maps).sum(0).relu()
        np.testing.assert_allclose(activation.heat, upsampled(heat, (64, 96)), atol=1e-3)
        assert activation.score == pytest.approx(float(logits.softmax(0)[label].detach()), abs=1e-6)
        assert (activation.label, activation.name, activation.layer) == (label, str(label), layer)
        assert activation.method == 'gradcam' and activation.box is None
    assert any(activation.heat.max() > .99 for activation in found)  # random weights may give a negative map


def test_cam_defaults_to_the_predicted_class_and_restores_the_model(swin, photo):
    weights = [weight.requires_grad for weight in swin.model.parameters()]
    activation, = cam(swin, photo)[1]
    assert activation.label == int(swin(photo).pred_label)
    assert activation.score == pytest.approx(float(swin(photo).pred_score.max()), abs=1e-6)
    assert [weight.requires_grad for weight in swin.model.parameters()] == weights and any(weights)
    assert all(weight.grad is None for weight in swin.model.parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in swin.model.modules())


def test_methods_give_different_maps_and_are_options(swin, photo):
    maps = {method: cam(swin, photo, [1], 1, method)[1][0].heat for method in METHODS}
    assert tuple(METHODS) == OFFERED
    assert all(heat.shape == (64, 96) and heat.min() >= 0 and heat.max() <= 1 for heat in maps.values())
    assert len({heat.tobytes() for heat in maps.values()}) == len(METHODS)


def test_layers_by_stage_and_by_name(swin, photo):
    by_stage, by_name = (cam(swin, photo, [1], layer)[1][0] for layer in (1, 'stages.1.blocks.0'))
    assert by_stage.layer == by_name.layer == 'backbone.stages.1.blocks.0'
    assert (by_stage.heat == by_name.heat).all()
    # The output of windowed attention is a map, although the windows inside are not.
    assert cam(swin, photo, [1], 'stages.2.blocks.1.attn')[1][0].heat.any()


@pytest.mark.parametrize(('arguments', 'named'), [
    (dict(classes=['dog']), 'class.*0.*dog'), (dict(classes=[10]), 'class.*9.*10'),
    (dict(layer='stages.7'), r'layer.*stages\.7'), (dict(layer=4), 'layer.*3.*4'), (dict(layer='head'), 'layer.*shape'),
    (dict(layer='stages.0'), 'tuple'), (dict(layer='data_preprocessor'), 'layer.*0 of data_preprocessor'),
    (dict(method='scorecam'), 'method.*gradcam.*scorecam')])
def test_unknown_class_layer_or_method_is_named(swin, photo, arguments, named):
    with pytest.raises(ValueError, match=named):
        cam(swin, photo, **arguments)


def test_layer_after_the_class_token_is_rejected(photo, tmp_path):
    with pytest.raises(ValueError, match=r'layer.*backbone\.blocks\.1'):
        cam(classifier('deit', tmp_path), photo, layer=-1)


@pytest.fixture(scope='module')
def detector(tmp_path_factory):
    made = {}

    def make(name: str) -> Predictor:
        if name not in made:
            made[name] = random_predictor(load_config(str(DIGITS / f'{name}.py')), tmp_path_factory.mktemp(name))
        return made[name]

    return make


@pytest.mark.parametrize('name', DETECTORS)
def test_boxes_equal_the_prediction_and_gradients_match_their_scores(detector, photo, name):
    predictor = detector(name)
    prepared = predictor.prepare(photo)
    image, samples = prepared['inputs'], prepared['data_samples']
    if hasattr(predictor.model, 'rpn_head'):  # proposals are treated as constant
        with torch.no_grad():
            boxes = predictor.model.rpn_head.predict(predictor.model.extract_feat(image), samples, rescale=False)[0]
        samples[0].proposals = InstanceData(bboxes=boxes.bboxes)
    image = image.clone().requires_grad_()
    targets = TargetModel(predictor, samples, score=0.)(image)[0]
    expected = predictor(photo).pred_instances
    scale = torch.tensor(samples[0].scale_factor).repeat(2)
    torch.testing.assert_close(torch.tensor([target.box for target in targets]) / scale, expected.bboxes,
                               atol=1e-3, rtol=1e-4)
    assert [target.score for target in targets] == pytest.approx(expected.scores.tolist(), abs=1e-5)
    for number in (0, len(targets) // 2):
        target = targets[number]
        gradient, = torch.autograd.grad(target.value, image, retain_graph=True)
        direction = gradient / gradient.norm()
        odds = [score_of(predictor, image.detach() + step * direction, samples, target) for step in (-.03, .03)]
        assert float(gradient.norm()) > 0
        assert (odds[1] - odds[0]) / .06 == pytest.approx(float(gradient.norm()), rel=.05)


@torch.no_grad()
def score_of(predictor: Predictor, image: Tensor, samples: list, target) -> float:
    """Log-odds in the prediction of mmdet for the box closest to the target."""
    found = predictor.model.predict(image, samples, rescale=False)[0].pred_instances
    found = found[found.labels == target.label]
    nearest = (found.bboxes - torch.tensor(target.box)).abs().sum(1).argmin()
    return float(torch.logit(found.scores[nearest].double()))


def test_soft_nms_does_not_change_scores_and_maps(detector, photo):
    predictor = detector(DETECTORS[0])
    cfg = predictor.model.roi_head.test_cfg
    plain = cam(predictor, photo, score=0., top=2)[1]
    before, cfg.nms = cfg.nms, dict(type='soft_nms', iou_threshold=cfg.nms.iou_threshold)
    soft = cam(predictor, photo, score=0., top=2)[1]
    assert cfg.nms.type == 'soft_nms'
    cfg.nms = before
    assert [(a.box, a.score) for a in soft] == [(a.box, a.score) for a in plain]
    assert all((a.heat == b.heat).all() for a, b in zip(soft, plain))


def test_boxes_are_selected_by_class_score_and_number(detector, photo):
    predictor = detector(DETECTORS[1])
    found = cam(predictor, photo, score=0., top=3)[1]
    assert [a.score for a in found] == sorted((a.score for a in found), reverse=True) and len(found) == 3
    assert len({a.heat.tobytes() for a in found}) == 3 and all(a.method == 'layercam' for a in found)
    assert found[0].layer == 'backbone.norms.2'
    label = found[-1].label
    assert {a.label for a in cam(predictor, photo, [label], score=0., top=2)[1]} == {label}
    assert cam(predictor, photo, score=1.)[1] == []
    # `box` is in pixels of the network input, `image_box` in pixels of the file.
    scale = predictor.prepare(photo)['data_samples'][0].scale_factor
    assert found[0].box[2] == pytest.approx(found[0].image_box[2] * scale[0]) and scale[0] != 1
    with pytest.raises(ValueError, match=r'layer.*3 of bbox_head\.retina_cls'):
        cam(predictor, photo, layer='bbox_head.retina_cls', score=0.)


def test_box_has_a_map_only_if_its_score_depends_on_the_layer(detector, photo, tmp_path):
    cv2.imwrite(str(tmp_path / 'pixel.png'), np.full((1, 1, 3), 128, np.uint8))  # only large boxes
    alone, last, both = (cam(detector(DETECTORS[1]), tmp_path / 'pixel.png', layer=layer, top=3)[1]
                         for layer in ('norms.2', 'norms.3', None))
    assert [a.heat is None for a in alone] == [True, True, False] and all(a.heat.any() for a in last)
    assert [a.box for a in alone] == [a.box for a in both]
    assert [a.layer for a in both] == ['backbone.norms.3', 'backbone.norms.3', 'backbone.norms.2']
    assert all((found.heat == a.heat).all() for found, a in zip(both, [*last[:2], alone[2]]))
    with pytest.raises(ValueError, match=r'layer.*mask_head\.upsample'):  # masks do not influence boxes
        cam(detector(DETECTORS[0]), photo, layer='mask_head.upsample', score=0.)


def test_boxes_of_a_neck_without_top_down_path_use_the_stage_of_their_level(photo, tmp_path):
    cfg = load_config(str(DIGITS / f'{DETECTORS[1]}.py'), {'model.neck': dict(
        _delete_=True, type='ChannelMapper', in_channels=[64, 128, 256], out_channels=64, kernel_size=1)})
    found = cam(random_predictor(cfg, tmp_path), photo, score=0., top=20)[1]
    assert 'backbone.norms.1' in {a.layer for a in found} and all(a.heat is not None and a.heat.any() for a in found)


def test_boxes_of_a_dense_head_with_softmax_have_maps(photo, tmp_path):
    loss = dict(_delete_=True, type='CrossEntropyLoss')
    predictor = random_predictor(load_config(str(DIGITS / f'{DETECTORS[1]}.py'), {'model.bbox_head.loss_cls': loss}),
                                 tmp_path)
    found = cam(predictor, photo, score=0., top=3)[1]
    assert len(found) == 3 and all(a.heat.any() for a in found)


def test_region_target_is_the_mean_logit_over_its_pixels(photo, tmp_path):
    predictor = random_predictor(load_config(str(DIGITS / 'semantic-fpn_flatten-swin-nano_digits.py')), tmp_path)
    found = cam(predictor, photo, method='gradcam')[1]
    prepared = predictor.prepare(photo)
    outputs, hook = record(predictor, 'backbone.norms.2')
    logits = predictor.model.encode_decode(prepared['inputs'], [prepared['data_samples'][0].metainfo])[0]
    hook.remove()
    height, width = prepared['data_samples'][0].img_shape
    regions = logits.argmax(0)[:height, :width]
    assert sorted(a.label for a in found) == regions.unique().tolist() and len(found) > 1
    for activation in found:
        there = regions == activation.label
        total = logits[activation.label, :height, :width][there].sum()
        gradient, = torch.autograd.grad(total, outputs[0], retain_graph=True)
        side = [-(-length // 16) for length in prepared['inputs'].shape[-2:]]
        weights, maps = (as_map(tensor.detach(), *side) for tensor in (gradient, outputs[0]))
        heat = (weights.mean((1, 2))[:, None, None] * maps).sum(0).relu()
        np.testing.assert_allclose(activation.heat, upsampled(heat, prepared['inputs'].shape[-2:]), atol=1e-3)
    missing = next(label for label in range(11) if label not in regions)
    assert cam(predictor, photo, [missing])[1] == []
