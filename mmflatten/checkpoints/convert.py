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
from mmflatten.checkpoints.key_tables import OFFICIAL, OURS, Family, Key
from mmflatten.text import shorten

PARALLEL, BACKBONE = 'module.', 'backbone.'
# DataParallel, torch.compile, Lightning: parts of names of weights
WRAPPERS = ('module', '_orig_mod', 'model')
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
    """Return a copy of the state dict with the expected names, and the `WRAPPERS` that were removed
    from them.

    A name loses `_orig_mod` anywhere, since parts of a model may be compiled, and the others at its
    start. It stays as it is if it is expected, never becomes so, or is another weight's without the
    wrappers.

    Args:
        expected: names of the model, or how those that are needed begin; by default any without a
            wrapper.
    """
    bare: dict[str, Any] = {}
    removed: Counter = Counter()
    for name, value in state_dict.items():
        parts = [part for part in name.split('.') if part != WRAPPERS[1]]
        start = next((n for n, part in enumerate(parts) if part not in WRAPPERS), 0)
        shorter = ('.'.join(parts[n:]) for n in range(start + 1))
        found = next((new for new in (name, *shorter) if _fits(new, expected)), name)
        if found != name and (found in state_dict or found in bare):
            found = name
        bare[found] = value
        if found != name:
            removed |= Counter(name.split('.')) - Counter(found.split('.'))
    return bare, [f'{part}.' for part in removed]


def _fits(name: str, expected: str | Collection[str]) -> bool:
    if not isinstance(expected, str):
        return name in expected
    parts = name.split('.')
    return WRAPPERS[1] not in parts and (
        name.startswith(expected) if expected else parts[0] not in WRAPPERS
    )


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
    if family_name not in FAMILIES:
        raise ValueError(f'family: expected one of {sorted(FAMILIES)}, got {family_name!r}.')
    family, target = FAMILIES[family_name], OURS if source == OFFICIAL else OFFICIAL
    state = unwrapped(state)[0] if source == OFFICIAL else state
    others: dict[str, Tensor] = {}
    if family.parts_for(state) is family.dense:
        own = (
            BACKBONE
            if source == OFFICIAL and any(name.startswith(BACKBONE) for name in state)
            else ''
        )
        kept = own or (BACKBONE if source == OURS else '')
        others = {name: value for name, value in state.items() if not name.startswith(kept)}
        state = {name[len(own) :]: value for name, value in state.items() if name.startswith(kept)}
    pieces = expand(family, state, source)
    problems = find_problems(pieces, state, source)
    if problems:
        raise ValueError(_report(problems, state, family_name, source, suggest))
    result: dict[str, Tensor] = {}
    for key in (key for piece in pieces for key in piece.keys):
        old, new = key.names(source), key.names(target)  # empty for dropped tensors
        if old and new and old[0] in state:  # optional keys may be absent
            result.update(zip(new, _regroup({name: state[name] for name in old}, key, target)))
    _check_widths(result if target == OURS else state, family, max(piece.stage for piece in pieces))
    if others and target == OFFICIAL:
        result = {BACKBONE + name: value for name, value in result.items()}
    return {**result, **others}


def _regroup(tensors: Mapping[str, Tensor], key: Key, target: str) -> list[Tensor]:
    """Concatenate or split tensors of a key that is several tensors in the official code and one
    here.
    """
    pieces = list(tensors.values())
    if key.layout is not None:
        try:
            if target != OURS:
                return key.layout.split(pieces)
            joined = key.layout.join(pieces)
            return joined if isinstance(joined, list) else [joined]
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
    return (
        [torch.cat(pieces)]
        if target == OURS
        else [piece.clone() for piece in pieces[0].split(lengths)]
    )


def _check_widths(ours: Mapping[str, Tensor], family: Family, last: int) -> None:
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
        fitting = [
            name
            for name, other in FAMILIES.items()
            if not find_problems(expand(other, state, side), state, side)
        ]
        for name in _without_extensions(fitting):
            message += f' It has the names of {CODE[side]}, family {name!r}.'
    return message
