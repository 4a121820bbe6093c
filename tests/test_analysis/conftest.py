"""The tools as modules, and models with published parameters and FLOPs, without anything of ours."""
import copy
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOLS = Path(__file__).parents[2] / 'tools' / 'analysis'

SWIN_T = dict(type='SwinTransformer', embed_dims=96, depths=[2, 2, 6, 2], num_heads=[3, 6, 12, 24], window_size=7)
SWIN_S = dict(SWIN_T, depths=[2, 2, 18, 2])
SWIN_CHANNELS = [96, 192, 384, 768]
BACKBONES = {
    'r50': (dict(type='ResNet', depth=50), [256, 512, 1024, 2048]),
    'swin-t': (SWIN_T, SWIN_CHANNELS),
    'swin-s': (SWIN_S, SWIN_CHANNELS),
    'pvt-t': (dict(type='PyramidVisionTransformer', num_layers=[2, 2, 2, 2]), [64, 128, 320, 512]),
}


def _rpn() -> dict:
    anchors = dict(type='AnchorGenerator', scales=[8], ratios=[0.5, 1.0, 2.0], strides=[4, 8, 16, 32, 64])
    return dict(type='RPNHead', in_channels=256, feat_channels=256, anchor_generator=anchors)


def _rois(size: int) -> dict:
    return dict(type='SingleRoIExtractor', roi_layer=dict(type='RoIAlign', output_size=size, sampling_ratio=0),
                out_channels=256, featmap_strides=[4, 8, 16, 32])


def _two_stage(backbone: str, kind: str, **roi_head: Any) -> dict:
    config, channels = BACKBONES[backbone]
    mask_head = dict(type='FCNMaskHead', num_convs=4, in_channels=256, conv_out_channels=256, num_classes=80)
    return dict(type=kind, backbone=config, rpn_head=_rpn(), train_cfg=None, test_cfg=dict(rpn=dict(), rcnn=dict()),
                neck=dict(type='FPN', in_channels=channels, out_channels=256, num_outs=5),
                roi_head=dict(bbox_roi_extractor=_rois(7), mask_roi_extractor=_rois(14), mask_head=mask_head,
                              **roi_head))


def mask_rcnn(backbone: str) -> dict:
    """Mask R-CNN with FPN, of the 1x baselines of mmdet."""
    head = dict(type='Shared2FCBBoxHead', in_channels=256, fc_out_channels=1024, roi_feat_size=7, num_classes=80)
    return _two_stage(backbone, 'MaskRCNN', type='StandardRoIHead', bbox_head=head)


def cascade_mask_rcnn(backbone: str) -> dict:
    """Cascade Mask R-CNN with the heads of Swin: four convolutions with SyncBN and one fully connected layer."""
    head = dict(type='ConvFCBBoxHead', num_shared_convs=4, num_shared_fcs=1, in_channels=256, conv_out_channels=256,
                fc_out_channels=1024, roi_feat_size=7, num_classes=80, norm_cfg=dict(type='SyncBN'),
                reg_decoded_bbox=True)
    return _two_stage(backbone, 'CascadeRCNN', type='CascadeRoIHead', num_stages=3, stage_loss_weights=[1, 0.5, 0.25],
                      bbox_head=[copy.deepcopy(head) for _ in range(3)])


def htc(backbone: str) -> dict:
    """Hybrid Task Cascade with its semantic branch."""
    head = dict(type='Shared2FCBBoxHead', in_channels=256, fc_out_channels=1024, roi_feat_size=7, num_classes=80)
    mask_head = dict(type='HTCMaskHead', with_conv_res=True, num_convs=4, in_channels=256, conv_out_channels=256,
                     num_classes=80)
    semantic_head = dict(type='FusedSemanticHead', num_ins=5, fusion_level=1, seg_scale_factor=1 / 8, num_convs=4,
                         in_channels=256, conv_out_channels=256, num_classes=183)
    model = _two_stage(backbone, 'HybridTaskCascade', type='HybridTaskCascadeRoIHead', interleaved=True,
                       mask_info_flow=True, num_stages=3, stage_loss_weights=[1, 0.5, 0.25],
                       bbox_head=[copy.deepcopy(head) for _ in range(3)], semantic_head=semantic_head,
                       semantic_roi_extractor=dict(_rois(14), featmap_strides=[8]))
    model['roi_head']['mask_head'] = [copy.deepcopy(mask_head) for _ in range(3)]
    return model


def sparse_rcnn(backbone: str) -> dict:
    """Sparse R-CNN with 300 proposals and six stages."""
    dynamic_conv = dict(type='DynamicConv', in_channels=256, feat_channels=64, out_channels=256, input_feat_shape=7,
                        act_cfg=dict(type='ReLU'), norm_cfg=dict(type='LN'))
    head = dict(type='DIIHead', num_classes=80, in_channels=256, dynamic_conv_cfg=dict(dynamic_conv),
                loss_cls=dict(type='FocalLoss', use_sigmoid=True))
    model = _two_stage(backbone, 'SparseRCNN', type='SparseRoIHead', num_stages=6, stage_loss_weights=[1] * 6,
                       bbox_head=[copy.deepcopy(head) for _ in range(6)])
    del model['roi_head']['mask_roi_extractor'], model['roi_head']['mask_head']
    model['rpn_head'] = dict(type='EmbeddingRPNHead', num_proposals=300, proposal_feature_channel=256)
    model['neck'].update(start_level=0, num_outs=4)
    return model


def atss(backbone: str) -> dict:
    """ATSS with FPN on the last three stages."""
    config, channels = BACKBONES[backbone]
    anchors = dict(type='AnchorGenerator', ratios=[1.0], octave_base_scale=8, scales_per_octave=1,
                   strides=[8, 16, 32, 64, 128])
    return dict(type='ATSS', backbone=config,
                neck=dict(type='FPN', in_channels=channels, out_channels=256, start_level=1,
                          add_extra_convs='on_output', num_outs=5),
                bbox_head=dict(type='ATSSHead', num_classes=80, in_channels=256, stacked_convs=4, feat_channels=256,
                               anchor_generator=anchors))


def upernet(backbone: str) -> dict:
    """UperNet with its auxiliary head, 150 classes."""
    config, channels = BACKBONES[backbone]
    norm = dict(type='SyncBN', requires_grad=True)
    return dict(type='EncoderDecoder', backbone=config, test_cfg=dict(mode='whole'),
                decode_head=dict(type='UPerHead', in_channels=channels, in_index=[0, 1, 2, 3], channels=512,
                                 pool_scales=(1, 2, 3, 6), num_classes=150, norm_cfg=norm, align_corners=False),
                auxiliary_head=dict(type='FCNHead', in_channels=channels[2], in_index=2, channels=256, num_convs=1,
                                    concat_input=False, num_classes=150, norm_cfg=norm, align_corners=False))


KINDS = {'mask-rcnn': mask_rcnn, 'cascade-mask-rcnn': cascade_mask_rcnn, 'htc': htc, 'sparse-rcnn': sparse_rcnn,
         'atss': atss, 'upernet': upernet}


@pytest.fixture(scope='session')
def known_model() -> Callable[[str, str], dict]:
    """`known_model('mask-rcnn', 'r50')` gives the `model` of a config."""
    return lambda kind, backbone: copy.deepcopy(KINDS[kind](backbone))


@pytest.fixture(scope='session')
def load_tool() -> Callable[[str], ModuleType]:
    """`load_tool('get_flops')` gives that tool as a module."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f'{name}_tool', TOOLS / f'{name}.py')
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
