"""Class activation maps: values of Grad-CAM in every family, and targets of each task."""
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.apis import Predictor
from mmflatten.cli.cam import METHODS as OFFERED
from mmflatten.config import build_model
from mmflatten.engine.setup import load_config
from mmflatten.explain.cam import METHODS, cam, default_layer

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


@pytest.fixture(scope='module')
def photo(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp('photo') / 'photo.png'
    noise = np.random.default_rng(0).integers(0, 255, (8, 12, 3), dtype=np.uint8)
    cv2.imwrite(str(path), cv2.resize(noise, (96, 64)))
    return str(path)


def random_predictor(cfg, folder: Path) -> Predictor:
    """A predictor of a model with random weights."""
    torch.manual_seed(0)
    state = build_model(cfg).state_dict()
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
        assert activation.method == 'gradcam'
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


def test_detectors_are_rejected(photo, tmp_path):
    cfg = load_config(str(DIGITS / 'retinanet_flatten-swin-nano_fpn_digits.py'))
    with pytest.raises(ValueError, match='not available for detection.*RetinaNet'):
        cam(random_predictor(cfg, tmp_path), photo)


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
