"""What papers claim, judged by the results of a study."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mmflatten.studies.folder import FINISHED, Result
from mmflatten.studies.grid import matches
from mmflatten.studies.statistics import BETTER, NOISE, UNTESTED, WORSE, Comparison, compare, holm
from mmflatten.studies.study import Claim, Study, StudyError
from mmflatten.studies.tuning import signed

REPRODUCED, NOT_REPRODUCED = 'reproduced', 'not reproduced'
Values = dict[str, dict[int, float]]  # level -> seed -> metric, larger where better


@dataclass(frozen=True)
class Verdict:
    """A claim with the comparison of each two neighbours in its order."""

    claim: Claim
    pairs: tuple[Comparison, ...]

    @property
    def text(self) -> str:
        """Reproduced where every step is, not reproduced where one goes the other way, else inside the noise.

        Where a step has not been tested, the claim has not either, unless another goes the other way.
        """
        found = {pair.verdict for pair in self.pairs}
        if WORSE in found:
            return NOT_REPRODUCED
        return UNTESTED if UNTESTED in found else REPRODUCED if found == {BETTER} else NOISE


def judge(study: Study, results: Iterable[Result], mode: str) -> list[Verdict]:
    """Judge the claims of a study by the runs of one mode; Holm's correction is over the pairs of all its claims.

    Raises:
        StudyError: a claim is about runs with different metrics, whose differences cannot be averaged.
    """
    done = [result for result in results if result.state == FINISHED and result.mode == mode]
    pairs = []
    for claim in study.claims:
        meant = [result for result in done
                 if matches(result.levels, claim.where) and result.levels[claim.factor] in claim.order]
        metrics = sorted({result.metric for result in meant})
        if len(metrics) > 1:
            raise StudyError(f'claims: {claim.text} is about runs with the metrics {", ".join(metrics)}; narrow it to '
                             'one of them with where')
        values = seed_means(study, meant, claim.factor)
        pairs.append([compare(first, second, values) for first, second in pairwise(claim.order)])
    corrected = iter(holm([pair for group in pairs for pair in group]))
    return [Verdict(claim, tuple(next(corrected) for _ in group)) for claim, group in zip(study.claims, pairs)]


def seed_means(study: Study, results: Sequence[Result], factor: str) -> Values:
    """For each level and seed, the mean over the combinations of the other factors that every level has.

    Where there are several such combinations, a seed counts once: its runs are not independent. Where a level lacks a
    seed in one of them, that seed of it is left out.
    """
    blocks: dict[tuple, dict[tuple[str, int], float]] = defaultdict(dict)
    for result in results:
        block = tuple(level for name, level in result.levels.items() if name != factor)
        blocks[(result.metric, *block)][result.levels[factor], result.seed] = signed(study, result)
    levels = {result.levels[factor] for result in results}
    common = [block for block in blocks.values() if {level for level, _ in block} == levels]
    values: Values = defaultdict(dict)
    for level, seed in set().union(*common):
        if all((level, seed) in block for block in common):
            values[level][seed] = sum(block[level, seed] for block in common) / len(common)
    return values
