"""EncoderMaskHead: equations of EoMT, annealed masks, targets, precision, and its two models."""

from copy import deepcopy
from math import prod

import pytest
import torch
import torch.nn.functional as F
from mmdet.structures import DetDataSample
from mmdet.structures.mask import BitmapMasks
from mmengine.config import ConfigDict
from mmengine.registry import MODELS as ROOT_MODELS
from mmengine.registry import init_default_scope
from mmengine.structures import InstanceData, PixelData
from mmseg.structures import SegDataSample
from torch import Tensor, nn

from mmflatten.models.backbones import ViT
from mmflatten.models.mask_head import EncoderMaskNetwork

PLAIN = dict(embed_dims=16, depth=4, num_heads=2, patch_size=8, img_size=32)
ROTARY = dict(PLAIN, registers=2, rotary=100.0, layer_scale=0.1, mlp_ratio=2.0)
SIZES = dict(num_queries=5, num_blocks=2)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def network(**options) -> EncoderMaskNetwork:
    settings = dict(SIZES, embed_dims=8, num_heads=2, mlp_ratio=2.0, grid_size=(3, 4))
    return EncoderMaskNetwork([6], 3, **{**settings, **options})


def explicit_norm(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    return centred / (variance + norm.eps).sqrt() * norm.weight + norm.bias


def explicit_block(x: Tensor, block: nn.Module, heads: int, visible: Tensor | None) -> Tensor:
    """Pre-norm block with every attention weight computed for one pair of tokens at a time."""
    mixer = block.attn.fn
    normed = explicit_norm(x, block.attn.norm)
    q, k, v = (normed @ mixer.qkv.weight.T + mixer.qkv.bias).chunk(3, -1)
    width = x.shape[-1] // heads
    mixed = []
    for head in range(heads):
        part = slice(head * width, (head + 1) * width)
        logits = torch.einsum('bid,bjd->bij', q[..., part], k[..., part]) / width**0.5
        if visible is not None:
            logits = logits.masked_fill(~visible, -torch.inf)
        mixed.append(torch.einsum('bij,bjd->bid', logits.softmax(-1), v[..., part]))
    x = x + torch.cat(mixed, -1) @ mixer.proj.weight.T + mixer.proj.bias
    ffn = block.ffn.fn
    hidden = explicit_norm(x, block.ffn.norm) @ ffn.fc1.weight.T + ffn.fc1.bias
    return x + F.gelu(hidden) @ ffn.fc2.weight.T + ffn.fc2.bias


def explicit_prediction(head: EncoderMaskNetwork, x: Tensor, hw: tuple[int, int]):
    """Class logits and mask logits of all queries: EoMT, sec. 3.1."""
    number = head.queries.num_embeddings
    x = explicit_norm(x, head.norm)
    queries = x[:, :number]
    features = x[:, number:].transpose(1, 2).reshape(x.shape[0], -1, *hw)
    for convolution, _, depthwise, norm in head.upscales:
        features = F.conv_transpose2d(features, convolution.weight, convolution.bias, stride=2)
        features = F.conv2d(F.gelu(features), depthwise.weight, padding=1, groups=features.shape[1])
        features = explicit_norm(features.permute(0, 2, 3, 1), norm).permute(0, 3, 1, 2)
    vectors = queries
    for index in (0, 2, 4):
        layer = head.mask_head[index]
        vectors = vectors @ layer.weight.T + layer.bias
        vectors = F.gelu(vectors) if index < 4 else vectors
    masks = (vectors[..., None, None] * features[:, None]).sum(2)
    return queries @ head.class_head.weight.T + head.class_head.bias, masks


def explicit_network(head: EncoderMaskNetwork, map_BCHW: Tensor, masked: tuple[bool, ...]):
    """EoMT with the masks of the blocks in `masked`, from the map before its pixel decoder."""
    hw = tuple(map_BCHW.shape[2:])
    projection, norm = head.pixel_decoder.laterals[0]
    tokens = F.conv2d(map_BCHW, projection.weight, projection.bias).flatten(2).transpose(1, 2)
    tokens = explicit_norm(tokens, norm) + head.position.rows(hw)
    number, B = head.queries.num_embeddings, map_BCHW.shape[0]
    x = torch.cat((head.queries.weight.expand(B, -1, -1), tokens), 1)
    predictions = []
    for block, is_masked in zip(head.blocks, masked, strict=True):
        predictions.append(explicit_prediction(head, x, hw))
        visible = None
        if is_masked:
            visible = torch.ones(B, x.shape[1], x.shape[1], dtype=torch.bool)
            small = F.interpolate(predictions[-1][1].detach(), size=hw, mode='bilinear')
            for image in range(B):
                for query in range(number):
                    visible[image, query, number:] = small[image, query].flatten().sigmoid() > 0.5
        x = explicit_block(x, block, 2, visible)
    return [*predictions, explicit_prediction(head, x, hw)]


@pytest.mark.parametrize(
    'step, masked', [(0, (True, True)), (50, (False, True)), (100, (False, False))]
)
def test_network_equals_the_papers_equations_in_values_and_gradients(step, masked):
    # with two blocks: from 1 to 0 between steps 25 and 50, and between 50 and 75
    head = network(anneal_steps=100).double()
    head.step.fill_(step)
    map_BCHW = torch.randn(2, 6, 3, 4, dtype=torch.float64, requires_grad=True)
    class_logits, mask_logits = head([map_BCHW])
    expected = explicit_network(head, map_BCHW, masked)
    assert len(class_logits) == len(expected) == 3 and head.step == step + 1
    weights = [torch.randn_like(part) for part in (*class_logits, *mask_logits)]
    # the results are float32
    for (classes, masks), ours, our_masks in zip(expected, class_logits, mask_logits):
        torch.testing.assert_close(ours, classes.float(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(our_masks, masks.float(), rtol=1e-5, atol=1e-5)
    inputs = [map_BCHW, *head.parameters()]
    total = sum((w * part).sum() for w, part in zip(weights, (*class_logits, *mask_logits)))
    reference = [classes for classes, _ in expected] + [masks for _, masks in expected]
    expected_total = sum((w * part).sum() for w, part in zip(weights, reference))
    gradients = torch.autograd.grad(total, inputs)
    for ours, theirs in zip(gradients, torch.autograd.grad(expected_total, inputs)):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_evaluation_has_no_masks_and_one_prediction():
    head = network(anneal_steps=100).eval()
    map_BCHW = torch.randn(1, 6, 5, 3)
    with torch.no_grad():
        (classes,), (masks,) = head([map_BCHW])
        expected = explicit_network(head, map_BCHW, (False, False))[-1]
    torch.testing.assert_close(classes, expected[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(masks, expected[1], rtol=1e-4, atol=1e-5)
    assert masks.shape == (1, 5, 20, 12) and head.step == 0


def test_step_of_the_network_anneals_its_masks():
    head = network(anneal_steps=100)
    head.step.fill_(40)
    torch.testing.assert_close(head.mask_probabilities(), torch.tensor([0.4**0.9, 1.0]))
    assert not network().mask_probabilities().any()


@pytest.mark.parametrize('arch', [PLAIN, ROTARY])
def test_joint_blocks_are_those_of_the_backbone(arch):
    backbone = ViT(arch, out_type='featmap').eval()
    image = torch.randn(2, 3, 30, 41)
    part = backbone.forward_until(image, 3)
    x = part.x_BNC
    for block in part.blocks:
        x = block(x, part.hw_shape, None)
    tokens = part.norm(x)[:, -prod(part.hw_shape) :]
    map_BCHW = tokens.transpose(1, 2).unflatten(2, part.hw_shape)
    torch.testing.assert_close(map_BCHW, backbone(image)[0])
    assert part.padded_shape == (32, 48) and part.image_shape == (30, 41)

    # the queries change the tokens, and every weight is trained
    backbone.train()
    head = EncoderMaskNetwork([16], 3, joint=True, anneal_steps=9, **SIZES)
    assert not {name.split('.')[0] for name in head.state_dict()} & {'blocks', 'norm', 'position'}
    class_logits, mask_logits = head(backbone.forward_until(image, 2))
    sum(part.square().mean() for part in (*class_logits, *mask_logits)).backward()
    for module in (backbone, head):
        assert all(parameter.grad is not None for parameter in module.parameters())


def test_joint_needs_a_whole_backbone_and_its_model():
    with pytest.raises(ValueError, match='remaining.*4.*9'):
        ViT(PLAIN, out_type='featmap').forward_until(torch.randn(1, 3, 32, 32), 9)
    with pytest.raises(ValueError, match=r'remaining.*\(1,\)'):
        backbone = ViT(PLAIN, out_type='featmap', out_indices=(1,))
        backbone.forward_until(torch.randn(1, 3, 32, 32), 1)
    with pytest.raises(ValueError, match='joint.*True'):
        EncoderMaskNetwork([16], 3, joint=True, **SIZES)([torch.randn(1, 16, 4, 4)])


@pytest.mark.parametrize(
    'field, options',
    [
        ('num_queries', dict(num_queries=0)),
        ('anneal_steps', dict(anneal_steps=0.5)),
        ('token_level', dict(token_level=1)),
        ('attn_types', dict(attn_types='X')),
        ('in_channels', dict(joint=True, in_channels=[4, 4])),
    ],
)
def test_invalid_options_name_their_field(field, options):
    options = dict(SIZES, in_channels=[6], num_classes=3, embed_dims=8, num_heads=2) | options
    with pytest.raises(ValueError, match=f'^{field}'):
        EncoderMaskNetwork(**options)


@pytest.mark.parametrize(
    'mixer',
    [
        dict(type='FocusedLinearAttention'),
        dict(type='AgentAttention', num_agents=4),
        dict(type='MagnitudeAwareLinearAttention'),
        dict(type='GatedSoftmaxAttention'),
    ],
    ids=lambda mixer: mixer['type'],
)
def test_one_letter_swaps_the_attention_of_the_query_blocks(mixer):
    head = EncoderMaskNetwork(
        [4, 6, 8], 3, **SIZES, embed_dims=8, num_heads=2, attn_types='SX', mixers=dict(X=mixer)
    )
    maps = [torch.randn(2, c, *size) for c, size in zip((4, 6, 8), ((13, 9), (7, 5), (4, 3)))]
    class_logits, mask_logits = head(maps)
    assert [tuple(part.shape) for part in mask_logits] == [(2, 5, 13, 9)] * 3
    sum(part.square().mean() for part in (*class_logits, *mask_logits)).backward()
    assert all(parameter.grad.isfinite().all() for parameter in head.parameters())


def test_inference_can_be_exported():
    head = EncoderMaskNetwork([4, 6], 3, **SIZES, embed_dims=8, num_heads=2, token_level=1).eval()
    maps = [torch.randn(1, 4, 8, 6), torch.randn(1, 6, 4, 3)]
    exported = torch.export.export(head, (maps,))
    assert not exported.graph_signature.buffers_to_mutate
    for ours, expected in zip(exported.module()(maps), head(maps)):
        torch.testing.assert_close(ours[0], expected[0])


SWIN = dict(
    type='mmflatten.FLattenSwin',
    arch=dict(embed_dims=8, depths=(1, 1, 1, 1), num_heads=(1, 2, 2, 4)),
    attn_types='LLSS',
    img_size=64,
    softmax_window=2,
)
BACKBONES = {
    'plain': dict(type='mmflatten.ViT', arch=PLAIN, out_type='featmap'),
    'pyramid': SWIN,
}
HEADS = {
    'plain': dict(SIZES, in_channels=[16], joint=True, num_upscales=1, anneal_steps=4),
    'pyramid': dict(SIZES, in_channels=[8, 16, 32, 64], embed_dims=16, num_heads=2, anneal_steps=4),
}


def detector(kind: str, stuff: int) -> nn.Module:
    init_default_scope('mmdet')
    classes = dict(num_things_classes=3, num_stuff_classes=stuff)
    test_cfg = dict(panoptic_on=stuff > 0, instance_on=True, max_per_image=5)
    config = dict(
        type='mmflatten.EncoderMaskDetector',
        backbone=BACKBONES[kind],
        panoptic_head=dict(type='mmflatten.EncoderMaskHead', **HEADS[kind], **classes),
        panoptic_fusion_head=dict(type='MaskFormerFusionHead', **classes),
        train_cfg=dict(num_points=64),
        test_cfg=test_cfg,
    )
    return ROOT_MODELS.build(ConfigDict(config))


def detection_sample(size: tuple[int, int], labels: list[int], stuff: int) -> DetDataSample:
    height, width = size
    shapes = dict(img_shape=size, ori_shape=size, batch_input_shape=size, pad_shape=size)
    sample = DetDataSample(metainfo=shapes)
    masks = torch.zeros(len(labels), height, width, dtype=torch.uint8)
    for index, mask in enumerate(masks):
        mask[index * 8 : index * 8 + 12, 4:20] = 1
    sample.gt_instances = InstanceData(
        labels=torch.tensor(labels, dtype=torch.long),
        masks=BitmapMasks(list(masks.numpy()), height, width),
    )
    if stuff:
        regions = torch.full((1, height, width), 255)
        if labels:
            regions[:, : height // 2] = 3
        sample.gt_sem_seg = PixelData(sem_seg=regions)
    return sample


@pytest.mark.parametrize('stuff', [0, 1], ids=['instance', 'panoptic'])
@pytest.mark.parametrize('kind', BACKBONES)
def test_detector_trains_with_odd_sizes_empty_targets_and_autocast(kind, stuff):
    model, size = detector(kind, stuff), (53, 70)
    image = torch.randn(2, 3, *size)
    samples = [detection_sample(size, labels, stuff) for labels in ([0, 2], [])]
    for dtype in (torch.float32, torch.bfloat16):
        model.zero_grad()
        with torch.autocast('cpu', torch.bfloat16, enabled=dtype == torch.bfloat16):
            losses = model.loss(image, samples)
        assert set(losses) >= {'loss_cls', 'loss_mask', 'loss_dice', 'd1.loss_dice'}
        total = sum(losses.values())
        assert total.isfinite()
        total.backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None and parameter.grad.isfinite().all(), name
    # a batch without any target trains "no object"
    empty = model.loss(image, [detection_sample(size, [], 0)] * 2)
    assert empty['loss_cls'] > 0 and empty['loss_mask'] == empty['loss_dice'] == 0

    with torch.no_grad():
        results = model.eval().predict(image, samples)
    assert results[0].pred_instances.masks.shape[1:] == size
    assert ('pred_panoptic_seg' in results[0]) == bool(stuff)


@pytest.mark.parametrize('kind', BACKBONES)
def test_segmentor_trains_and_predicts_classes(kind):
    init_default_scope('mmseg')
    head = dict(HEADS[kind], type='mmflatten.EncoderMaskSegHead', num_classes=3)
    config = dict(
        type='mmflatten.EncoderMaskSegmentor',
        backbone=BACKBONES[kind],
        decode_head=dict(head, train_cfg=dict(num_points=64)),
        train_cfg=dict(),
        test_cfg=dict(mode='whole'),
    )
    model = ROOT_MODELS.build(ConfigDict(config))
    size = (53, 70)
    image = torch.randn(2, 3, *size)
    samples = []
    for label in (1, 255):  # the second image has only ignored pixels
        regions = torch.full((1, *size), 255)
        regions[:, :30, :40] = label
        meta = dict(img_shape=size, ori_shape=size, pad_shape=size)
        samples.append(SegDataSample(gt_sem_seg=PixelData(data=regions), metainfo=meta))
    total = sum(model.loss(image, samples).values())
    total.backward()
    assert total.isfinite() and all(p.grad is not None for p in model.parameters())
    with torch.no_grad():
        (result, _) = model.eval().predict(image, samples)
    assert result.pred_sem_seg.data.shape == (1, *size) and result.seg_logits.data.shape[0] == 3


def test_masks_of_a_padded_image_cover_the_image_alone():
    model = detector('plain', 0).eval()
    image = torch.randn(1, 3, 50, 61)
    padded = F.pad(image, (0, 3, 0, 6))
    with torch.no_grad():
        _, (masks,) = model.panoptic_head(model.extract_feat(image))
        _, (expected,) = model.panoptic_head(model.extract_feat(padded))
    expected = F.interpolate(expected, size=(56, 64), mode='bilinear')[..., :50, :61]
    torch.testing.assert_close(masks, expected)


def test_state_dict_keeps_the_backbones_names_and_the_step():
    model = detector('plain', 0)
    model.panoptic_head.network.step.fill_(3)
    state = deepcopy(model.state_dict())
    backbone = {name: value for name, value in state.items() if name.startswith('backbone.')}
    ViT(PLAIN, out_type='featmap').load_state_dict(
        {name.removeprefix('backbone.'): value for name, value in backbone.items()}
    )
    other = detector('plain', 0)
    other.load_state_dict(state)
    assert other.panoptic_head.network.step == 3
    image = torch.randn(1, 3, 32, 32)
    ours, theirs = (
        each.eval().panoptic_head(each.extract_feat(image))[1][0] for each in (model, other)
    )
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
