"""Which part of a family a key belongs to, and whether every part is complete."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mmflatten.checkpoints.rules import OFFICIAL, Family, Key, Part, Template, shorten

Indices = tuple[int, ...]
Found = Mapping[Part, Mapping[Indices, set[str]]]  # ends of the names, by part and instance


@dataclass
class Match:
    """Result of `match_keys`.

    Args:
        last: the largest stage (or block of a plain backbone).
        kinds: the kind of every instance of a part that is there. Means something only without problems.
        problems: what is unknown or missing, each with the full names of the keys.
    """

    last: int
    kinds: dict[tuple[Part, Indices], str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def match_keys(names: Iterable[str], family: Family, side: str) -> Match:
    """Find out what a state dict holds, from its names alone, without building the model.

    Indices must run from 0 without a gap, every part must be there with exactly the keys of one of its kinds, and an
    option's keys must all be there or none of them.
    """
    names = list(names)
    stages = _stages(names, family, side)
    match = Match(stages.stop - 1)
    templates = {part: part.beginning(side, match.last) for part in family.parts_of(side)}
    found, unknown = _sort(names, templates)
    match.problems = [f'unknown {shorten(unknown)}'] if unknown else []
    for part, template in templates.items():
        here = found[part]
        if part.ours is None and not here:
            continue
        expected = _expected(part, stages, here)
        for indices in sorted(here.keys() - set(expected)):
            behind = shorten(template.names(indices, here[indices]))
            match.problems.append(f'unknown {behind} (an index behind a gap)')
        for indices in expected:
            _match_instance(match, part, template, indices, here.get(indices, set()), side)
    match.problems = match.problems or _uneven_options(match, found, templates, side)
    return match


def _stages(names: list[str], family: Family, side: str) -> range:
    staged = [part.beginning(side, -1) for part in family.parts_of(side) if 'i' in part.indices]
    matches = [template.match(name) for name in names for template in staged]
    return _run(match[0][0] for match in matches if match) or range(1)


def _run(indices: Iterable[int]) -> range:
    """0 to the largest index, leaving out one so large that more indices are missing before it than are there."""
    seen = set(indices)
    return range(max((index for index in seen if index <= len(seen)), default=-1) + 1)


def _sort(names: list[str], templates: Mapping[Part, Template]) -> tuple[Found, list[str]]:
    """Ends of the names by the part that they belong to, and the names that belong to none."""
    found: dict[Part, dict[Indices, set[str]]] = {part: {} for part in templates}
    unknown = []
    for name in names:
        for part, template in templates.items():
            match = template.match(name)
            if match and ('i' not in part.indices or match[0][0] >= part.first_stage):
                found[part].setdefault(match[0], set()).add(match[1])
                break
        else:
            unknown.append(name)
    return found, unknown


def _expected(part: Part, stages: range, here: Iterable[Indices]) -> list[Indices]:
    """Indices of the instances of a part that there must be; at least one block everywhere."""
    if not part.indices:
        return [()]
    if part.indices == ('i',):
        return [(i,) for i in stages[part.first_stage:]]
    return [(i, j) for i in stages for j in _run(j for stage, j in here if stage == i) or range(1)]


def _match_instance(match: Match, part: Part, template: Template, indices: Indices, ends: set[str], side: str) -> None:
    ends = ends - set(part.dropped) if side == OFFICIAL else ends
    fits = {kind: _compare(keys, ends, side) for kind, keys in part.kinds.items()}
    fewest = min(len(missing) + len(unknown) for missing, unknown in fits.values())
    best = {kind: fit for kind, fit in fits.items() if sum(map(len, fit)) == fewest}
    match.kinds[part, indices] = next(iter(best))
    if fewest:
        there, texts = template.names(indices, ends), []
        for kind, (missing, unknown) in best.items():
            texts.append(_describe(kind, template.names(indices, missing), template.names(indices, unknown), there))
        match.problems.append(' or '.join(texts))


def _compare(keys: Iterable[Key], ends: set[str], side: str) -> tuple[list[str], set[str]]:
    """Ends that a kind has and the instance lacks, and the other way round."""
    missing, unknown = [], set(ends)
    for key in keys:
        names = key.names(side)
        if key.option is None or ends.intersection(names):
            missing += [name for name in names if name not in ends]
        unknown.difference_update(names)
    return missing, unknown


def _describe(kind: str, missing: list[str], unknown: list[str], there: list[str]) -> str:
    texts = [f'{word} {shorten(names)}' for word, names in (('missing', missing), ('unknown', unknown)) if names]
    only = f'; of it only {shorten(there)} is there' if there and len(missing) > len(there) else ''
    return f'{" and ".join(texts)} (for a {kind}{only})'


def _uneven_options(match: Match, found: Found, templates: Mapping[Part, Template], side: str) -> list[str]:
    """Keys that are missing although others of the same option are there."""
    having: set[tuple[str, int]] = set()
    lacking: dict[tuple[str, int], list[str]] = defaultdict(list)
    for (part, indices), kind in match.kinds.items():
        for key in part.kinds[kind]:
            if key.option is None:
                continue
            option = key.option, indices[0] if '{i}' in key.option else 0
            if found[part].get(indices, set()).issuperset(key.names(side)):
                having.add(option)
            else:
                lacking[option] += templates[part].names(indices, key.names(side))
    return [f'missing {shorten(names)}, although others of the option {option} are there'
            for (option, i), names in lacking.items() if any(other == option and j >= i for other, j in having)]
