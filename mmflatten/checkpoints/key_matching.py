"""Expansion of a family's key table to the stages and blocks of a state dict, and comparison of
names.

A table contains patterns such as `layers.{i}.blocks.{j}`, and keys of a linear block such as
`attn.scale`, which is `attn.fn.mixer.scale` here. `expand` counts stages and blocks, selects the
kind of each block and returns keys with full names, such as `layers.0.blocks.1.attn.scale`.
`find_problems` compares these names with those of the state dict.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mmflatten.checkpoints.key_tables import OURS, Family, Key, Part
from mmflatten.text import shorten

MAX_STAGES = 16
MAX_BLOCKS = 64  # of a stage, or of a plain backbone


@dataclass(frozen=True)
class Piece:
    """A part at particular indices, such as block 0 of stage 2, with the full names of its keys."""

    stage: int  # 0 for parts outside stages
    kind: str
    keys: tuple[Key, ...]


def expand(family: Family, names: Iterable[str], side: str) -> list[Piece]:
    """Determine from names alone the pieces of a model and the kind of each.

    A model has at least one stage, and a stage at least one block. Counting stops after two
    consecutive missing indices, and at `MAX_STAGES` and `MAX_BLOCKS`, so that unexpected names with
    huge indices do not create a huge table; they are reported as unknown.
    """
    names = list(names)
    parts = list(family.parts_for(names))
    if side == OURS:
        parts = [part for part in parts if part.ours is not None]
    layout = _Layout(parts, names, side)
    pieces = []
    for part in parts:
        for i, j in layout.places_of(part):
            present = layout.names_with(part, i, j)
            if not present and part.ours is None:
                continue
            kinds = []
            for kind in part.kinds:
                keys = part.keys(kind, i, j, last=layout.num_stages - 1)
                kinds.append(Piece(stage=i, kind=kind, keys=keys))
            pieces.append(_best_match(kinds, present, side))
    return pieces


class _Layout:
    """Stages and blocks of a state dict, counted from its names."""

    def __init__(self, parts: Sequence[Part], names: Sequence[str], side: str) -> None:
        self.side = side
        self._names_by_prefix = _by_prefix(parts, names, side)
        self.num_stages = _length(self._present_stages(parts))

    def places_of(self, part: Part) -> Iterator[tuple[int, int]]:
        """Yield stage and block of each place of a part, 0 for a part outside stages or blocks."""
        stages: Iterable[int] = (0,)
        if '{i' in part.official:
            stages = range(part.first_stage, self.num_stages)
        for i in stages:
            num_blocks = 1
            if '{j' in part.official:
                num_blocks = _length(self._has(part, i, j) for j in range(MAX_BLOCKS + 1))
            for j in range(num_blocks):
                yield i, j

    def names_with(self, part: Part, i: int, j: int) -> set[str]:
        """Return the names that begin with the prefix of a part."""
        prefix = part.prefix(self.side, i, j, last=self.num_stages - 1)
        return self._names_by_prefix.get(prefix, set())

    def _present_stages(self, parts: Sequence[Part]) -> Iterator[bool]:
        """Yield for each possible stage whether a name belongs to it."""
        staged = [part for part in parts if '{i' in part.official]
        has_blocks = any('{j' in part.official for part in parts)
        limit = MAX_STAGES if has_blocks else MAX_BLOCKS  # stages of a plain backbone are blocks
        for i in range(limit + 1):
            yield any(self._has(part, i) for part in staged)

    def _has(self, part: Part, i: int, j: int = 0) -> bool:
        return i >= part.first_stage and part.prefix(self.side, i, j) in self._names_by_prefix


def _by_prefix(parts: Sequence[Part], names: Sequence[str], side: str) -> dict[str, set[str]]:
    """Return all names by each of their prefixes, such as `layers.0`."""
    deepest = max(1 + part.prefix(side).count('.') for part in parts)
    found: dict[str, set[str]] = defaultdict(set)
    for name in names:
        words = name.split('.', deepest)[:deepest]
        for number in range(1, len(words) + 1):
            found['.'.join(words[:number])].add(name)
    return found


def find_problems(pieces: Iterable[Piece], names: Collection[str], side: str) -> list[str]:
    """Describe unknown and missing names. The list is empty if the names match the pieces."""
    options = _options(pieces, names, side)
    problems: list[str] = []
    known: set[str] = set()
    for piece in pieces:
        expected = _expected_names(piece, options, side)
        known.update(expected)
        missing = [name for name in expected if name not in names]
        present = [name for name in expected if name in names]
        if not missing:
            continue
        detail = piece.kind
        if present and len(missing) > len(present):  # probably another kind
            detail += f', only {shorten(present)} present'
        problems.append(f'missing {shorten(missing)} ({detail})')
    unknown = [name for name in names if name not in known]
    if unknown:
        problems.insert(0, f'unknown {shorten(unknown)}')
    return problems


def _expected_names(piece: Piece, options: Mapping[str, float], side: str) -> list[str]:
    """Return the names that a piece must have: of all keys without an option, and of the options in
    use.

    For example, if stages 0 and 1 of a state dict have the optional `layers.{i}.norm.weight`, a
    piece of stage 0 or 1 must have it, and one of stage 2 must not.
    """
    expected: list[str] = []
    for key in piece.keys:
        if key.option is None or piece.stage <= options.get(key.option, -1):
            expected.extend(key.names(side))
    return expected


def _length(present: Iterable[bool]) -> int:
    """Count indices up to the first two consecutive missing ones. A single gap is counted, to
    report its names: blocks 0, 1, 3 are four blocks, of which one misses its names.

    There is at least one index, whose names are reported if none is present.
    """
    number = 0
    for number, (is_present, next_is_present) in enumerate(pairwise(present)):
        if not is_present and not next_is_present:
            return max(1, number)
    return number + 1


def _best_match(kinds: Iterable[Piece], present: set[str], side: str) -> Piece:
    """Return the kind with the fewest missing and unknown names, and of these the one with the most
    keys.
    """

    def distance(piece: Piece) -> tuple[int, int]:
        known: set[str] = set()
        required: set[str] = set()
        for key in piece.keys:
            known.update(key.names(side))
            if key.option is None:
                required.update(key.names(side))
        return len(required - present) + len(present - known), -len(required)

    return min(kinds, key=distance)


def _options(pieces: Iterable[Piece], names: Collection[str], side: str) -> Mapping[str, float]:
    """Map each option in use to the last stage that must have it: the last one that has one of its
    names, or all stages if the option is not one of each stage.
    """
    options: dict[str, float] = {}
    for piece in pieces:
        for key in piece.keys:
            if key.option and any(name in names for name in key.names(side)):
                last = piece.stage if '{i}' in key.option else math.inf
                options[key.option] = max(last, options.get(key.option, last))
    return options
