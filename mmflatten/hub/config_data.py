"""Configs as JSON, and the check of a config that comes from somebody else."""
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import PurePath
from typing import Any

from mmengine.config import Config
from mmengine.registry import MODELS, TASK_UTILS, TRANSFORMS, WEIGHT_INITIALIZERS, Registry

from mmflatten.registry import SCOPE

TUPLE = '__tuple__'  # JSON has lists only, and some transforms require tuples
_REGISTRIES = (MODELS, TASK_UTILS, TRANSFORMS, WEIGHT_INITIALIZERS)
_MODULES = ('mmflatten.', 'torch.nn.', 'mmcv.cnn.', 'mmcv.ops.', 'mmcv.transforms.', 'mmengine.model.',
            'mmengine.utils.dl_utils.parrots_wrapper.', 'mmdet.models.', 'mmdet.datasets.transforms.', 'mmseg.models.',
            'mmseg.datasets.transforms.', 'mmpretrain.models.', 'mmpretrain.datasets.transforms.')
# Modules whose classes read files, configs or addresses that their arguments name.
_READERS = re.compile(r'distillation|glip|grounding|hugging|kd_one_stage|\.lad|language|linearize|margin_head|\.mot\.|'
                      r'multimodal|peft|\.reid|retriev|rfsearch|san_head|selfsup|\.text|timm|tokenizer|track|'
                      'vector_quantizer|vlfusion|vpd|vqa')
_READING_CLASSES = ('PretrainedInit', 'LoadBiomedical')  # the latter read pickles; beginnings of names
# Names that the libraries do not look up in these registries. mmcv 2.3 evaluates the type of an NMS as Python.
_OTHERS = ('nms', 'soft_nms', 'nms_match', 'RoIAlign', 'RoIPool', 'Mixup', 'CutMix', 'ResizeMix')
_DOTTED = re.compile(r'[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+')
_NAME = re.compile(r'(?:(\w+)\.)?([A-Za-z_]\w*)')
_REFUSED = ('_base_', '_scope_', 'custom_imports', 'pretrained', 'trust_remote_code')
_DEPTH = 60  # of nested values


class HubError(ValueError):
    """A published model is missing, damaged or not accepted, or cannot be written."""


def to_data(value: Any, where: str = 'config') -> Any:
    """Return the value of a config with JSON's types only. Of absolute paths and addresses the last part is kept.

    Raises:
        HubError: a value, such as a class or a function, is not data.
    """
    match value:
        case Mapping():
            if wrong := [key for key in value if not isinstance(key, str)]:
                raise HubError(f'{where}: expected names as keys, got {wrong[0]!r}. A published config is JSON.')
            return {key: to_data(item, f'{where}.{key}') for key, item in value.items()}
        case list() | tuple():
            items = [to_data(item, f'{where}[{number}]') for number, item in enumerate(value)]
            return items if isinstance(value, list) else {TUPLE: items}
        case str():
            return PurePath(value).name if value.startswith(('/', '~')) or '://' in value else value
        case None | bool() | int() | float():
            return value
    raise HubError(f'{where}: expected numbers, text, lists and dictionaries, got {type(value).__name__}. A published '
                   'config is JSON: give classes by their registered names.')


def from_data(value: Any) -> Any:
    """Return a value of `to_data` with its tuples."""
    if isinstance(value, dict):
        if value.keys() == {TUPLE} and isinstance(value[TUPLE], list):
            return tuple(map(from_data, value[TUPLE]))
        return {key: from_data(item) for key, item in value.items()}
    return [from_data(item) for item in value] if isinstance(value, list) else value


def without_weights(value: Any) -> Any:
    """Return part of a config without the files that its weights began with."""
    if isinstance(value, Mapping):
        kept = {key: item for key, item in value.items() if key != 'pretrained' and not (
            key == 'init_cfg' and isinstance(item, Mapping) and item.get('type') == 'Pretrained')}
        return {key: without_weights(item) for key, item in kept.items()}
    return type(value)(map(without_weights, value)) if isinstance(value, (list, tuple)) else value


def require_shallow(value: Any, where: str, depth: int = _DEPTH) -> None:
    """Raise HubError for values that are nested too deeply to be walked."""
    if depth == 0:
        raise HubError(f'{where}: expected at most {_DEPTH} nested values, got more.')
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        require_shallow(item, where, depth - 1)


def require_safe(value: Any, scope: str, where: str) -> None:
    """Check that a part of a config builds only known classes, which read no files and no addresses.

    Args:
        scope: the config's `default_scope`, whose library is imported.
        where: field of the config, for messages.

    Raises:
        HubError: a key imports, inherits or loads something, or a type is not a registered one.
    """
    if isinstance(value, Mapping):
        for key in _REFUSED:
            if value.get(key):
                raise HubError(f'{where}.{key}: not accepted in a published config, got {str(value[key])[:80]!r}.')
        if isinstance(value.get('class_weight'), str):  # mmseg 1.4 reads the file, which may be a pickle
            raise HubError(f'{where}.class_weight: expected numbers, got {value["class_weight"][:80]!r}.')
        if 'type' in value:
            _require_known(value['type'], scope, f'{where}.type')
        for key, item in value.items():
            require_safe(item, scope, f'{where}.{key}')
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            require_safe(item, scope, f'{where}[{number}]')
    elif isinstance(value, str) and '://' in value:
        raise HubError(f'{where}: addresses are not accepted in a published config, got {value[:80]!r}.')
    elif isinstance(value, str) and _DOTTED.fullmatch(value):  # MMEngine imports a type such as `package.module.name`
        _require_known(value, scope, where)


def _require_known(name: Any, scope: str, where: str) -> None:
    parts = _NAME.fullmatch(name) if isinstance(name, str) else None
    found = [] if parts is None else list(_registered(parts[1] or '', parts[2], scope))
    if name not in _OTHERS and not (found and all(map(_is_accepted, found))):
        raise HubError(f'{where}: expected the name of a registered layer or transform, got {str(name)[:80]!r}. A '
                       'published config imports nothing.')
    # A registry that lacks the name would import a module of that name, such as a file of the working directory.
    module = None if '.' in name else find_spec(name)
    if module is not None and module.origin:  # a plain folder has none
        raise HubError(f'{where}: {name} is also the name of a module, {module.origin}, which is not to be imported. '
                       'Rename it, or run in another folder.')


def _registered(prefix: str, name: str, scope: str) -> Iterator[tuple[Registry, type]]:
    """Yield the registered classes of a name. `Registry.get` would import a module of that name instead."""
    for root in _REGISTRIES:
        nodes = {root.scope: root, **root.children}
        for node in (nodes.get(part) for part in ((prefix,) if prefix else (scope, root.scope, SCOPE))):
            if node is None:
                continue
            node.import_from_location()
            if name in getattr(node, 'on_demand', ()):
                yield node, node.get(name)
            elif name in node.module_dict:
                yield node, node.module_dict[name]


def _is_accepted(found: tuple[Registry, Any]) -> bool:
    node, kind = found
    module = f'{getattr(kind, "__module__", "")}.'
    ours = node.scope == SCOPE  # with the attentions of installed packages
    return ((ours or module.startswith(_MODULES)) and not _READERS.search(module)
            and not kind.__name__.startswith(_READING_CLASSES))


def config_of(data: Mapping[str, Any], metainfo: Mapping[str, Any], visualizer: str) -> Config:
    """Make the config of a prediction. Of the data set only the checked pipeline is used."""
    loader = data['test_dataloader']
    collate = dict(loader.get('collate_fn') or {}).get('type')
    dataset = dict(type='mmengine.dataset.BaseDataset', metainfo=dict(metainfo), pipeline=pipeline_of(data))
    known = dict(collate_fn=dict(type=collate)) if collate in ('default_collate', 'pseudo_collate') else {}
    fields = {key: data[key] for key in ('default_scope', 'model', 'data_preprocessor') if data.get(key)}
    return Config(dict(**fields, visualizer=dict(type=visualizer), test_dataloader=dict(dataset=dataset, **known)))


def pipeline_of(data: Mapping[str, Any]) -> list[dict]:
    """Return the test pipeline, also of a data set in wrappers."""
    dataset = data['test_dataloader'].get('dataset')
    for _ in range(_DEPTH):
        if not isinstance(dataset, Mapping):
            break
        if isinstance(dataset.get('pipeline'), list):
            return dataset['pipeline']
        inner = dataset.get('datasets') or [dataset.get('dataset')]
        dataset = inner[0] if isinstance(inner, list) else None
    raise HubError('config.json: test_dataloader.dataset.pipeline: expected a list of transforms, got none.')
