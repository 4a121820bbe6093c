"""Numbers from which the pipeline and the data preprocessor of a published model are built."""
import math
from collections.abc import Callable, Mapping
from typing import Any

from mmflatten.engine.datasets import leaves
from mmflatten.hub.config_data import HubError
from mmflatten.registry import SCOPE

_PREPROCESSOR = 'preprocessor'
# Parts of `input` in a published config: class and arguments. The first ones are transforms, in this order.
_STEPS = dict(resize=('Resize', ('scale', 'keep_ratio', 'backend', 'interpolation')),
              resize_edge=('ResizeEdge', ('scale', 'edge', 'backend', 'interpolation')),
              crop=('CenterCrop', ('crop_size',)), multiple=('ResizeToMultiple', ('size_divisor',)))
_NUMBERS = ('mean', 'std', 'to_rgb', 'bgr_to_rgb', 'pad_size_divisor', 'pad_divisor', 'pad_value')
_ENDS = dict(  # the transforms before and after them, and the preprocessor
    mmpretrain=('LoadImageFromFile', 'PackInputs', 'ClsDataPreprocessor'),
    mmdet=('LoadImageFromFile', 'PackDetInputs', 'DetDataPreprocessor'),
    mmseg=('LoadImageFromFile', 'PackSegInputs', 'SegDataPreProcessor'),
    mmflatten=('mmflatten.LoadStereoPair', 'mmflatten.PackStereoInputs', 'mmflatten.StereoDataPreProcessor'))
_PACKED = dict(mmdet=dict(meta_keys=('img_path', 'ori_shape', 'img_shape', 'scale_factor')))
# Parts without effect on a prediction: ground truth, packed names and addresses of files, arguments of a training.
_TRUTH = ('LoadAnnotations', 'mmflatten.LoadDisparity')
_NAMES = ('meta_keys', 'algorithm_keys', 'backend_args', 'file_client_args')
_TRAINING = ('num_classes', 'batch_augments', 'pad_mask', 'mask_pad_value', 'pad_seg', 'seg_pad_value', 'size',
             'size_divisor', 'pad_val', 'seg_pad_val', 'non_blocking')


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and abs(value) < 2**20


def _are_channels(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 3 and all(map(_is_number, value))


def _are_sides(value: Any) -> bool:
    sides = value if isinstance(value, (list, tuple)) and len(value) == 2 else [value]
    return all(type(side) is int and 0 < side <= 2**13 for side in sides)


_WORDS = dict(edge=('short', 'long', 'width', 'height'), backend=('cv2', 'pillow'),
              interpolation=('area', 'bicubic', 'bilinear', 'lanczos', 'nearest'))
_SWITCHES = ('keep_ratio', 'to_rgb', 'bgr_to_rgb')
_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = dict(
    mean=(_are_channels, 'three numbers'), std=(lambda value: _are_channels(value) and min(value) > 0, 'three above 0'),
    scale=(_are_sides, 'sides from 1 to 8192'), crop_size=(_are_sides, 'sides from 1 to 8192'),
    pad_value=(_is_number, 'a number'), **{name: (words.__contains__, ', '.join(words)) for name, words in
                                           _WORDS.items()},
    **dict.fromkeys(('size_divisor', 'pad_size_divisor', 'pad_divisor'), (
        lambda value: type(value) is int and 0 < value <= 2**10, 'an integer from 1 to 1024')),
    **dict.fromkeys(_SWITCHES, (lambda value: isinstance(value, bool), 'true or false')))


def checked(numbers: Mapping[str, Any], where: str) -> dict[str, dict[str, Any]]:
    """Return `input` of a published config, with tuples as the transforms require them.

    Raises:
        HubError: a part or an argument is unknown, or has another type or size.
    """
    parts = {**{name: arguments for name, (_, arguments) in _STEPS.items()}, _PREPROCESSOR: _NUMBERS}
    for part, values in numbers.items():
        if part not in parts or not isinstance(values, dict):
            raise HubError(f'{where}: expected dictionaries {", ".join(parts)}, got {part[:80]!r}.')
        for name, value in values.items():
            if name not in parts[part]:
                raise HubError(f'{where}.{part}: expected {", ".join(parts[part])}, got {name[:80]!r}.')
            if not _CHECKS[name][0](value):
                raise HubError(f'{where}.{part}.{name}: expected {_CHECKS[name][1]}, got {str(value)[:80]!r}.')
    return {part: {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
            for part, values in numbers.items()}


def pipeline_of(numbers: Mapping[str, Any], scope: str) -> list[dict[str, Any]]:
    """Build the test pipeline of a task's scope from `checked` numbers."""
    first, last, _ = _ENDS[scope]
    steps = [dict(type=kind, **numbers[name]) for name, (kind, _) in _STEPS.items() if name in numbers]
    return [dict(type=first), *steps, dict(type=last, **_PACKED.get(scope, {}))]


def preprocessor_of(numbers: Mapping[str, Any], scope: str) -> dict[str, Any]:
    """Build the config of the data preprocessor from `checked` numbers."""
    return dict(type=_ENDS[scope][2], **numbers.get(_PREPROCESSOR, {}))


def input_of(cfg: Mapping[str, Any], where: str) -> dict[str, dict[str, Any]]:
    """Return the numbers of a config's test pipeline and data preprocessor.

    Raises:
        HubError: they do something that the numbers cannot say.
    """
    scope = cfg['default_scope']
    if scope not in _ENDS:
        raise HubError(f'{where}: default_scope: expected one of {", ".join(_ENDS)}, got {scope}.')
    first, last, kind = _ENDS[scope]
    dataset, _ = next(leaves(cfg['test_dataloader']['dataset']))
    steps = [_parts(step, scope, _NAMES) for step in dataset.get('pipeline') or ()]
    steps = [step for step in steps if step[0] not in _TRUTH]
    inside = {name: arguments for name, (known, _) in _STEPS.items() for step, arguments in steps if step == known}
    expected = [(first, {}), *((_STEPS[name][0], arguments) for name, arguments in inside.items()), (last, {})]
    if steps != expected:
        step = next((step for step, ours in zip([*steps, ('the end', {})], [*expected, None]) if step != ours))
        raise HubError(f'{where}: test_dataloader.dataset.pipeline: {step[0]} {step[1] or ""} cannot be published. '
                       f'Expected {first}, at most {", ".join(name for name, _ in _STEPS.values())} once and in this '
                       f'order, and {last}.')
    given, numbers = _parts({'type': kind, **(cfg['model'].get('data_preprocessor') or cfg.get('data_preprocessor')
                                              or {})}, scope, _TRAINING)
    if given != kind:
        raise HubError(f'{where}: data_preprocessor.type: expected {kind}, got {given}. Another cannot be published.')
    return checked({**inside, _PREPROCESSOR: numbers}, f'{where}: input')


def _parts(step: Mapping[str, Any], scope: str, ignored: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    name = str(step.get('type'))
    return name if scope == SCOPE else name.removeprefix(f'{scope}.'), {  # our classes keep the prefix
        key: value for key, value in step.items() if key not in ('type', *ignored) and value is not None}
