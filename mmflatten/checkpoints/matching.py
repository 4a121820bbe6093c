"""Which part of a family a key belongs to, and whether every part is complete."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from mmflatten.checkpoints.rules import Family, Part, Template

OFFICIAL, OURS = 'official', 'ours'
Instance = tuple[int, tuple[int, ...]]  # position of the part in the family, indices


@dataclass
class Match:
    """Result of `match_keys`.

    Args:
        last: the largest stage (or block of a plain backbone).
        kinds: the kind of every part that is there. Meaningful without problems alone.
        problems: what is unknown or missing, each with the whole names of the keys.
    """

    last: int
    kinds: dict[Instance, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def match_keys(names: Iterable[str], family: Family, side: str) -> Match:
    """Find out what a state dict holds, from its names alone, without building the model.

    Indices must run from 0 without a gap, every part must be there with exactly the keys of one of its kinds, and an
    option's keys must all be there or none of them.
    """
    names = list(names)
    stages = _stages(names, family, side)
    match = Match(stages.stop - 1)
    beginnings = [part.beginning(side, match.last) for part in family.parts]
    found, unknown = _sort(names, beginnings, family)
    match.problems = [f'unknown {_shorten(unknown)}'] if unknown else []
    for number, part in enumerate(family.parts):
        here = {indices: ends for (position, indices), ends in found.items() if position == number}
        if part.ours is None and not here:
            continue
        expected = _expected(part, stages, here)
        for indices in sorted(here.keys() - set(expected)):
            names = [beginnings[number].name(indices, end) for end in sorted(here[indices])]
            match.problems.append(f'unknown {_shorten(names)} (an index behind a gap)')
        for indices in expected:
            _match_part(match, part, beginnings[number], (number, indices), here.get(indices, set()), side)
    match.problems = match.problems or _uneven_options(match, family, found, beginnings, side)
    return match


def _stages(names: list[str], family: Family, side: str) -> range:
    staged = [part.beginning(side, -1) for part in family.parts if 'i' in part.indices]
    matches = [template.match(name) for name in names for template in staged]
    return _run(match[0][0] for match in matches if match) or range(1)


def _run(indices: Iterable[int]) -> range:
    """0 to the largest index; one so large that more indices lack before it than there are is no part of the run."""
    seen = set(indices)
    return range(max((index for index in seen if index <= len(seen)), default=-1) + 1)


def _sort(names: list[str], beginnings: list[Template | None],
          family: Family) -> tuple[dict[Instance, set[str]], list[str]]:
    """Ends of the names by the part that they belong to, and the names that belong to none."""
    found, unknown = defaultdict(set), []
    for name in names:
        for number, (part, template) in enumerate(zip(family.parts, beginnings)):
            match = template.match(name) if template else None
            if match and not ('i' in part.indices and match[0][0] < part.first_stage):
                found[number, match[0]].add(match[1])
                break
        else:
            unknown.append(name)
    return found, unknown


def _expected(part: Part, stages: range, here: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Indices of the instances of a part that there must be; at least one block everywhere."""
    if not part.indices:
        return [()]
    if part.indices == ('i',):
        return [(i,) for i in stages[part.first_stage:]]
    return [(i, j) for i in stages for j in _run(j for stage, j in here if stage == i) or range(1)]


def _match_part(match: Match, part: Part, beginning: Template, instance: Instance, ends: set[str], side: str) -> None:
    ends = ends - set(part.dropped) if side == OFFICIAL else ends
    fits = {kind: _compare(part, kind, ends, side) for kind in part.kinds}
    fewest = min(len(missing) + len(unknown) for missing, unknown in fits.values())
    best = {kind: fit for kind, fit in fits.items() if sum(map(len, fit)) == fewest}
    match.kinds[instance] = next(iter(best))
    if fewest:
        match.problems.append(' or '.join(
            _describe(kind, *([beginning.name(instance[1], end) for end in group] for group in (*fit, sorted(ends))))
            for kind, fit in best.items()))


def _compare(part: Part, kind: str, ends: set[str], side: str) -> tuple[list[str], list[str]]:
    """Ends that a kind has and the part lacks, and the other way round."""
    needed = {}
    for key in part.kinds[kind]:
        names = key.names(side)
        required = key.option is None or any(name in ends for name in names)
        needed.update(dict.fromkeys(names, required))
    missing = [end for end, required in needed.items() if required and end not in ends]
    return missing, sorted(ends - set(needed))


def _describe(kind: str, missing: list[str], unknown: list[str], there: list[str]) -> str:
    texts = [f'{word} {_shorten(names)}' for word, names in (('missing', missing), ('unknown', unknown)) if names]
    only = f'; of it only {_shorten(there)} is there' if there and len(missing) > len(there) else ''
    return f'{" and ".join(texts)} (for a {kind}{only})'


def _shorten(names: list[str]) -> str:
    return ', '.join(names[:4]) + (f' and {len(names) - 4} more' if len(names) > 4 else '')


def _uneven_options(match: Match, family: Family, found: dict[Instance, set[str]], beginnings: list[Template | None],
                    side: str) -> list[str]:
    """Keys that are missing although others of the same option are there."""
    having, lacking = set(), defaultdict(list)
    for (number, indices), kind in match.kinds.items():
        for key in family.parts[number].kinds[kind]:
            option = key.option, indices[0] if key.option and '{i}' in key.option else 0
            if key.option and set(key.names(side)) <= found[number, indices]:
                having.add(option)
            elif key.option:
                lacking[option] += [beginnings[number].name(indices, end) for end in key.names(side)]
    return [f'missing {_shorten(names)}, although others of the option {option} are there'
            for (option, i), names in lacking.items() if any(other == option and j >= i for other, j in having)]
