"""Vocabulary of the key tables: what a family's official names are, and what the same weights are called here."""
from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

OFFICIAL, OURS = 'official', 'ours'  # the two sides that a key has a name on


@dataclass(frozen=True)
class Key:
    """One tensor inside a part, by the end of its name.

    Args:
        official: ends of the official names. Several tensors are one here, concatenated on their first axis.
        ours: end of the name here.
        ratio: lengths of the concatenated tensors relative to each other.
        option: an option of the model, such as a bias that can be switched off: all its keys are there, or none. With
            `{i}` in its name it is an option of each stage, which a stage must have if a later one does.
    """

    official: tuple[str, ...]
    ours: str
    ratio: tuple[int, ...] = (1,)
    option: str | None = None

    def names(self, side: str) -> tuple[str, ...]:
        """The ends of its names on a side."""
        return self.official if side == OFFICIAL else (self.ours,)


@dataclass(frozen=True, eq=False)
class Part:
    """A piece of the model whose names share a beginning: the patch embedding, one block, the head.

    Args:
        official: beginning of the official names, with `{i}` for the stage and `{j}` for the block, counted from 0;
            `{i+1}` and `{i-1}` where the official count differs. A plain backbone has blocks `{i}` and no stages.
        ours: beginning of the names here. `{last}` is the largest `i`. None for a part that is not converted: it may
            be absent, and does not come back.
        kinds: the keys that such a part can have, by the name of the kind. A part must have exactly the keys of one; a
            kind without keys is a part that is not there.
        first_stage: the first stage that has it (1 for what stands between two stages).
        dropped: ends of official names that are not converted, with the reason.
    """

    official: str
    ours: str | None
    kinds: Mapping[str, tuple[Key, ...]]
    first_stage: int = 0
    dropped: Mapping[str, str] = field(default_factory=dict)

    def beginning(self, side: str, last: int) -> Template:
        """The shared beginning on a side that has this part, of a model whose last stage is `last`."""
        text = (self.official if side == OFFICIAL else self.ours) or ''
        return Template(text.replace('{last}', str(last)))

    @cached_property
    def indices(self) -> tuple[str, ...]:
        """Which of stage `i` and block `j` tell its instances apart."""
        return tuple(re.findall(r'\{([ij])', self.official))


@dataclass(frozen=True)
class Family:
    """All parts of a family.

    Args:
        name: as in `convert_state_dict(..., family=name)`.
        parts: tried in this order.
        widths: names here, with `{last}`, of tensors whose last axes have one length. They tell that the last stages
            of a checkpoint are gone, since a model of fewer stages has the same names.
        entry: entry of a checkpoint file in which the official code looks for the weights.
        parallel: whether the official code looks there for the names of a `DataParallel` model, with `module.`.
    """

    name: str
    parts: tuple[Part, ...]
    widths: tuple[str, ...] = ()
    entry: str = 'model'
    parallel: bool = False

    def parts_of(self, side: str) -> list[Part]:
        """The parts that there are on a side."""
        return [part for part in self.parts if side == OFFICIAL or part.ours is not None]


class Template:
    """A beginning of names with indices in it, such as `layers.{i-1}.downsample`."""

    def __init__(self, text: str) -> None:
        self._format = re.sub(r'\{([ij])[^}]*\}', r'{\1}', text)
        pattern, self.offsets = '', {}
        for literal, index, offset in re.findall(r'([^{]+)|\{([ij])([+-]\d+)?\}', text):
            pattern += rf'(?P<{index}>0|[1-9]\d*)' if index else re.escape(literal)
            if index:
                self.offsets[index] = int(offset or 0)
        self._pattern = re.compile(rf'{pattern}(?:\.(?P<end>.+))?')

    def match(self, name: str) -> tuple[tuple[int, ...], str] | None:
        """Indices counted from 0, and the end of the name ('' if there is none); None if it does not fit."""
        match = self._pattern.fullmatch(name)
        if match is None:
            return None
        indices = tuple(int(match[index]) - offset for index, offset in self.offsets.items())
        return None if min(indices, default=0) < 0 else (indices, match['end'] or '')

    def names(self, indices: tuple[int, ...], ends: Iterable[str]) -> list[str]:
        """The full names of tensors, in the order of their ends; those of a set are sorted."""
        numbers = {index: number + offset for (index, offset), number in zip(self.offsets.items(), indices)}
        beginning = self._format.format(**numbers)
        return [_join(beginning, end) for end in (sorted(ends) if isinstance(ends, set) else ends)]


def single(official: str, ours: str, option: str | None = None) -> tuple[Key, ...]:
    """One tensor."""
    return (Key((official,), ours, option=option),)


def affine(names: Mapping[str, str], bias_option: str | None = None) -> tuple[Key, ...]:
    """`weight` and `bias` of modules, official name to our name; '' is the part itself."""
    return tuple(Key((_join(official, leaf),), _join(ours, leaf), option=bias_option if leaf == 'bias' else None)
                 for official, ours in names.items() for leaf in ('weight', 'bias'))


def batch_norm(official: str, ours: str) -> tuple[Key, ...]:
    """A batch norm with its statistics; old checkpoints lack the number of batches that it has seen."""
    return (*affine({official: ours}), *single(f'{official}.running_mean', f'{ours}.running_mean'),
            *single(f'{official}.running_var', f'{ours}.running_var'),
            *single(f'{official}.num_batches_tracked', f'{ours}.num_batches_tracked', option='number of batches'))


def stacked(official: tuple[str, ...], ours: str, ratio: tuple[int, ...], bias_option: str) -> tuple[Key, ...]:
    """Several official linear layers of the same input that are one here."""
    return tuple(Key(tuple(_join(name, leaf) for name in official), _join(ours, leaf), ratio,
                     bias_option if leaf == 'bias' else None) for leaf in ('weight', 'bias'))


def _join(beginning: str, end: str) -> str:
    return '.'.join(part for part in (beginning, end) if part)


def shorten(names: Collection[str], limit: int = 4) -> str:
    """The first names and the number of the others, for a message."""
    return ', '.join(list(names)[:limit]) + (f' and {len(names) - limit} more' if len(names) > limit else '')
