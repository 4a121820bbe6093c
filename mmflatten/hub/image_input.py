"""The pipeline and the data preprocessor of a published model, built from numbers, and the numbers
of a config.
"""

from collections.abc import Mapping
from typing import Any

from mmflatten.engine.datasets import first_config
from mmflatten.registry import SCOPE
from mmflatten.untrusted.published import HubError, Input, arguments, checked

# The transforms that parts of `Input` stand for, in this order.
_STEPS = dict(
    resize='Resize', resize_edge='ResizeEdge', crop='CenterCrop', multiple='ResizeToMultiple'
)
_ENDS = dict(  # the transforms before and after them, and the preprocessor
    mmpretrain=('LoadImageFromFile', 'PackInputs', 'ClsDataPreprocessor'),
    mmdet=('LoadImageFromFile', 'PackDetInputs', 'DetDataPreprocessor'),
    mmseg=('LoadImageFromFile', 'PackSegInputs', 'SegDataPreProcessor'),
    mmflatten=(
        'mmflatten.LoadStereoPair',
        'mmflatten.PackStereoInputs',
        'mmflatten.StereoDataPreProcessor',
    ),
)
_PACKED = dict(mmdet=dict(meta_keys=('img_path', 'ori_shape', 'img_shape', 'scale_factor')))
# Parts without effect on a prediction: ground truth, packed names and addresses of files, arguments
# of a training.
_TRUTH = ('LoadAnnotations', 'mmflatten.LoadDisparity')
_NAMES = ('meta_keys', 'algorithm_keys', 'backend_args', 'file_client_args')
_TRAINING = (
    'num_classes',
    'batch_augments',
    'pad_mask',
    'mask_pad_value',
    'pad_seg',
    'seg_pad_value',
    'size',
    'size_divisor',
    'pad_val',
    'seg_pad_val',
    'non_blocking',
)


def pipeline_of(numbers: Input, scope: str) -> list[dict[str, Any]]:
    """Build the test pipeline of a task's scope."""
    first, last, _ = _ENDS[scope]
    steps = [dict(type=first)]
    for name, kind in _STEPS.items():
        part = getattr(numbers, name)
        if part is not None:
            steps.append(dict(type=kind, **arguments(part)))
    return [*steps, dict(type=last, **_PACKED.get(scope, {}))]


def preprocessor_of(numbers: Input, scope: str) -> dict[str, Any]:
    """Build the config of a task's data preprocessor."""
    return dict(type=_ENDS[scope][2], **arguments(numbers.preprocessor))


def input_of(cfg: Mapping[str, Any], where: str) -> dict[str, dict[str, Any]]:
    """Return the numbers of a config's test pipeline and data preprocessor, as `config.json` holds
    them.

    Raises:
        HubError: they do something that the numbers cannot say.
    """
    scope = cfg['default_scope']
    if scope not in _ENDS:
        raise HubError(f'{where}: default_scope: expected one of {", ".join(_ENDS)}, got {scope}.')
    first, last, kind = _ENDS[scope]
    dataset = first_config(cfg['test_dataloader']['dataset'])
    steps = [_parts(step, scope, _NAMES) for step in dataset.get('pipeline') or ()]
    steps = [step for step in steps if step[0] not in _TRUTH]
    given = dict(steps)
    inside = {name: given[transform] for name, transform in _STEPS.items() if transform in given}
    expected = [(first, {})]
    expected += [(_STEPS[name], values) for name, values in inside.items()]
    expected += [(last, {})]
    if steps != expected:
        pairs = zip([*steps, ('the end', {})], [*expected, None])
        name, values = next(step for step, ours in pairs if step != ours)
        raise HubError(
            f'{where}: test_dataloader.dataset.pipeline: expected {first}, at most'
            f' {", ".join(_STEPS.values())} once and in this order, and {last}, got {name}'
            f' {values or ""}. Another pipeline cannot be published.'
        )
    preprocessor = cfg['model'].get('data_preprocessor') or cfg.get('data_preprocessor') or {}
    name, values = _parts({'type': kind, **preprocessor}, scope, _TRAINING)
    if name != kind:
        raise HubError(
            f'{where}: data_preprocessor.type: expected {kind}, got {name}. Another cannot be'
            ' published.'
        )
    numbers = checked(Input, {**inside, 'preprocessor': values}, f'{where}: input')
    return arguments(numbers)


def _parts(
    step: Mapping[str, Any], scope: str, ignored: tuple[str, ...]
) -> tuple[str, dict[str, Any]]:
    name = str(step.get('type'))
    # our classes keep the prefix
    return name if scope == SCOPE else name.removeprefix(f'{scope}.'), {
        key: value
        for key, value in step.items()
        if key not in ('type', *ignored) and value is not None
    }
