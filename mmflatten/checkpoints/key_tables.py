"""Key tables: official names of a family and the corresponding names in this project."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

OFFICIAL, OURS = 'official', 'ours'  # the two sides of a key


class Layout(Protocol):
    """Conversion of official tensors to one of this project, or several, and back.

    Both raise ValueError, RuntimeError or IndexError for shapes that they do not allow.
    """

    def join(self, pieces: list[Tensor]) -> Tensor | list[Tensor]: ...

    def split(self, pieces: list[Tensor]) -> list[Tensor]: ...


@dataclass(frozen=True)
class Axes:
    """Drop axes of length 1 of an official tensor of `dims` axes, then reorder the others."""

    dims: int
    dropped: tuple[int, ...] = ()
    order: tuple[int, ...] = ()

    def join(self, pieces: list[Tensor]) -> Tensor:
        (tensor,) = pieces
        if tensor.dim() != self.dims or any(tensor.shape[axis] != 1 for axis in self.dropped):
            ones = f', with length 1 in {self.dropped}' if self.dropped else ''
            raise ValueError(
                f'expected {self.dims} axes{ones}, got the shape {tuple(tensor.shape)}'
            )
        tensor = tensor.squeeze(self.dropped)
        return tensor.permute(self.order).contiguous() if self.order else tensor

    def split(self, pieces: list[Tensor]) -> list[Tensor]:
        (tensor,) = pieces
        if self.order:
            tensor = tensor.permute(*map(self.order.index, range(len(self.order)))).contiguous()
        for axis in self.dropped:
            tensor = tensor.unsqueeze(axis)
        return [tensor]


@dataclass(frozen=True)
class Pointwise:
    """Make a 1x1 convolution of an official linear layer."""

    def join(self, pieces: list[Tensor]) -> Tensor:
        return pieces[0][..., None, None]

    def split(self, pieces: list[Tensor]) -> list[Tensor]:
        return [pieces[0].squeeze((2, 3))]


@dataclass(frozen=True)
class Stack:
    """Stack official tensors on a new first axis."""

    def join(self, pieces: list[Tensor]) -> Tensor:
        return torch.stack(pieces)

    def split(self, pieces: list[Tensor]) -> list[Tensor]:
        return [piece.clone() for piece in pieces[0]]


@dataclass(frozen=True)
class Halves:
    """Join the rows of (q, g) and (k, v) as (q, k, v, g)."""

    def join(self, pieces: list[Tensor]) -> Tensor:
        outer, inner = pieces
        if len(outer) != len(inner) or len(outer) % 2:
            raise ValueError(
                f'expected two tensors of the same even length, got {len(outer)} and {len(inner)}'
            )
        first, last = outer.chunk(2)
        return torch.cat((first, inner, last))

    def split(self, pieces: list[Tensor]) -> list[Tensor]:
        q, k, v, g = pieces[0].chunk(4)
        return [torch.cat((q, g)), torch.cat((k, v))]


@dataclass(frozen=True)
class Key:
    """Names of one tensor: suffixes in the table of a part, full names in the result of
    `Part.keys`.

    Args:
        official: official names. Several official tensors are concatenated on their first axis.
        ours: name in this project, or several that `layout` makes; None for tensors that are not
            converted.
        ratio: relative lengths of the concatenated tensors.
        option: name of an optional feature, such as a bias: a model has either all keys of an
            option or none. An option with `{i}` in its name applies per stage; if a stage has it,
            all earlier stages must have it.
        layout: how the tensors differ, if not only in their names.
    """

    official: tuple[str, ...]
    ours: str | tuple[str, ...] | None
    ratio: tuple[int, ...] = (1,)
    option: str | None = None
    layout: Layout | None = None

    def names(self, side: str) -> tuple[str, ...]:
        """Return the names on one side."""
        if side == OFFICIAL:
            return self.official
        if isinstance(self.ours, tuple):
            return self.ours
        return () if self.ours is None else (self.ours,)


@dataclass(frozen=True)
class Part:
    """A part of the model whose names share a prefix, such as the patch embedding, a block or the
    head.

    Args:
        official: prefix of the official names, with `{i}` for the stage and `{j}` for the block,
            counted from 0, or `{i+1}` and `{i-1}` if the official numbers differ. In a plain
            backbone `{i}` is the block.
        ours: prefix of the names in this project. `{last}` is the largest `i`. None for a part that
            is not converted, which may be absent.
        kinds: keys of each kind of the part, by name of the kind. A part must have exactly the keys
            of one kind. A kind without keys means that the part is absent.
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
        numbers = {'i': i, 'i+1': i + 1, 'i-1': i - 1, 'j': j, 'last': last}
        for index, number in numbers.items():
            text = text.replace(f'{{{index}}}', str(number))
        return text

    def keys(self, kind: str, i: int, j: int, last: int) -> tuple[Key, ...]:
        """Return the keys of a kind and the dropped keys, with full names."""
        official = self.prefix(OFFICIAL, i, j, last=last)
        ours = None if self.ours is None else self.prefix(OURS, i, j, last=last)
        kept = [_with_prefixes(key, official, ours) for key in self.kinds[kind]]
        dropped = []
        for suffix in self.dropped:
            name = join(official, suffix)
            dropped.append(Key((name,), None, option=f'{official}.{suffix}'))
        return *kept, *dropped


def _with_prefixes(key: Key, official: str, ours: str | None) -> Key:
    names_here = None
    if ours is not None:
        names_here = tuple(join(ours, name) for name in key.names(OURS))
    names = tuple(join(official, suffix) for suffix in key.official)
    return replace(key, official=names, ours=names_here)


@dataclass(frozen=True)
class Family:
    """Key table of a family of models.

    Args:
        name: name for `convert_state_dict(..., family=name)`.
        parts: parts of the model, without common names.
        widths: names in this project, with `{last}`, of tensors whose last axes must have the same
            length. This detects missing last stages, because a model with fewer stages has the same
            names.
        dense: the same for the backbones of the official detectors and segmentors, which have no
            head.
        entry: entry of a checkpoint file from which the official code reads weights.
        parallel: the official code expects names of a `DataParallel` model, with the prefix
            `module.`.
        base: family of the same models without the attention of this one. It fits those state dicts
            of this family's code in which all blocks are softmax blocks, and only those.
    """

    name: str
    parts: tuple[Part, ...]
    widths: tuple[str, ...] = ()
    dense: tuple[Part, ...] = ()
    entry: str = 'model'
    parallel: bool = False
    base: str = ''

    def parts_for(self, names: Iterable[str]) -> tuple[Part, ...]:
        """Return the parts of a classifier or, if no name belongs to a head, those of a dense
        backbone.
        """
        has_head = any(name.startswith('head.') for name in names)
        return self.dense if self.dense and not has_head else self.parts


def single(
    official: str, ours: str, option: str | None = None, layout: Layout | None = None
) -> tuple[Key, ...]:
    """Return the key of one tensor."""
    return (Key((official,), ours, option=option, layout=layout),)


def affine(
    names: Mapping[str, str], bias_option: str | None = None, layout: Layout | None = None
) -> tuple[Key, ...]:
    """Return keys for `weight`, of a layout, and `bias` of modules: official -> our name, '' for
    the part itself.
    """
    keys = []
    for official, ours in names.items():
        keys.append(Key((join(official, 'weight'),), join(ours, 'weight'), layout=layout))
        keys.append(Key((join(official, 'bias'),), join(ours, 'bias'), option=bias_option))
    return tuple(keys)


def batch_norm(official: str, ours: str) -> tuple[Key, ...]:
    """Return the keys of a batch norm. `num_batches_tracked` is optional because old checkpoints do
    not have it.
    """
    options = dict(running_mean=None, running_var=None, num_batches_tracked='number of batches')
    buffers = [
        Key((join(official, leaf),), join(ours, leaf), option=option)
        for leaf, option in options.items()
    ]
    return *affine({official: ours}), *buffers


def stacked(
    official: tuple[str, ...], ours: str, ratio: tuple[int, ...], bias_option: str
) -> tuple[Key, ...]:
    """Return keys for several official linear layers of the same input that are one layer here."""
    weights = tuple(join(name, 'weight') for name in official)
    biases = tuple(join(name, 'bias') for name in official)
    return (
        Key(weights, join(ours, 'weight'), ratio),
        Key(biases, join(ours, 'bias'), ratio, option=bias_option),
    )


def dense(parts: Iterable[Part], norm: str | None = 'norm{i}') -> tuple[Part, ...]:
    """Return the parts of a dense backbone, from those of a classifier.

    Args:
        norm: official name of the norm of each map; None for no norms.
    """
    body = tuple(part for part in parts if part.official not in ('head', 'norm', 'proj'))
    if norm is None:
        return body
    return *body, Part(norm, 'backbone.norms.{i}', {'norm of the map': affine({'': ''})})


def join(prefix: str, suffix: str) -> str:
    """Join two parts of a name, either of which may be empty."""
    return '.'.join(part for part in (prefix, suffix) if part)
