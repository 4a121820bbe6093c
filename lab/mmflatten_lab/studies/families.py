"""Kinds of processor that runs ran on. The same seed ends elsewhere on another kind, so runs are
compared within one kind alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from mmflatten_lab.studies.runs import StudyRun

WORDS = 2  # of a processor's name: vendor and line, such as AMD EPYC or Intel Xeon
TRADE_MARKS = re.compile(r'\((R|TM)\)', re.IGNORECASE)
UNKNOWN = 'unknown processor'


def processor_family(machine: Mapping[str, Any]) -> str:
    """Vendor and line of what a run computed on: its GPU, or its processor.

    `Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz` is of the family `Intel Xeon`.
    """
    gpu = machine.get('gpu')
    if gpu and gpu not in ('not used', 'none'):
        return str(gpu)
    name = TRADE_MARKS.sub(' ', str(machine.get('processor') or ''))
    return ' '.join(name.split()[:WORDS]) or UNKNOWN


def comparable_runs(
    runs: Sequence[StudyRun], factor: str, reference: str
) -> tuple[list[StudyRun], list[str]]:
    """Leave out the runs of families on which the reference did not run.

    Args:
        factor: whose levels are compared.
        reference: level with which the others are compared.

    Returns:
        The runs that can be compared, and a sentence for each family that was left out, or for
        several that were kept.
    """
    families = sorted(_families_of(runs))
    if len(families) < 2:
        return list(runs), []
    known = _families_of(run for run in runs if run.levels.get(factor) == reference)
    kept = [run for run in runs if processor_family(run.machine) in known]
    notes = []
    if len(known) > 1:
        notes.append(
            f'Ran on {", ".join(sorted(known))}: each seed of each of them is a block, so that'
            f' every level is compared with {reference} of the same processor.'
        )
    for family in families:
        if family not in known:
            levels = sorted({run.levels[factor] for run in runs if _is_of(run, family)})
            notes.append(left_out_sentence(levels, family, reference))
    return kept, notes


def left_out_sentence(levels: Iterable[str], family: str, reference: str) -> str:
    """State that levels are not compared, because the reference did not run on their family."""
    return f'Not compared: {", ".join(levels)} on {family}, where {reference} has no run.'


def shared_families(
    runs: Sequence[StudyRun], factor: str, levels: Collection[str]
) -> list[StudyRun]:
    """Leave out the runs of families on which one of the levels did not run."""
    families = _families_of(runs)
    if len(families) < 2:
        return list(runs)
    for level in levels:
        families &= _families_of(run for run in runs if run.levels[factor] == level)
    return [run for run in runs if processor_family(run.machine) in families]


def _families_of(runs: Iterable[StudyRun]) -> set[str]:
    return {processor_family(run.machine) for run in runs}


def _is_of(run: StudyRun, family: str) -> bool:
    return processor_family(run.machine) == family
