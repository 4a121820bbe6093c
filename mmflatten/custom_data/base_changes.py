"""Changes that make a base config train on other data.

The config tree of the base is walked once; `base_rules.RULES` decides on each argument. The data
sets inside wrappers are replaced, and keep their pipelines.
"""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.registry import METRICS, MODELS, Registry

from mmflatten.custom_data.base_rules import (
    COUNT,
    DEFAULTS,
    KEEP,
    RULES,
    THINGS,
    Argument,
    Facts,
    UnsuitedBase,
    known_class,
    type_name,
)
from mmflatten.custom_data.config_source import (
    ABSENT,
    Call,
    Edit,
    New,
    PythonSource,
    edited,
    field_name,
    reference,
    source,
)
from mmflatten.custom_data.reading import CustomData

SPLITS = ('train', 'val', 'test')
ROOTS = (
    'model',
    'data_preprocessor',
    'custom_hooks',
    'default_hooks',
    'tta_model',
    'tta_pipeline',
    'visualizer',
)
# of the classes whose defaults depend on the data
REGISTRIES = dict(model=MODELS, val_evaluator=METRICS, test_evaluator=METRICS)
# Arguments of a data set that do not depend on its files
KEPT_FIELDS = ('max_refetch', 'return_classes', 'serialize_data')
COMMENTS = dict(
    ann_file='list of the images',
    data_prefix='folders that file names are relative to',
    img_suffix='of every image',
    seg_map_suffix='of every label map',
    reduce_zero_label='True if 0 means unlabelled',
    filter_cfg='images that training leaves out',
    pipeline='loading, resizing and augmentation',
)


@dataclass
class BaseChanges:
    """Changes of a base config for a data set.

    Attributes:
        edits: new values of fields.
        notes: what of the base is left out, in lines.
    """

    edits: Edit = field(default_factory=Edit)
    notes: list[str] = field(default_factory=list)


def changes_for(base: Config, data: CustomData) -> BaseChanges:
    """Return what changes in a base for the data.

    Raises:
        UnsuitedBase: a field of the base does not fit. The message begins with the field.
    """
    changes = BaseChanges()
    replaced = [_evaluator(base, f'{split}_evaluator', data, changes) for split in SPLITS[1:]]
    facts = Facts(
        classes=len(data.classes),
        masks=data.masks,
        score=data.score,
        new_metric=replaced[0],
        panoptic=data.num_things is not None,
    )
    walk = _Walk(scope=base.get('default_scope') or 'mmengine', facts=facts, changes=changes)
    if data.classes:
        for name in (*ROOTS, 'val_evaluator', 'test_evaluator'):
            if not isinstance(changes.edits.get(name), New | Call):
                walk.apply(base.get(name), (name,))
        _require_classes(changes.edits, base)
    for split in SPLITS:
        loader = base.get(f'{split}_dataloader')
        if loader is not None:
            _loader(base, split, data=data, walk=walk)
    return changes


def _require_classes(edits: Edit, base: Config) -> None:
    """Raise UnsuitedBase unless the model or a part of it predicts classes.

    It is a part outside of the backbone, or the backbone of a classifier such as VGG, whose head
    only has the loss.
    """
    parts = Edit(edits.get('model', {}))
    if type_name(base.model.get('type')) != 'ImageClassifier':
        parts.pop('backbone', None)
    if not _sets_count(parts):
        raise UnsuitedBase(
            'model: has no head with num_classes. Choose a complete detector, segmentor or'
            ' classifier'
        )


def _sets_count(edit: Any) -> bool:
    if not isinstance(edit, Edit):
        return False
    return bool({COUNT, THINGS} & _plain_values(edit)) or any(map(_sets_count, edit.values()))


def _plain_values(edit: Edit) -> set[str]:
    return {value for value in edit.values() if isinstance(value, str)}


@dataclass
class _Walk:
    """Applies the rules to parts of a config."""

    scope: str
    facts: Facts
    changes: BaseChanges

    def apply(self, node: Any, place: tuple[str | int, ...]) -> None:
        """Edit each argument below `place` that depends on the data."""
        for argument in self._arguments(node, place, classes=None):
            value = RULES[str(argument.place[-1])](argument, self.facts)
            if value is not KEEP:
                self.changes.edits.set(argument.place, value)

    def _arguments(
        self, node: Any, place: tuple[str | int, ...], classes: int | None
    ) -> Iterator[Argument]:
        """Yield the arguments that have a rule, those of a node before those inside it."""
        if isinstance(node, (list, tuple)):
            for index, item in enumerate(node):
                yield from self._arguments(item, (*place, index), classes)
            return
        if not isinstance(node, Mapping):
            return
        fields = {**self._defaults(node, place), **node}
        classes = _count_of(fields) or classes
        for name, value in fields.items():
            if name in RULES:
                yield Argument(
                    place=(*place, name),
                    value=value,
                    owner=fields,
                    classes=classes,
                    notes=self.changes.notes,
                )
        for name, value in node.items():
            yield from self._arguments(value, (*place, name), classes)

    def _defaults(self, node: Mapping[str, Any], place: tuple[str | int, ...]) -> dict[str, Any]:
        """Return the defaults of the node's class that depend on the classes."""
        defaults: dict[str, Any] = {}
        kind = node.get('type')
        if place[0] not in REGISTRIES or kind is None:
            return defaults
        if isinstance(kind, str):
            kind = _registered(REGISTRIES[place[0]], kind, self.scope)
        for name in DEFAULTS:
            if name.startswith('num_') and _count_of(node):
                continue  # the number has another name in this class
            default = _default(kind, name)
            if default is not inspect.Parameter.empty:
                defaults[name] = default
        return defaults


def _count_of(fields: Mapping[str, Any]) -> int | None:
    """Return the number of classes that a dictionary has as its arguments."""
    count = fields.get('num_classes')
    if not count and isinstance(fields.get('num_things_classes'), int):
        count = fields['num_things_classes'] + fields.get('num_stuff_classes', 0)
    return count if isinstance(count, int) and count > 0 else None


def _registered(registry: Registry, name: str, scope: str) -> Any:
    with registry.switch_scope_and_registry(scope) as local:
        return local.get(name)


def _default(kind: Any, name: str) -> Any:
    """Return the default of an argument of a class, which may be that of a parent class;
    `Parameter.empty` if there is none.
    """
    for cls in getattr(kind, '__mro__', ()):
        if '__init__' in vars(cls):
            parameter = inspect.signature(cls.__init__).parameters.get(name)
            if parameter is not None:
                return parameter.default
    return inspect.Parameter.empty


def _evaluator(base: Config, name: str, data: CustomData, changes: BaseChanges) -> bool:
    """Keep the metrics of the base that fit the data, with the data's files; without one, set the
    default metric. Returns True for a new metric.
    """
    node = base.get(name)
    if node is None or not data.metrics:
        return False
    is_list = isinstance(node, (list, tuple))
    metrics = list(node) if is_list else [node]
    kinds = [type_name(item.get('type')) for item in metrics]
    known = {type_name(metric) for metric in data.metrics}
    fitting = [index for index, kind in enumerate(kinds) if kind in known]
    files = _files_of_metric(data)
    is_new = name == 'val_evaluator' or node != base.get('val_evaluator')
    left_out = [kind for index, kind in enumerate(kinds) if index not in fitting]
    if fitting and left_out and is_new:
        changes.notes.append(f'{name}: {", ".join(left_out)} of the base is left out')
    if not fitting:
        if is_new:
            old = ', '.join(kinds)
            changes.notes.append(f'{name}: {data.metrics[0]} replaces {old} of the base')
        fields = New(type=data.metrics[0], **(data.evaluator | files))
        if data.masks and learns_masks(base):
            fields |= data.mask_evaluator
        changes.edits[name] = fields
    elif len(fitting) < len(metrics):
        kept = [edited(Edit(files), node[i], reference([name, i])) for i in fitting]
        changes.edits[name] = Call('[', ']', [('', item, '') for item in kept])
    elif files:
        changes.edits[name] = Edit({i: Edit(files) for i in fitting}) if is_list else Edit(files)
    return not fitting


def _files_of_metric(data: CustomData) -> dict[str, PythonSource]:
    """Return the arguments of a metric that are files, which it does not look up in `data_root`."""
    files = {}
    for key, value in data.evaluator.items():
        if isinstance(value, Path):
            files[key] = PythonSource(f'data_root + {source(value, data.root)}')
    return files


def learns_masks(base: Config) -> bool:
    """Return True if a loading step of the training reads masks."""
    levels, _ = _descend(base.train_dataloader.dataset, ('train_dataloader', 'dataset'))
    for _, level in levels:
        for step in level.get('pipeline') or ():
            if step.get('with_mask'):
                return True
    return False


def _loader(base: Config, split: str, data: CustomData, walk: _Walk) -> None:
    """Replace the data set of a loader, inside its wrappers."""
    name = f'{split}_dataloader'
    loader = base[name]
    # A test that is the validation is mentioned once.
    is_new = split != 'test' or loader != base.get('val_dataloader')
    notes = walk.changes.notes if is_new else None
    levels, target = _descend(loader.dataset, (name, 'dataset'), notes)
    if data.classes:
        for key, value in loader.items():
            if key != 'dataset':
                walk.apply(value, (name, key))
        for place, level in levels:
            walk.apply(level.get('pipeline'), (*place, 'pipeline'))
    place, inner = levels[-1]
    _require_dataset(inner, place, walk.facts)
    pipeline = walk.changes.edits.find((*place, 'pipeline'))
    fields = New(type=data.dataset, data_root=PythonSource('data_root'))
    fields.comments = COMMENTS
    if data.classes:
        fields['metainfo'] = PythonSource('metainfo')
    fields |= data.train if split == 'train' else data.val
    for key in KEPT_FIELDS:
        if key in inner:
            fields[key] = _plain(inner[key])
    if split != 'train':
        fields['test_mode'] = True
    fields['pipeline'] = _pipeline(inner, (*place, 'pipeline'), pipeline, walk.changes, base)
    walk.changes.edits.set(target, fields)


Level = tuple[tuple[str | int, ...], Mapping[str, Any]]


def _descend(
    dataset: Mapping[str, Any], place: tuple[str | int, ...], notes: list[str] | None = None
) -> tuple[list[Level], tuple[str | int, ...]]:
    """Return the place and config of a data set and of those it wraps, from the outside, and the
    place of the data set to replace.

    The only data set takes the place of several concatenated ones, which must share a pipeline.
    """
    levels: list[Level] = [(place, dataset)]
    target = place
    while True:
        place, node = levels[-1]
        if isinstance(node.get('dataset'), Mapping):
            if target != place:
                raise UnsuitedBase(f'{field_name(place)}: a wrapper inside of concatenated data')
            target = (*place, 'dataset')
            levels.append((target, node['dataset']))
        elif isinstance(node.get('datasets'), (list, tuple)):
            _require_one_pipeline(node['datasets'], place)
            if notes is not None:
                notes.append(
                    f'{field_name(place)}: your data replace {len(node["datasets"])} data sets'
                )
            levels.append(((*place, 'datasets', 0), node['datasets'][0]))
        else:
            return levels, target


def _require_one_pipeline(
    datasets: Sequence[Mapping[str, Any]], place: tuple[str | int, ...]
) -> None:
    first, *others = [part.get('pipeline') for part in datasets]
    if any(other != first for other in others):
        raise UnsuitedBase(
            f'{field_name(place)}.datasets: expected one pipeline in all of the concatenated data'
            f' sets, got different ones in {len(datasets)}'
        )


def _require_dataset(
    dataset: Mapping[str, Any], place: tuple[str | int, ...], facts: Facts
) -> None:
    kind = dataset.get('type')
    known_class(Argument((*place, 'type'), kind, dataset, classes=None), facts)


def _plain(value: Any) -> Any:
    return value.to_dict() if hasattr(value, 'to_dict') else value


def _pipeline(
    dataset: Mapping[str, Any],
    place: tuple[str | int, ...],
    edit: Any,
    changes: BaseChanges,
    base: Config,
) -> Any:
    """Return the expression of the pipeline of the base's data set, with its edits.

    Data sets such as CIFAR-10 hold images in RGB, so that their pipelines have no loading step.
    """
    steps = dataset.get('pipeline')
    if steps is None:
        raise UnsuitedBase(f'{field_name(place)}: is missing')
    text = reference(place)
    expression = PythonSource(text) if edit is ABSENT else edited(edit, steps, text)
    loads = any(type_name(step.get('type')).startswith('Load') for step in steps)
    if not steps or loads or not changes.edits.get('model'):
        return expression
    load: dict[str, Any] = dict(type='LoadImageFromFile')
    at_top = base.get('data_preprocessor') is not None
    owner = base if at_top else base.model
    mean = (owner.get('data_preprocessor') or {}).get('mean') or ()
    if len(mean) == 1:
        load['color_type'] = 'grayscale'
    else:
        where = ('data_preprocessor',) if at_top else ('model', 'data_preprocessor')
        changes.edits.set((*where, 'to_rgb'), True)
    return Call('[', ']', [('', source(load), ''), ('*', expression, '')])
