"""Analysis of panoptic models: quality of things and stuff and of each class, and the worst
images.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mmflatten.evaluation.panoptic import PanopticTruth, mean_quality, panoptic_quality
from mmflatten.results.analysis import Analysis, ResultTable, known_mean
from mmflatten.results.reading import Results, ResultsError
from mmflatten.structures.segments import SegmentError


def analyze(results: Results, worst: int, score: float) -> Analysis:
    """Analyze segments with COCO's rules, like `mmflatten.PanopticMetric`.

    Raises:
        FileNotFoundError: the annotation file or a PNG file does not exist.
        ResultsError: the files of the truth are unknown, or do not fit the predictions.
    """
    names = list(results.origin.get('classes') or ())
    files = [results.setting(name) for name in ('ann_file', 'seg_prefix')]
    if not names or None in files:
        raise ResultsError(
            f'classes, ann_file, seg_prefix: unknown for {results.path}. Pass the config of the'
            ' tested model with --config.'
        )
    results.names(len(names))
    truth = PanopticTruth(*[_existing(results, file) for file in files])
    counts = []
    for entry in results.entries:
        panoptic = np.asarray(entry['pred_panoptic_seg']['sem_seg'])[0].astype(np.int64)
        try:
            counts.append(truth.counts(entry.get('img_id'), panoptic, names))
        except SegmentError as error:
            raise ResultsError(str(error)) from error
    total = np.sum(counts, axis=0)
    is_thing = truth.is_thing(names)
    image_qualities = [known_mean(panoptic_quality(of_image)[:, 0]) for of_image in counts]
    order = np.argsort(np.nan_to_num(image_qualities, nan=2), kind='stable')[:worst]
    return Analysis(
        task='panoptic',
        images=len(counts),
        summary=mean_quality(total, is_thing),
        worst_by='mean PQ of the classes in the image',
        worst=[(int(index), float(image_qualities[index])) for index in order],
        tables=dict(classes=_class_table(total, is_thing, names)),
        notes=_notes(truth, results),
    )


def _existing(results: Results, file: str) -> str:
    """Return the path of the annotations of the test, which may be relative to its folder."""
    if '://' in file:
        return file
    for path in (Path(file), Path(results.origin.get('folder') or '', file)):
        if path.exists():
            return str(path)
    raise FileNotFoundError(
        f'ann_file, seg_prefix: {file} of {results.path} does not exist. Run the command in the'
        ' folder of the test, or pass a config with both in test_evaluator with --config.'
    )


def _class_table(counts: np.ndarray, is_thing: np.ndarray, names: Sequence[str]) -> ResultTable:
    rows = []
    for name, thing, quality, numbers in zip(names, is_thing, panoptic_quality(counts), counts):
        matched, wrong, missed = numbers[1:].astype(int).tolist()
        row = (name, 'thing' if thing else 'stuff', *quality.tolist(), matched, wrong, missed)
        rows.append(row)
    rows.sort(key=lambda row: np.nan_to_num(row[2], nan=2))  # without segments last
    return ResultTable(
        title='classes, the lowest PQ first',
        header=('class', 'kind', 'PQ', 'SQ', 'RQ', 'matched', 'wrong', 'missed'),
        rows=rows,
    )


def _notes(truth: PanopticTruth, results: Results) -> list[str]:
    """Report images without predictions and repeated images."""
    tested = [entry.get('img_id') for entry in results.entries]
    notes = []
    untested = len(truth.annotations) - len(set(tested))
    if untested > 0:
        notes.append(
            f'{untested} of {len(truth.annotations)} annotated images have no prediction: they do'
            ' not count'
        )
    repeated = len(tested) - len(set(tested))
    if repeated:
        notes.append(f'{repeated} of {len(tested)} predictions repeat an img_id: all of them count')
    return notes
