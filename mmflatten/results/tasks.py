"""The analysis of each task."""
from __future__ import annotations

import torch

from mmflatten.results.analysis import Analysis
from mmflatten.results.reading import Results, ResultsError


def analyze(results: Results, worst: int = 12, score: float = 0.3) -> Analysis:
    """Analyze the predictions of a test.

    Args:
        worst: how many images are listed as the worst at most.
        score: of detections; confusions and worst images leave out those below it.

    Raises:
        ResultsError: the truth is missing or does not fit, or scores are no numbers.
    """
    _require_finite_scores(results)
    return results.task.part('results').analyze(results, worst, score)


def _require_finite_scores(results: Results) -> None:
    """A score that is no number would be counted as some class, or as none, without a word."""
    for entry in results.entries:
        scores = entry.get('pred_score', entry.get('pred_instances', {}).get('scores', 0))
        if not torch.as_tensor(scores).isfinite().all():
            raise ResultsError(f'scores of {entry.get("img_path")} in {results.path} are not finite; the model has '
                               'diverged, or computes beyond the range of its number format')
