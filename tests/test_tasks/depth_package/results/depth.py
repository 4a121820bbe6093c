"""Errors of depth."""

import numpy as np

from mmflatten.results.analysis import Analysis


def analyze(results, worst, score):
    errors = [
        float((entry['pred_depth']['data'] - entry['gt_depth']['data']).abs().mean())
        for entry in results.entries
    ]
    order = np.argsort(errors)[::-1][:worst]
    return Analysis(
        'depth',
        len(errors),
        dict(abs_error=float(np.mean(errors))),
        'mean absolute error',
        [(int(index), errors[index]) for index in order],
    )
