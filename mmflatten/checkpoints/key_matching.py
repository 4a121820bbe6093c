"""Expansion of a family's key table to the stages and blocks of a state dict, and comparison of
names.

A table contains patterns such as `layers.{i}.blocks.{j}`, and keys of a linear block such as
`attn.scale`, which is `attn.fn.mixer.scale` here. `expand` counts stages and blocks, selects the
kind of each block and returns keys with full names, such as `layers.0.blocks.1.attn.scale`.
`find_problems` compares these names with those of the state dict.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise

from mmflatten.checkpoints.key_tables import OFFICIAL, Family, Key, Part
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
    parts = [part for part in family.parts_for(names) if side == OFFICIAL or part.ours is not None]
    deepest = max(1 + part.prefix(side).count('.') for part in parts)
    # `layers.0` -> all names with this prefix
    names_by_prefix: dict[str, set[str]] = defaultdict(set)
    for name in names:
        for prefix in accumulate(name.split('.', deepest)[:deepest], '{}.{}'.format):
            names_by_prefix[prefix].add(name)

    def has(part: Part, i: int, j: int = 0) -> bool:
        return i >= part.first_stage and part.prefix(side, i, j) in names_by_prefix

    most = MAX_STAGES if any('{j' in part.official for part in parts) else MAX_BLOCKS
    stages = _length(
        any(has(part, i) for part in parts if '{i' in part.official) for i in range(most + 1)
    )
    pieces = []
    for part in parts:
        for i in range(part.first_stage, stages) if '{i' in part.official else (0,):
            for j in (
                range(_length(has(part, i, j) for j in range(MAX_BLOCKS + 1)))
                if '{j' in part.official
                else (0,)
            ):
                present = names_by_prefix.get(part.prefix(side, i, j, stages - 1), set())
                if present or part.ours is not None:
                    kinds = [
                        Piece(i, kind, part.keys(kind, i, j, stages - 1)) for kind in part.kinds
                    ]
                    pieces.append(_best_match(kinds, present, side))
    return pieces


def find_problems(pieces: Iterable[Piece], names: Collection[str], side: str) -> list[str]:
    """Describe unknown and missing names. The list is empty if the names match the pieces."""
    options = _options(pieces, names, side)
    problems: list[str] = []
    known: set[str] = set()
    for piece in pieces:
        expected = [
            name
            for key in piece.keys
            for name in key.names(side)
            if key.option is None or piece.stage <= options.get(key.option, -1)
        ]
        known.update(expected)
        missing = [name for name in expected if name not in names]
        present = [name for name in expected if name in names]
        if missing:
            only = (
                f', only {shorten(present)} present'
                if present and len(missing) > len(present)
                else ''
            )
            problems.append(f'missing {shorten(missing)} ({piece.kind}{only})')
    unknown = [name for name in names if name not in known]
    return [f'unknown {shorten(unknown)}', *problems] if unknown else problems


def _length(present: Iterable[bool]) -> int:
    """Count indices up to the first two consecutive missing ones. A single gap is counted, to
    report its names.
    """
    number = 0
    for number, pair in enumerate(pairwise(present)):
        if not any(pair):
            return max(1, number)
    return number + 1


def _best_match(kinds: Iterable[Piece], present: set[str], side: str) -> Piece:
    """Return the kind with the fewest missing and unknown names, and of these the one with the most
    keys.
    """

    def distance(piece: Piece) -> tuple[int, int]:
        known = {name for key in piece.keys for name in key.names(side)}
        required = {name for key in piece.keys if key.option is None for name in key.names(side)}
        return len(required - present) + len(present - known), -len(required)

    return min(kinds, key=distance)


def _options(pieces: Iterable[Piece], names: Collection[str], side: str) -> Mapping[str, float]:
    """Map each option in use to the last stage that must have it."""
    options: dict[str, float] = {}
    for piece in pieces:
        for key in piece.keys:
            if key.option and any(name in names for name in key.names(side)):
                last = piece.stage if '{i}' in key.option else math.inf
                options[key.option] = max(last, options.get(key.option, last))
    return options
