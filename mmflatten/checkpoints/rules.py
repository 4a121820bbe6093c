"""Vocabulary of the key tables: what a family's official names are, and what the same weights are called here."""
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

OFFICIAL, OURS = 'official', 'ours'  # the two sides that a key has a name on


@dataclass(frozen=True)
class Key:
    """One tensor: the ends of its names in the table of a part, its full names after `Part.keys`.

    Args:
        official: official names. Several tensors are one here, concatenated on their first axis.
        ours: the name here; None for what is not converted.
        ratio: lengths of the concatenated tensors relative to each other.
        option: an option of the model, such as a bias that can be switched off: all its keys are there, or none. With
            `{i}` in its name it is an option of each stage, which a stage must have if a later one does.
    """

    official: tuple[str, ...]
    ours: str | None
    ratio: tuple[int, ...] = (1,)
    option: str | None = None

    def names(self, side: str) -> tuple[str, ...]:
        """Its names on a side."""
        return self.official if side == OFFICIAL else () if self.ours is None else (self.ours,)


@dataclass(frozen=True)
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

    def beginning(self, side: str, i: int = 0, j: int = 0, last: int = 0) -> str:
        """What all its names on a side begin with, in block `j` of stage `i`, of a model whose last stage is `last`."""
        text = (self.official if side == OFFICIAL else self.ours) or ''
        for index, number in (('i', i), ('i+1', i + 1), ('i-1', i - 1), ('j', j), ('last', last)):
            text = text.replace(f'{{{index}}}', str(number))
        return text

    def keys(self, kind: str, i: int, j: int, last: int) -> tuple[Key, ...]:
        """The keys of a kind, and those that are dropped, by their full names."""
        official, ours = (self.beginning(side, i, j, last) for side in (OFFICIAL, OURS))
        kept = (Key(tuple(_join(official, end) for end in key.official),
                    _join(ours, key.ours or '') if self.ours else None, key.ratio, key.option)
                for key in self.kinds[kind])
        return *kept, *(Key((_join(official, end),), None, option=f'{official}.{end}') for end in self.dropped)


@dataclass(frozen=True)
class Family:
    """All parts of a family.

    Args:
        name: as in `convert_state_dict(..., family=name)`.
        parts: no two with the same names.
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
