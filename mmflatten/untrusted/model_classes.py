"""Classes and words that the model of a published config may hold, by the argument that holds them.

They are those of our configs. `tests/test_configs/test_published_configs.py` compares the lists
with all configs: nothing is missing or left over. The arguments of attentions name registered
attentions, which the caller lists.
"""

from collections.abc import Collection

_ATTENTION_ARGUMENTS = ('attention', 'linear_attention', 'mixer')
_BACKBONES = frozenset(
    {
        'mmflatten.AttentionResNeXt',
        'mmflatten.AttentionResNet',
        'mmflatten.BiFormerSTL',
        'mmflatten.FLattenCSwin',
        'mmflatten.FLattenDeiT',
        'mmflatten.FLattenPVT',
        'mmflatten.FLattenPVTv2',
        'mmflatten.FLattenSwin',
        'mmflatten.FocalTransformer',
        'mmflatten.HViTTT',
        'mmflatten.L2ViT',
        'mmflatten.MLLA',
        'mmflatten.RAVLT',
        'mmflatten.ViT',
    }
)
_CLASSIFIER: dict[str, Collection[str]] = {
    'backbone': _BACKBONES,
    'model': {'ImageClassifier'},
    'neck': {'GlobalAveragePooling'},
    'head': {'LinearClsHead'},
}
_SEGMENTOR: dict[str, Collection[str]] = {
    'backbone': _BACKBONES,
    'model': {'EncoderDecoder', 'mmflatten.EncoderMaskSegmentor'},
    'neck': {'FPN', 'mmflatten.SimpleFeaturePyramid'},
    'decode_head': {
        'FCNHead',
        'FPNHead',
        'Mask2FormerHead',
        'UPerHead',
        'mmflatten.EncoderMaskSegHead',
    },
    'auxiliary_head': {'FCNHead'},
    'pixel_decoder': {'mmdet.MSDeformAttnPixelDecoder'},
    'act_cfg': {'ReLU'},
    'loss_cls': {'mmdet.CrossEntropyLoss'},
    'loss_decode': {'CrossEntropyLoss'},
    'loss_dice': {'mmdet.DiceLoss'},
    'loss_mask': {'mmdet.CrossEntropyLoss'},
    'norm_cfg': {'BN', 'GN', 'SyncBN'},
}
_DETECTOR: dict[str, Collection[str]] = {
    'backbone': _BACKBONES,
    'model': {
        'ATSS',
        'CascadeRCNN',
        'DINO',
        'HybridTaskCascade',
        'Mask2Former',
        'MaskRCNN',
        'PanopticFPN',
        'RepPointsDetector',
        'RetinaNet',
        'SparseRCNN',
        'mmflatten.EncoderMaskDetector',
    },
    'neck': {
        'ChannelMapper',
        'FPN',
        'mmflatten.AttentionFPN',
        'mmflatten.BiFPN',
        'mmflatten.SimpleFeaturePyramid',
    },
    'rpn_head': {'EmbeddingRPNHead', 'RPNHead'},
    'roi_head': {'CascadeRoIHead', 'HybridTaskCascadeRoIHead', 'SparseRoIHead', 'StandardRoIHead'},
    'bbox_head': {
        'ConvFCBBoxHead',
        'DIIHead',
        'DINOHead',
        'RetinaHead',
        'Shared2FCBBoxHead',
        'mmflatten.ATSSHead',
        'mmflatten.RepPointsV2Head',
    },
    'mask_head': {'FCNMaskHead', 'HTCMaskHead'},
    'panoptic_head': {'Mask2FormerHead', 'mmflatten.EncoderMaskHead'},
    'panoptic_fusion_head': {'HeuristicFusionHead', 'MaskFormerFusionHead'},
    'pixel_decoder': {'MSDeformAttnPixelDecoder'},
    'semantic_head': {'FusedSemanticHead', 'PanopticFPNHead'},
    'anchor_generator': {'AnchorGenerator'},
    'bbox_coder': {'DeltaXYWHBBoxCoder'},
    'bbox_roi_extractor': {'SingleRoIExtractor'},
    'mask_roi_extractor': {'SingleRoIExtractor'},
    'semantic_roi_extractor': {'SingleRoIExtractor'},
    'roi_layer': {'RoIAlign'},
    'dynamic_conv_cfg': {'DynamicConv'},
    'nms': {'nms', 'soft_nms'},
    'norm_cfg': {'BN', 'GN', 'LN', 'SyncBN'},
    'act_cfg': {'ReLU'},
    'ffn_act_cfg': {'ReLU'},
    'loss_cls': {'CrossEntropyLoss', 'FocalLoss', 'QualityFocalLoss'},
    'loss_bbox': {'GIoULoss', 'L1Loss', 'SmoothL1Loss'},
    'loss_bbox_init': {'GIoULoss'},
    'loss_bbox_refine': {'GIoULoss'},
    'loss_centerness': {'CrossEntropyLoss'},
    'loss_dice': {'DiceLoss'},
    'loss_iou': {'GIoULoss'},
    'loss_mask': {'CrossEntropyLoss'},
    'loss_seg': {'CrossEntropyLoss'},
}
_STEREO: dict[str, Collection[str]] = {
    'model': {'mmflatten.PSMNet'},
}
# Scope of a task -> argument -> classes. Arguments that only a training uses are not published.
TYPES = {
    'mmpretrain': _CLASSIFIER,
    'mmseg': _SEGMENTOR,
    'mmdet': _DETECTOR,
    'mmflatten': _STEREO,
}
# Arguments that hold a word, such as `arch='tiny'`. All others hold numbers.
WORDS = frozenset(
    {
        'add_extra_convs',
        'aggregation',
        'arch',
        'attn_types',
        'block_order',
        'conv_stem',
        'feature_map',
        'mlp',
        'mode',
        'neighbor_boundary',
        'normalization',
        'out_type',
        'output_norm',
        'reduction',
    }
)


def classes_of(scope: str, argument: str, attentions: Collection[str]) -> Collection[str]:
    """Return the classes that an argument may name.

    Args:
        scope: of the task, a key of `TYPES`.
        attentions: names of the registered attentions.
    """
    is_letter = len(argument) == 1 and argument.isupper()  # of `mixers`
    if is_letter or argument in _ATTENTION_ARGUMENTS:
        return attentions
    return TYPES[scope].get(argument, ())
