"""Strict conversion of state dicts between the names of the official code and those of this
project.

The key table of a family (`key_tables`) is expanded to the stages and blocks of the state dict
(`key_matching`). If the state dict has exactly the names of the expanded table, each key maps its
tensors from one name to the other.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from mmflatten.checkpoints.families import FAMILIES
from mmflatten.checkpoints.key_matching import expand, find_problems
from mmflatten.checkpoints.key_tables import OFFICIAL, OURS, Family, Key, Layout
from mmflatten.text import shorten

PARALLEL, BACKBONE = 'module.', 'backbone.'
# Parts of names of weights. First parts: DataParallel, and the attributes to which people assign a
# model in Lightning. Parts anywhere: torch.compile and FSDP, which wrap parts of a model, too.
FIRST_WRAPPERS = ('module', 'model', 'net', 'network')
INNER_WRAPPERS = ('_orig_mod', '_fsdp_wrapped_module')
CODE = {OFFICIAL: 'the official code', OURS: 'this project'}


def convert_state_dict(state_dict: Mapping[str, Tensor], family: str) -> dict[str, Tensor]:
    """Convert the weights of an official model to the names of this project.

    The result for a classifier fits mmpretrain's `ImageClassifier` with a backbone of this project.
    Families with dense backbones also take these, alone or in a detector or segmentor, whose other
    names are kept. The prefixes of wrappers are removed (see `unwrapped`). Positional tables keep
    their size; modules resize them as they load.

    Args:
        state_dict: maps official names to tensors. The result shares memory with it, except for
            concatenated tensors.
        family: a key of `FAMILIES`, such as 'flatten_swin'.

    Raises:
        ValueError: an unknown family, unknown or missing keys, or tensors whose shapes do not allow
            concatenation. The message gives their names. Other shapes are checked when a model
            loads the result.
    """
    return _translate(state_dict, family, OFFICIAL)


def revert_state_dict(state_dict: Mapping[str, Tensor], family: str) -> dict[str, Tensor]:
    """Convert weights trained here to the names of the official code, the inverse of
    `convert_state_dict`.

    The official code must have the same model, and its backbone must return only the last stage
    (`out_indices=(3,)`). Tensors that `convert_state_dict` drops are not restored: index buffers,
    which the official code recomputes, and the unused norm of FLatten-PVT.

    Raises:
        ValueError: as in `convert_state_dict`, or the model has another attention.
    """
    return _translate(state_dict, family, OURS)


def unwrapped(
    state_dict: Mapping[str, Any], expected: str | Collection[str] = ''
) -> tuple[dict[str, Any], list[str]]:
    """Return a copy of the state dict with the expected names, and the wrappers that were removed
    from them.

    A name loses `INNER_WRAPPERS` anywhere and `FIRST_WRAPPERS` at its start. It stays as it is if
    it is expected, never becomes so, or is another weight's without the wrappers.

    Args:
        expected: names of the model, or how those that are needed begin; by default any without a
            wrapper.
    """
    bare: dict[str, Any] = {}
    removed: Counter = Counter()
    for name, value in state_dict.items():
        new = _without_wrappers(name, expected)
        if new in state_dict or new in bare:  # another weight's
            new = name
        bare[new] = value
        if new != name:
            removed |= Counter(name.split('.')) - Counter(new.split('.'))
    return bare, [f'{part}.' for part in removed]


def _without_wrappers(name: str, expected: str | Collection[str]) -> str:
    """Return the longest expected name that remains if wrappers are removed, or the name itself."""
    if _is_expected(name, expected):
        return name
    parts = [part for part in name.split('.') if part not in INNER_WRAPPERS]
    for start, part in enumerate(parts):
        shorter = '.'.join(parts[start:])
        if _is_expected(shorter, expected):
            return shorter
        if part not in FIRST_WRAPPERS:
            break
    return name


def _is_expected(name: str, expected: str | Collection[str]) -> bool:
    if not isinstance(expected, str):
        return name in expected
    parts = name.split('.')
    if not set(parts).isdisjoint(INNER_WRAPPERS):
        return False
    if expected:
        return name.startswith(expected)
    return parts[0] not in FIRST_WRAPPERS


def find_family(state_dict: Mapping[str, Tensor]) -> str:
    """Return the family whose official names and shapes a state dict has.

    A model of softmax blocks alone is of the `base` of the families that fit it, such as 'vit' and
    not 'agent_deit'.

    Raises:
        ValueError: no family fits, or several do.
    """
    return find_and_convert(state_dict)[0]


def find_and_convert(state_dict: Mapping[str, Tensor]) -> tuple[str, dict[str, Tensor]]:
    """Return the result of `find_family` and that of `convert_state_dict` for it.

    A family fits if the conversion succeeds, so that it need not be repeated.
    """
    fitting = {}
    for name in FAMILIES:
        with suppress(ValueError):
            fitting[name] = _translate(state_dict, name, OFFICIAL, suggest=False)
    found = _without_extensions(fitting)
    if not found:
        raise ValueError(
            'family: expected the names of a known family for auto, got '
            f'{shorten(list(state_dict))}. Name the closest one with --family to see what differs.'
        )
    if len(found) > 1:
        raise ValueError(
            f'family: several fit these names, got {", ".join(found)}. Choose one with --family.'
        )
    return found[0], fitting[found[0]]


def _without_extensions(fitting: Collection[str]) -> list[str]:
    """Leave out families whose `base` also fits, because none of their own blocks is in the state
    dict.
    """
    return [name for name in fitting if FAMILIES[name].base not in fitting]


def _translate(
    state: Mapping[str, Tensor], family_name: str, source: str, suggest: bool = True
) -> dict[str, Tensor]:
    """Convert names from the side `source` to the other one.

    Args:
        suggest: name other families in the message of an error, which takes long.
    """
    _require_weights(state)
    if family_name not in FAMILIES:
        raise ValueError(f'family: expected one of {sorted(FAMILIES)}, got {family_name!r}.')
    family = FAMILIES[family_name]
    target = OURS if source == OFFICIAL else OFFICIAL
    if source == OFFICIAL:
        state, _ = unwrapped(state)
    # The names of a detector or segmentor outside its backbone are kept.
    others: dict[str, Tensor] = {}
    if family.parts_for(state) is family.dense:
        state, others = _split_backbone(state, source)
    # The names must be exactly those of the table.
    pieces = expand(family, state, source)
    problems = find_problems(pieces, state, source)
    if problems:
        message = _report(
            problems=problems,
            state=state,
            family=family_name,
            source=source,
            suggest=suggest,
        )
        raise ValueError(message)
    result: dict[str, Tensor] = {}
    for piece in pieces:
        for key in piece.keys:
            result.update(_translated(key, state, source=source, target=target))
    last_stage = max(piece.stage for piece in pieces)
    _check_widths(result if target == OURS else state, family, last_stage)
    if others and target == OFFICIAL:
        result = {BACKBONE + name: value for name, value in result.items()}
    result.update(others)
    return result


def _require_weights(state: Mapping[str, Tensor]) -> None:
    if not isinstance(state, Mapping) or not state:
        raise ValueError(
            f'state_dict: expected a dict with at least one tensor, got {type(state).__name__}.'
        )
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise ValueError(
                f'state_dict[{name!r}]: expected a tensor, got {type(value).__name__}. Pass only'
                " the weights, such as checkpoint['model']."
            )


def _split_backbone(
    state: Mapping[str, Tensor], source: str
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the weights of the backbone, by the names of its key table, and the others.

    Our tables contain the prefix `backbone.`. Official ones do not, and an official backbone may be
    alone.
    """
    if source == OURS:
        prefix, removed = BACKBONE, ''
    elif any(name.startswith(BACKBONE) for name in state):
        prefix, removed = BACKBONE, BACKBONE
    else:
        prefix, removed = '', ''
    backbone: dict[str, Tensor] = {}
    others: dict[str, Tensor] = {}
    for name, value in state.items():
        if name.startswith(prefix):
            backbone[name.removeprefix(removed)] = value
        else:
            others[name] = value
    return backbone, others


def _translated(
    key: Key, state: Mapping[str, Tensor], source: str, target: str
) -> dict[str, Tensor]:
    """Return the tensors of a key by their new names: none if they are dropped, or are optional and
    absent.
    """
    old, new = key.names(source), key.names(target)
    if not old or not new or old[0] not in state:
        return {}
    tensors = {name: state[name] for name in old}
    return dict(zip(new, _regroup(tensors, key, target)))


def _regroup(tensors: Mapping[str, Tensor], key: Key, target: str) -> list[Tensor]:
    """Concatenate or split tensors of a key that is several tensors in the official code and one
    here.
    """
    pieces = list(tensors.values())
    if key.layout is not None:
        try:
            return _apply_layout(key.layout, pieces, target)
        except (ValueError, RuntimeError, IndexError) as error:
            raise ValueError(f'state_dict: {", ".join(tensors)}: {error}.') from error
    if len(key.ratio) == 1:
        return pieces
    unit, rest = divmod(sum(piece.shape[0] for piece in pieces), sum(key.ratio))
    lengths = [unit * part for part in key.ratio]
    if rest or (target == OURS and [piece.shape[0] for piece in pieces] != lengths):
        sizes = ', '.join(f'{name} {tuple(tensor.shape)}' for name, tensor in tensors.items())
        ratio = ':'.join(map(str, key.ratio))
        raise ValueError(
            f'state_dict: expected tensors with lengths in the ratio {ratio}, got {sizes}.'
        )
    if target == OURS:
        return [torch.cat(pieces)]
    return [piece.clone() for piece in pieces[0].split(lengths)]


def _apply_layout(layout: Layout, pieces: list[Tensor], target: str) -> list[Tensor]:
    if target == OFFICIAL:
        return layout.split(pieces)
    joined = layout.join(pieces)
    return joined if isinstance(joined, list) else [joined]


def _check_widths(ours: Mapping[str, Tensor], family: Family, last: int) -> None:
    """Raise ValueError if the tensors of `family.widths` differ in width."""
    names = [name.replace('{last}', str(last)) for name in family.widths]
    widths = {name: ours[name].shape[-1] for name in names if name in ours}
    if len(set(widths.values())) > 1:
        raise ValueError(
            f'state_dict: expected the same width in the last stage, got {widths}. Check for'
            ' missing stages or blocks.'
        )


def _report(
    problems: list[str], state: Collection[str], family: str, source: str, suggest: bool
) -> str:
    """Describe the problems, and suggest other families whose names the state dict matches."""
    more = '; ...' if len(problems) > 5 else ''
    message = (
        f'state_dict: does not fit family {family!r} of {CODE[source]}:'
        f' {"; ".join(problems[:5])}{more}.'
    )
    if not suggest or len(problems) <= 2:  # probably the right family with a damaged state dict
        return message
    for side in CODE:
        for name in _without_extensions(_families_with(state, side)):
            message += f' It has the names of {CODE[side]}, family {name!r}.'
    return message


def _families_with(names: Collection[str], side: str) -> list[str]:
    """Return the families whose key tables have exactly these names."""
    found = []
    for family_name, family in FAMILIES.items():
        pieces = expand(family, names, side)
        if not find_problems(pieces, names, side):
            found.append(family_name)
    return found
