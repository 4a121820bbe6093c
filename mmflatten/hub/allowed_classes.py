"""Classes that the config of a published model may name: those of our configs, by the argument that
holds them.

`tests/test_configs/test_published_configs.py` compares this list with all configs: nothing is
missing or left over.
"""

from functools import cache
from importlib.metadata import entry_points

from mmflatten.registry import MODELS, SCOPE
from mmflatten.requirements import MIXERS

_BACKBONES = (
    'AttentionResNeXt',
    'AttentionResNet',
    'BiFormerSTL',
    'FLattenCSwin',
    'FLattenDeiT',
    'FLattenPVT',
    'FLattenPVTv2',
    'FLattenSwin',
    'FocalTransformer',
    'HViTTT',
    'L2ViT',
    'MLLA',
    'RAVLT',
    'ViT',
)
_BACKBONE = dict(backbone=' '.join(f'{SCOPE}.{name}' for name in _BACKBONES))
# Scope of the task, argument, classes. Arguments that only a training uses are not published.
TYPES = {
    scope: {name: frozenset(classes.split()) for name, classes in arguments.items()}
    for scope, arguments in dict(
        mmpretrain=dict(
            _BACKBONE, model='ImageClassifier', neck='GlobalAveragePooling', head='LinearClsHead'
        ),
        mmseg=dict(
            _BACKBONE,
            model='EncoderDecoder',
            neck='FPN mmflatten.SimpleFeaturePyramid',
            decode_head='FCNHead FPNHead UPerHead',
            auxiliary_head='FCNHead',
            loss_decode='CrossEntropyLoss',
            norm_cfg='BN GN SyncBN',
        ),
        mmdet=dict(
            _BACKBONE,
            model=(
                'ATSS CascadeRCNN HybridTaskCascade MaskRCNN RepPointsDetector RetinaNet SparseRCNN'
            ),
            neck='FPN mmflatten.AttentionFPN mmflatten.BiFPN mmflatten.SimpleFeaturePyramid',
            rpn_head='EmbeddingRPNHead RPNHead',
            roi_head='CascadeRoIHead HybridTaskCascadeRoIHead SparseRoIHead StandardRoIHead',
            bbox_head=(
                'ConvFCBBoxHead DIIHead RetinaHead Shared2FCBBoxHead mmflatten.ATSSHead '
                'mmflatten.RepPointsV2Head'
            ),
            mask_head='FCNMaskHead HTCMaskHead',
            semantic_head='FusedSemanticHead',
            anchor_generator='AnchorGenerator',
            bbox_coder='DeltaXYWHBBoxCoder',
            bbox_roi_extractor='SingleRoIExtractor',
            mask_roi_extractor='SingleRoIExtractor',
            semantic_roi_extractor='SingleRoIExtractor',
            roi_layer='RoIAlign',
            dynamic_conv_cfg='DynamicConv',
            nms='nms soft_nms',
            norm_cfg='BN GN LN SyncBN',
            act_cfg='ReLU',
            ffn_act_cfg='ReLU',
            loss_cls='CrossEntropyLoss FocalLoss QualityFocalLoss',
            loss_bbox='GIoULoss L1Loss SmoothL1Loss',
            loss_bbox_init='GIoULoss',
            loss_bbox_refine='GIoULoss',
            loss_centerness='CrossEntropyLoss',
            loss_iou='GIoULoss',
            loss_mask='CrossEntropyLoss',
            loss_seg='CrossEntropyLoss',
        ),
        mmflatten=dict(model='mmflatten.PSMNet'),
    ).items()
}
# Arguments that hold a word, such as `arch='tiny'`. All others hold numbers.
WORDS = frozenset(
    (
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
    )
)


def types_of(scope: str, argument: str) -> frozenset[str]:
    """Return the classes that an argument may name. Attentions are our own and those of installed
    packages.
    """
    if (
        argument in ('attention', 'linear_attention', 'mixer')
        or len(argument) == 1
        and argument.isupper()
    ):
        return _attentions()
    return TYPES[scope].get(argument, frozenset())


@cache
def _attentions() -> frozenset[str]:
    from mmflatten.models import attention

    MODELS.import_from_location()
    names = {
        *attention.__all__,
        *(entry.name for entry in entry_points(group=MIXERS)),
    } & MODELS.module_dict.keys()
    return frozenset({*names, *(f'{SCOPE}.{name}' for name in names)})
