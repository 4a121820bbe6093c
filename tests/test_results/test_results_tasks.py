"""Analyses of small predictions, compared with known values or with the metrics of the
libraries.
"""

import re
from pathlib import Path

import pytest
import torch
from mmseg.evaluation import IoUMetric

from mmflatten.results import drawing
from mmflatten.results.analysis import Analysis, ResultTable, analyze
from mmflatten.results.reading import Results, ResultsError
from mmflatten.results.writing import write_analysis
from mmflatten.tasks import tasks


def results_of(task: str, entries: list[dict], **origin: object) -> Results:
    return Results(Path('made-up.pkl'), entries, tasks()[task], origin)


def rows(analysis: Analysis, table: str) -> dict[object, tuple]:
    return {row[0]: row[1:] for row in analysis.tables[table].rows}


def classified(scores: list[float], label: int) -> dict:
    return dict(
        pred_score=torch.tensor(scores), gt_label=torch.tensor([label]), img_path=f'{label}.png'
    )


def test_classification_accuracies_confusions_and_worst():
    entries = [
        classified([0.9, 0.1, 0], 0),
        classified([0.6, 0.4, 0], 1),
        classified([0.2, 0.7, 0.1], 1),
        classified([0.8, 0.1, 0.1], 1),
    ]
    found = analyze(results_of('classification', entries, classes=['a', 'b', 'c']))
    assert found.summary['top-1 accuracy'] == 0.5 and 'top-5 accuracy' not in found.summary
    assert [index for index, _ in found.worst] == [3, 1] and found.worst[0][1] == pytest.approx(0.8)
    assert rows(found, 'classes')['b'][:3] == (3, 1 / 3, 1) and rows(found, 'classes')['c'][0] == 0
    assert found.tables['confusions'].rows == [('b', 'a', 2, 2 / 3)]
    with pytest.raises(ValueError, match='gt_label.*2 labels'):
        analyze(results_of('classification', [dict(entries[0], gt_label=torch.tensor([0, 1]))]))


@pytest.mark.parametrize(
    'entry, words',
    [
        (classified([0.5, 0.5], 0), 'pred_score.* 3 scores.* 2 for 0.png'),
        (classified([0.5, 0.5, 0], 12), 'gt_label.* 12 for 12.png'),
        (classified([0.5, 0.5, 0], -1), 'gt_label.* -1 '),
        (classified([0.5, float('nan'), 0], 1), 'scores.*finite.* 1.png'),
    ],
)
def test_invalid_scores_and_labels_are_named(entry, words):
    with pytest.raises(ResultsError, match=rf'(?=.*made-up\.pkl).*{words}'):
        analyze(results_of('classification', [classified([0.9, 0.1, 0], 0), entry]))


def test_segmentation_equals_the_metrics_of_mmseg():
    generator = torch.Generator().manual_seed(0)
    true = torch.randint(0, 4, (3, 1, 9, 7), generator=generator)
    predicted = torch.where(torch.rand(true.shape, generator=generator) < 0.6, true, 3)
    predicted[2] = (true[2] + 1) % 4  # all wrong
    true[:, :, 0] = 255
    entries = [
        dict(
            gt_sem_seg=dict(data=one),
            pred_sem_seg=dict(data=other.to(torch.uint8)),
            img_path='a.png',
        )
        for one, other in zip(true, predicted)
    ]
    metric = IoUMetric()
    metric.dataset_meta = dict(classes=tuple('abcd'))
    metric.process(
        {},
        [
            dict(
                gt_sem_seg=dict(data=entry['gt_sem_seg']['data']),
                pred_sem_seg=dict(data=entry['pred_sem_seg']['data'].long()),
            )
            for entry in entries
        ],
    )
    known = metric.compute_metrics(metric.results)
    found = analyze(results_of('segmentation', entries, classes=list('abcd')), worst=2)
    assert {name: round(100 * value, 2) for name, value in found.summary.items()} == pytest.approx(
        {name: known[name] for name in found.summary}, abs=0.011
    )
    assert [index for index, _ in found.worst][0] == 2 and len(found.worst) == 2
    assert sum(row[0] for row in rows(found, 'classes').values()) == 3 * 8 * 7
    with pytest.raises(ResultsError, match='labels.* 2,.* 3 '):
        analyze(results_of('segmentation', entries, classes=list('ab')))


def test_stereo_errors_by_distance():
    true = torch.tensor([[[2.0, 6.0, 20.0, 60.0]]])
    entry = dict(
        gt_disparity=dict(data=true, valid=torch.tensor([[[True, True, True, True]]])),
        pred_disparity=dict(data=true + torch.tensor([[[0.0, 4.0, -10.0, 30.0]]])),
        img_path='a.png',
    )
    perfect = dict(entry, pred_disparity=dict(data=true))
    found = analyze(results_of('stereo', [perfect, entry], evaluator=[dict(max_disp=50)]))
    assert found.summary['epe'] == pytest.approx(14 / 6)
    assert found.worst == [
        (1, pytest.approx(14 / 3)),
        (0, 0),
    ]
    assert rows(found, 'distances') == {
        '0 to 4': (2, 0, 0, 0, 0),
        '4 to 8': (2, 2, 50, 50, 50),
        '16 to 32': (2, 5, 50, 50, 50),
    }
    with pytest.raises(ResultsError, match='max_disp'):
        analyze(results_of('stereo', [entry], evaluator=[dict(max_disp=1)]))


def test_undefined_numbers_are_empty_in_every_file(tmp_path):
    found = Analysis(
        'detection',
        1,
        dict(mAP=float('nan')),
        'errors',
        [],
        dict(classes=ResultTable('classes', ('class', 'AP'), [('a', float('nan')), ('b', 0.5)])),
    )
    content = write_analysis(found, tmp_path, dict(results='x.pkl'), []).read_text()
    assert 'NaN' not in content
    assert (tmp_path / 'classes.csv').read_text().split() == [
        'class,AP',
        'a,',
        'b,0.5',
    ]
    assert [line.split() for line in found.text().splitlines()[-2:]] == [['a', '-'], ['b', '0.500']]


def test_only_the_renderer_imports_matplotlib():
    imported = re.compile(r'^\s*(import|from) matplotlib', re.MULTILINE)
    files = Path(drawing.__file__).parent.glob('*.py')
    assert [file.stem for file in files if imported.search(file.read_text())] == ['drawing']
