"""State dicts of the official code to the names of this project, and back; strict both ways.

A family's table (`rules`) is filled in with the stages and blocks of the state dict (`expansion`). If its names are
exactly those that the filled-in table asks for, every key of the table moves a tensor from one name to the other.
"""
from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from mmflatten.checkpoints.expansion import expand, find_problems
from mmflatten.checkpoints.families import FAMILIES
from mmflatten.checkpoints.rules import OFFICIAL, OURS, Family, Key

PARALLEL = 'module.'
CODE = {OFFICIAL: 'the official code', OURS: 'this project'}


def convert_state_dict(state_dict: Mapping[str, Tensor], family: str) -> dict[str, Tensor]:
    """Rename the weights of an official model for this project.

    A classifier becomes mmpretrain's `ImageClassifier` with a backbone of this project. `module.` is removed from the
    names of a `DataParallel` model. Tables keep their size: the modules resize them when they load them.

    Args:
        state_dict: official names to tensors, the weights alone. The result shares those that are not joined.
        family: a key of `FAMILIES`, such as 'flatten_swin'.

    Raises:
        ValueError: an unknown family; unknown or missing keys, or tensors to be joined whose shapes differ, by name.
            Other shapes are checked when a model loads them.
    """
    return _translate(state_dict, family, OFFICIAL)


def revert_state_dict(state_dict: Mapping[str, Tensor], family: str) -> dict[str, Tensor]:
    """The inverse of `convert_state_dict`: weights trained here, under the names of the official code.

    The model must be one of the official code, its backbone returning the last stage alone (`out_indices=(3,)`). What
    `convert_state_dict` drops (index buffers, which the official code makes itself, and FLatten-PVT's unused norm) does
    not come back.

    Raises:
        ValueError: as `convert_state_dict`; also a model with another attention.
    """
    return _translate(state_dict, family, OURS)


def without_parallel(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a `DataParallel` model under the names of the model inside it; others as they are."""
    start = len(PARALLEL) if all(name.startswith(PARALLEL) for name in state_dict) else 0
    return {name[start:]: value for name, value in state_dict.items()}


def _translate(state: Mapping[str, Tensor], family_name: str, source: str) -> dict[str, Tensor]:
    _check_values(state)
    if family_name not in FAMILIES:
        raise ValueError(f'family ({family_name!r}) must be one of {sorted(FAMILIES)}')
    family, target = FAMILIES[family_name], OURS if source == OFFICIAL else OFFICIAL
    state = without_parallel(state) if source == OFFICIAL else state
    pieces = expand(family, state, source)
    problems = find_problems(pieces, state, source)
    if problems:
        raise ValueError(_report(problems, state, family_name, source))
    result: dict[str, Tensor] = {}
    for key in (key for piece in pieces for key in piece.keys):
        old, new = key.names(source), key.names(target)  # empty here for what is not converted
        if old and new and old[0] in state:  # keys of an option may all be absent
            result.update(zip(new, _regroup({name: state[name] for name in old}, key, target)))
    _check_widths(result if target == OURS else state, family, max(piece.stage for piece in pieces))
    return result


def _regroup(tensors: Mapping[str, Tensor], key: Key, target: str) -> list[Tensor]:
    """Join or split tensors for keys that are several tensors in the official code and one here."""
    pieces = list(tensors.values())
    if len(key.ratio) == 1:
        return pieces
    unit, rest = divmod(sum(piece.shape[0] for piece in pieces), sum(key.ratio))
    lengths = [unit * share for share in key.ratio]
    if rest or (target == OURS and [piece.shape[0] for piece in pieces] != lengths):
        sizes = ', '.join(f'{name} {tuple(tensor.shape)}' for name, tensor in tensors.items())
        raise ValueError(f'{sizes}: the first axes must hold {" : ".join(map(str, key.ratio))} parts of one size')
    return [torch.cat(pieces)] if target == OURS else [piece.clone() for piece in pieces[0].split(lengths)]


def _check_values(state: Mapping[str, Tensor]) -> None:
    if not isinstance(state, Mapping) or not state:
        raise ValueError(f'state_dict ({type(state).__name__}) must be a dict of at least one tensor')
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise ValueError(f'state_dict[{name!r}] is of type {type(value).__name__}, not a tensor; pass the weights '
                             "alone, such as checkpoint['model']")


def _check_widths(ours: Mapping[str, Tensor], family: Family, last: int) -> None:
    names = [name.replace('{last}', str(last)) for name in family.widths]
    widths = {name: ours[name].shape[-1] for name in names}
    if len(set(widths.values())) > 1:
        raise ValueError(f'the last axes should be of one width, but are {widths}: are stages or blocks missing?')


def _report(problems: list[str], state: Collection[str], family: str, source: str) -> str:
    """The problems, and what the state dict is instead, if it fits anything else."""
    more = '; ...' if len(problems) > 5 else ''
    fits = [f' It has the names of {CODE[side]}, family {name!r}.' for side in CODE for name, other in FAMILIES.items()
            # A key or two missing is an accident; trouble all over means that it is a state dict of something else.
            if len(problems) > 2 and not find_problems(expand(other, state, side), state, side)]
    return (f'the state dict does not fit family {family!r} of {CODE[source]}: {"; ".join(problems[:5])}{more}.'
            f'{"".join(fits)}')
