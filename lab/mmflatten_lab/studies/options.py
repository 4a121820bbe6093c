"""Allowed options of a study file. The file is data; a config is a program, which MMEngine
executes.
"""

import functools
import re
from typing import Any

import mmengine.registry
from mmengine.registry import Registry

from mmflatten.registry import SCOPE
from mmflatten.tasks import tasks
from mmflatten.text import clip
from mmflatten.untrusted.model_classes import WORDS

BASE = 'base'
DATA = ('train_dataloader', 'val_dataloader', 'test_dataloader', 'val_evaluator', 'test_evaluator')
FIELDS = (
    BASE,
    'model',
    'data_preprocessor',
    *DATA,
    'train_cfg',
    'val_cfg',
    'test_cfg',
    'optim_wrapper',
    'param_scheduler',
    'auto_scale_lr',
    'randomness',
    'load_from',
)
# Fields of data loaders, data sets and metrics. Pipelines and storage belong to the base config.
DATA_FIELDS = frozenset(
    (
        'type _delete_ batch_size num_workers persistent_workers drop_last sampler shuffle dataset'
        ' times indices data_root ann_file split folder size padding flip number seed task pairs'
        ' symbols density topk metric canvases'
    ).split()
)
REGISTRIES = (
    'model',
    'task util',
    'weight initializer',
    'optimizer',
    'optim_wrapper',
    'optimizer wrapper constructor',
    'parameter scheduler',
    'dataset',
    'data sampler',
    'metric',
    'evaluator',
    'loop',
)
# Classes of other libraries, besides all of mmflatten.
TYPES = frozenset(
    (
        'BN SyncBN GN LN ReLU GELU SiLU TruncNormal Constant Normal Kaiming Xavier ImageClassifier'
        ' GlobalAveragePooling ResNet LinearNeck LinearClsHead CrossEntropyLoss LabelSmoothLoss'
        ' FocalLoss QualityFocalLoss GIoULoss L1Loss SmoothL1Loss DiceLoss Mixup CutMix MaskRCNN'
        ' CascadeRCNN RetinaNet ATSS FPN RPNHead RetinaHead ATSSHead StandardRoIHead CascadeRoIHead'
        ' Shared2FCBBoxHead FCNMaskHead SingleRoIExtractor AnchorGenerator DeltaXYWHBBoxCoder'
        ' MaxIoUAssigner ATSSAssigner PseudoSampler EncoderDecoder FPNHead UPerHead FCNHead'
        ' ClsDataPreprocessor DetDataPreprocessor SegDataPreProcessor OptimWrapper AmpOptimWrapper'
        ' SGD Adam AdamW ConstantLR LinearLR CosineAnnealingLR MultiStepLR PolyLR'
        ' EpochBasedTrainLoop IterBasedTrainLoop ValLoop TestLoop DefaultSampler InfiniteSampler'
        ' RepeatDataset ConcatDataset CustomDataset Accuracy CocoMetric IoUMetric'
    ).split()
)
PLAIN = (type(None), bool, int, float, str, dict, list, tuple)
PLACE = r'[\w .,:;/+@~=^<>#&!?-]*'
# Fields that hold text. Others could be evaluated, imported, or unpickled from an address, such as
# `class_weight`.
TEXT = {
    **dict.fromkeys(WORDS | {'dtype', 'gate', 'metric', 'split', 'task', 'loss_scale'}, r'[\w-]*'),
    **dict.fromkeys(('data_root', 'folder'), r'[\w .,/+@~=-]*'),
    'load_from': PLACE,
    'ann_file': r'([\w .,/+@~=-]*\.(json|txt))?',
    'type': r'[\w.+-]*',
    '_scope_': r'\w*',
}
UNREGISTERED = {
    'nms': ('nms', 'soft_nms'),
    'roi_layer': ('RoIAlign', 'RoIPool'),
    'clip_grad': ('norm', 'value'),
}
ELSEWHERE = 'Set it in the base config, which is a program.'


def check_options(options: dict[str, Any]) -> dict[str, Any]:
    """Raise ValueError if options could do more than set plain values and types of a library of
    this project.
    """
    for path, value in options.items():
        first, *names = path.split('.')
        if first not in FIELDS:
            raise ValueError(f'{clip(path)}: expected a field of {", ".join(FIELDS)}. {ELSEWHERE}')
        for name in names:
            if first in DATA and name not in DATA_FIELDS and not name.isdecimal():
                raise _not_a_data_field(path, name)
        if path != BASE:
            _check_value(path, value)
    return options


def _not_a_data_field(path: str, name: str) -> ValueError:
    return ValueError(
        f'{clip(path)}: expected fields of {", ".join(sorted(DATA_FIELDS))}, got {clip(name)}. '
        f'{ELSEWHERE}'
    )


def _check_value(path: str, value: Any) -> None:
    name = next(name for name in reversed(path.split('.')) if not name.isdecimal())
    if not (isinstance(value, PLAIN) and re.fullmatch(PLACE, path) and _is_word(name, value)):
        raise ValueError(
            f'{clip(path)}: expected numbers, or a word in a field of {", ".join(sorted(TEXT))},'
            f' got {clip(str(value))}. {ELSEWHERE}'
        )
    scope = _scope_of(name, value)
    if scope and scope not in scopes():
        raise ValueError(
            f'{clip(path)}: expected a type of {", ".join(scopes())}, got {clip(str(value))}.'
            f' {ELSEWHERE}'
        )
    for key, item in parts(value):
        if isinstance(value, dict) and path.partition('.')[0] in DATA and key not in DATA_FIELDS:
            raise _not_a_data_field(path, str(key))
        _check_value(f'{path}.{key}', item)


def _is_word(name: str, value: Any) -> bool:
    """Return True if a text is allowed in a field; also True for a value that is not a text."""
    if not isinstance(value, str):
        return True
    return name in TEXT and re.fullmatch(TEXT[name], value) is not None


def _scope_of(name: str, value: Any) -> Any:
    """Scope that a field names, itself or before the class of a type; '' for other fields."""
    if name == '_scope_':
        return value
    if name == 'type':
        return str(value).rpartition('.')[0]
    return ''


def parts(value: Any) -> list[tuple[Any, Any]]:
    """Return the names and values inside a value."""
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    return []


def check_types(path: str, value: Any, scope: str) -> None:
    """Raise ValueError for a type that is not allowed or not registered. MMEngine would import a
    module of its name.
    """
    parent, _, name = path.rpartition('.')
    if name == 'type' and not _is_allowed(value, scope, parent.rpartition('.')[2]):
        raise ValueError(
            f'{path}: expected a registered type, got {clip(str(value))}. Correct it. {ELSEWHERE}'
        )
    for key, item in parts(value):
        check_types(f'{path}.{key}', item, scope)


def _is_allowed(kind: Any, scope: str, parent: str) -> bool:
    if not isinstance(kind, str):
        return False
    if kind in UNREGISTERED.get(parent, ()):
        return True
    library, _, name = kind.rpartition('.')
    if library and library.partition('.')[0] not in scopes():
        # A study file cannot name it, but `mmflatten fingerprint my_attention.MyAttention` can.
        return True
    if library in ('', SCOPE) and find_class(f'{SCOPE}.{name}', scope) is not None:
        return True  # the scope of an attention may be left out
    return name in TYPES and find_class(kind, scope) is not None


@functools.cache
def scopes() -> tuple[str, ...]:
    return ('mmengine', SCOPE, *(task.scope for task in tasks().values()))


@functools.cache
def find_class(kind: Any, scope: str) -> Any:
    """Class of a `type` in one of `REGISTRIES`, or None. Unlike MMEngine, never import what the
    type names.
    """
    if not isinstance(kind, str):
        return kind
    from mmflatten.engine.setup import require_scope  # imports MMEngine's runner, which is slow

    prefix, _, name = kind.rpartition('.')
    if (prefix or scope) not in scopes():
        return None
    require_scope(prefix or scope)
    for root in vars(mmengine.registry).values():
        if isinstance(root, Registry) and root.name in REGISTRIES:
            own = root if prefix == root.scope else root.children.get(prefix or scope)
            for registry in (own,) if prefix else (own, root):
                if registry is None:
                    continue
                registry.import_from_location()
                if name in registry.module_dict or name in getattr(registry, 'on_demand', ()):
                    return registry.get(name)
    return None
