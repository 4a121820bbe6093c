"""Analysis of the predictions of any task."""
from __future__ import annotations

import torch

from mmflatten.results.analysis import Analysis
from mmflatten.results.reading import Results, ResultsError


def analyze(results: Results, worst: int = 12, score: float = 0.3) -> Analysis:
    """Analyze the predictions of a test.

    Args:
        worst: maximum number of worst images.
        score: minimum score of detections in confusions and worst images.

    Raises:
        ResultsError: the annotations are missing or do not fit, or scores are not finite.
    """
    for entry in results.entries:
        scores = entry.get('pred_score', entry.get('pred_instances', {}).get('scores', 0))
        if not torch.as_tensor(scores).isfinite().all():
            raise ResultsError(f'scores: expected finite numbers, got NaN or infinity for {entry.get("img_path")} in '
                               f'{results.path}. The model has diverged, or its number format overflows.')
    return results.task.part('results').analyze(results, worst, score)
