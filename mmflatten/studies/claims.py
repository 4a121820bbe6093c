"""Claims of papers, judged by the results of a study."""
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


@dataclass(frozen=True)
class Verdict:
    """A claim with a comparison of each two neighbours in its order."""

    claim: Claim
    pairs: tuple[Comparison, ...]

    @property
    def text(self) -> str:
        """Verdict on the whole order: one contradicted step refutes it, all steps must be significant to confirm it."""
        verdicts = {pair.verdict for pair in self.pairs}
        if WORSE in verdicts:
            return 'not reproduced'
        if UNTESTED in verdicts:
            return UNTESTED
        return 'reproduced' if verdicts == {BETTER} else NOISE


def judge(study: Study, results: Iterable[Result], mode: str) -> list[Verdict]:
    """Judge the claims of a study by the runs of one mode, with Holm's correction over the pairs of all claims.

    Raises:
        StudyError: a claim includes runs with different metrics.
    """
    finished = [result for result in results if result.state == FINISHED and result.mode == mode]
    pairs = []
    for claim in study.claims:
        chosen = [result for result in finished
                  if matches(result.levels, claim.where) and result.levels[claim.factor] in claim.order]
        metrics = sorted({result.metric for result in chosen})
        if len(metrics) > 1:
            raise StudyError(f'claims: expected runs with one metric for {claim.text}, got {", ".join(metrics)}. '
                             'Narrow it with `where`.')
        values = seed_means(study, chosen, claim.factor)
        pairs.append([compare(first, second, values) for first, second in pairwise(claim.order)])
    corrected = iter(holm([pair for group in pairs for pair in group]))
    return [Verdict(claim, tuple(next(corrected) for _ in group)) for claim, group in zip(study.claims, pairs)]


def seed_means(study: Study, results: Sequence[Result], factor: str) -> dict[str, dict[int, float]]:
    """Average each level and seed over the combinations of the other factors that have all levels.

    A seed counts once, because its runs are not independent. A seed that a level lacks in one of these combinations is
    left out of this level.

    Returns:
        Level -> seed -> metric, negated if lower is better.
    """
    blocks: dict[tuple, dict[tuple[str, int], float]] = defaultdict(dict)
    for result in results:
        block = tuple(level for name, level in result.levels.items() if name != factor)
        blocks[(result.metric, *block)][result.levels[factor], result.seed] = signed(study, result)
    levels = {result.levels[factor] for result in results}
    common = [block for block in blocks.values() if {level for level, _ in block} == levels]
    values: dict[str, dict[int, float]] = defaultdict(dict)
    for level, seed in set().union(*common):
        if all((level, seed) in block for block in common):
            values[level][seed] = sum(block[level, seed] for block in common) / len(common)
    return values
