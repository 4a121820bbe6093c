"""A family's table for one state dict: which tensors it must hold, by their full names, and what does not fit.

The table says `layers.{i}.blocks.{j}` and, for a linear block, `attn.scale`, which is `attn.fn.mixer.scale` here.
`expand` counts stages and blocks, chooses the kind of each block and returns keys with full names, such as
`layers.0.blocks.1.attn.scale`. `find_problems` compares these names with those of the state dict.
"""
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, count, pairwise

from mmflatten.checkpoints.rules import OFFICIAL, Family, Key, Part, shorten


@dataclass(frozen=True)
class Piece:
    """A part at its indices, such as block 0 of stage 2: its stage (0 without one), kind, and keys of full names."""

    stage: int
    kind: str
    keys: tuple[Key, ...]


def expand(family: Family, names: Iterable[str], side: str) -> list[Piece]:
    """Find out from names alone which pieces a model has, and the kind of each.

    There is at least one stage, and one block in each. An index after two missing ones is not counted, so that a
    surplus name cannot ask for a model of a billion blocks: it stays unknown.
    """
    begun: dict[str, set[str]] = defaultdict(set)  # `layers.0` to all names that begin with it
    for name in names:
        for beginning in accumulate(name.split('.'), '{}.{}'.format):
            begun[beginning].add(name)

    def has(part: Part, i: int, j: int = 0) -> bool:
        return i >= part.first_stage and part.beginning(side, i, j) in begun

    parts = [part for part in family.parts if side == OFFICIAL or part.ours is not None]
    stages = _length(any(has(part, i) for part in parts if '{i' in part.official) for i in count())
    pieces = []
    for part in parts:
        for i in range(part.first_stage, stages) if '{i' in part.official else (0,):
            for j in range(_length(has(part, i, j) for j in count())) if '{j' in part.official else (0,):
                here = begun.get(part.beginning(side, i, j, stages - 1), set())
                if here or part.ours is not None:
                    kinds = [Piece(i, kind, part.keys(kind, i, j, stages - 1)) for kind in part.kinds]
                    pieces.append(_nearest(kinds, here, side))
    return pieces


def find_problems(pieces: Iterable[Piece], names: Collection[str], side: str) -> list[str]:
    """What is unknown or missing, with the full names; nothing where the names are those of the pieces."""
    options = _options(pieces, names, side)
    problems: list[str] = []
    known: set[str] = set()
    for piece in pieces:
        expected = [name for key in piece.keys for name in key.names(side)
                    if key.option is None or piece.stage <= options.get(key.option, -1)]
        known.update(expected)
        missing = [name for name in expected if name not in names]
        there = [name for name in expected if name in names]
        if missing:
            only = f', of which only {shorten(there)} is there' if there and len(missing) > len(there) else ''
            problems.append(f'missing {shorten(missing)} (for a {piece.kind}{only})')
    unknown = [name for name in names if name not in known]
    return [f'unknown {shorten(unknown)}', *problems] if unknown else problems


def _length(there: Iterable[bool]) -> int:
    """How many come before the first two that are missing; a single gap counts, so that its names can be reported."""
    return max(1, next(n for n, two in enumerate(pairwise(there)) if not any(two)))


def _nearest(kinds: Iterable[Piece], here: set[str], side: str) -> Piece:
    """The kind that leaves the fewest names missing or unknown; of equals, the one of more keys."""
    def distance(piece: Piece) -> tuple[int, int]:
        known = {name for key in piece.keys for name in key.names(side)}
        required = {name for key in piece.keys if key.option is None for name in key.names(side)}
        return len(required - here) + len(here - known), -len(required)

    return min(kinds, key=distance)


def _options(pieces: Iterable[Piece], names: Collection[str], side: str) -> Mapping[str, float]:
    """The options that are in use, each with the last stage that must have it."""
    options: dict[str, float] = {}
    for piece in pieces:
        for key in piece.keys:
            if key.option and any(name in names for name in key.names(side)):
                last = piece.stage if '{i}' in key.option else math.inf
                options[key.option] = max(last, options.get(key.option, last))
    return options
