"""Key tables: official names of a family and the corresponding names in this project."""
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

OFFICIAL, OURS = 'official', 'ours'  # the two sides of a key


@dataclass(frozen=True)
class Key:
    """Names of one tensor: suffixes in the table of a part, full names in the result of `Part.keys`.

    Args:
        official: official names. Several official tensors are concatenated on their first axis.
        ours: name in this project; None for tensors that are not converted.
        ratio: relative lengths of the concatenated tensors.
        option: name of an optional feature, such as a bias: a model has either all keys of an option or none. An
            option with `{i}` in its name applies per stage; if a stage has it, all earlier stages must have it.
    """

    official: tuple[str, ...]
    ours: str | None
    ratio: tuple[int, ...] = (1,)
    option: str | None = None

    def names(self, side: str) -> tuple[str, ...]:
        """Return the names on one side."""
        if side == OFFICIAL:
            return self.official
        return () if self.ours is None else (self.ours,)


@dataclass(frozen=True)
class Part:
    """A part of the model whose names share a prefix, such as the patch embedding, a block or the head.

    Args:
        official: prefix of the official names, with `{i}` for the stage and `{j}` for the block, counted from 0, or
            `{i+1}` and `{i-1}` if the official numbers differ. In a plain backbone `{i}` is the block.
        ours: prefix of the names in this project. `{last}` is the largest `i`. None for a part that is not converted,
            which may be absent.
        kinds: keys of each kind of the part, by name of the kind. A part must have exactly the keys of one kind. A
            kind without keys means that the part is absent.
        first_stage: first stage with this part (1 for parts between stages).
        dropped: suffixes of official names that are not converted, with the reason.
    """

    official: str
    ours: str | None
    kinds: Mapping[str, tuple[Key, ...]]
    first_stage: int = 0
    dropped: Mapping[str, str] = field(default_factory=dict)

    def prefix(self, side: str, i: int = 0, j: int = 0, last: int = 0) -> str:
        """Return the prefix of block `j` in stage `i` of a model with the last stage `last`."""
        text = (self.official if side == OFFICIAL else self.ours) or ''
        for index, number in (('i', i), ('i+1', i + 1), ('i-1', i - 1), ('j', j), ('last', last)):
            text = text.replace(f'{{{index}}}', str(number))
        return text

    def keys(self, kind: str, i: int, j: int, last: int) -> tuple[Key, ...]:
        """Return the keys of a kind and the dropped keys, with full names."""
        official, ours = (self.prefix(side, i, j, last) for side in (OFFICIAL, OURS))
        kept = (Key(tuple(_join(official, suffix) for suffix in key.official),
                    _join(ours, key.ours or '') if self.ours else None, key.ratio, key.option)
                for key in self.kinds[kind])
        dropped = (Key((_join(official, suffix),), None, option=f'{official}.{suffix}') for suffix in self.dropped)
        return *kept, *dropped


@dataclass(frozen=True)
class Family:
    """Key table of a family of models.

    Args:
        name: name for `convert_state_dict(..., family=name)`.
        parts: parts of the model, without common names.
        widths: names in this project, with `{last}`, of tensors whose last axes must have the same length. This detects
            missing last stages, because a model with fewer stages has the same names.
        entry: entry of a checkpoint file from which the official code reads weights.
        parallel: the official code expects names of a `DataParallel` model, with the prefix `module.`.
    """

    name: str
    parts: tuple[Part, ...]
    widths: tuple[str, ...] = ()
    entry: str = 'model'
    parallel: bool = False


def single(official: str, ours: str, option: str | None = None) -> tuple[Key, ...]:
    """Return the key of one tensor."""
    return (Key((official,), ours, option=option),)


def affine(names: Mapping[str, str], bias_option: str | None = None) -> tuple[Key, ...]:
    """Return keys for `weight` and `bias` of modules: official name -> our name, '' for the part itself."""
    return tuple(Key((_join(official, leaf),), _join(ours, leaf), option=bias_option if leaf == 'bias' else None)
                 for official, ours in names.items() for leaf in ('weight', 'bias'))


def batch_norm(official: str, ours: str) -> tuple[Key, ...]:
    """Return the keys of a batch norm. `num_batches_tracked` is optional because old checkpoints do not have it."""
    return (*affine({official: ours}), *single(f'{official}.running_mean', f'{ours}.running_mean'),
            *single(f'{official}.running_var', f'{ours}.running_var'),
            *single(f'{official}.num_batches_tracked', f'{ours}.num_batches_tracked', option='number of batches'))


def stacked(official: tuple[str, ...], ours: str, ratio: tuple[int, ...], bias_option: str) -> tuple[Key, ...]:
    """Return keys for several official linear layers of the same input that are one layer here."""
    return tuple(Key(tuple(_join(name, leaf) for name in official), _join(ours, leaf), ratio,
                     bias_option if leaf == 'bias' else None) for leaf in ('weight', 'bias'))


def _join(prefix: str, suffix: str) -> str:
    return '.'.join(part for part in (prefix, suffix) if part)


def shorten(names: Collection[str], limit: int = 4) -> str:
    """Return the first names and the number of the others, for a message."""
    text = ', '.join(list(names)[:limit])
    return f'{text} and {len(names) - limit} more' if len(names) > limit else text
