"""Analyses of small sets of detections: COCO's metrics as in mmdet, and the worst images."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from mmdet.evaluation import CocoMetric
from pycocotools import mask as coco_mask

from mmflatten.results.analysis import Analysis, analyze
from mmflatten.results.checking import check_entries
from mmflatten.results.coco import read_instances
from mmflatten.results.reading import Results, ResultsError
from mmflatten.tasks import tasks

CLASSES = tuple('0123456789')


@pytest.fixture(scope='module')
def found_in_scenes(scenes) -> list[dict]:
    """Entries for the scenes: most instances found, moved by some pixels, some of another class,
    some invented.
    """
    content = json.loads((scenes / 'annotations' / 'instances_val.json').read_text())
    rng, entries = np.random.default_rng(0), []
    for image in content['images']:
        truth = [item for item in content['annotations'] if item['image_id'] == image['id']]
        boxes = np.array([item['bbox'] for item in truth], dtype=np.float32)
        boxes[:, 2:] += boxes[:, :2]
        nowhere = np.eye(image['height'], image['width'], dtype=np.uint8)
        labels = np.array([item['category_id'] - 1 for item in truth])
        masks = [item['segmentation'] for item in truth]
        guessed = np.where(rng.random(len(labels)) < 0.3, (labels + 1) % 10, labels)
        moved = np.concatenate([boxes + rng.integers(-4, 5, boxes.shape), [[0, 0, 30, 30]]]).astype(
            np.float32
        )
        entries.append(
            dict(
                img_id=image['id'],
                img_path=image['file_name'],
                ori_shape=(image['height'], image['width']),
                gt_instances=dict(
                    bboxes=torch.from_numpy(boxes), labels=torch.from_numpy(labels), masks=masks
                ),
                pred_instances=dict(
                    bboxes=torch.from_numpy(moved),
                    labels=torch.from_numpy(np.append(guessed, 0)),
                    scores=torch.from_numpy(rng.random(len(labels) + 1)),
                    masks=[*masks, coco_mask.encode(np.asfortranarray(nowhere))],
                ),
            )
        )
    return entries


def results_of(entries: list[dict], ann_file: Path | None = None) -> Results:
    evaluator = [] if ann_file is None else [dict(ann_file=str(ann_file))]
    return Results(
        Path('made-up.pkl'),
        entries,
        tasks()['detection'],
        dict(classes=list(CLASSES), evaluator=evaluator),
    )


def per_class(found: Analysis, kind: str) -> dict[str, float]:
    return {row[0]: row[2] for row in found.tables[f'{kind}_classes'].rows}


def test_ap_is_that_of_mmdets_metric(scenes, found_in_scenes):
    ann_file = scenes / 'annotations' / 'instances_val.json'
    metric = CocoMetric(str(ann_file), metric=['bbox', 'segm'], classwise=True)
    metric.dataset_meta = dict(classes=CLASSES)
    metric.process({}, found_in_scenes)
    known = metric.compute_metrics(metric.results)
    by_file = analyze(results_of(found_in_scenes, ann_file))
    assert 0 < known['bbox_mAP'] < known['segm_mAP'] < 1
    for kind in ('bbox', 'segm'):
        for name in ('mAP', 'mAP_50', 'mAP_75', 'mAP_s', 'mAP_m'):
            assert by_file.summary[f'{kind}_{name}'] == pytest.approx(
                known[f'{kind}_{name}'], abs=6e-4
            )
    # the metric keeps those of the last kind
    for name, value in per_class(by_file, 'segm').items():
        assert value == pytest.approx(known[f'{name}_precision'], abs=6e-4, nan_ok=True)
    by_truth = analyze(results_of(found_in_scenes))
    assert by_truth.summary == pytest.approx(by_file.summary, nan_ok=True)
    assert per_class(by_truth, 'bbox') == pytest.approx(per_class(by_file, 'bbox'), nan_ok=True)


@pytest.mark.parametrize('new', [lambda number: f'img_{number}', float, lambda number: f'{number}'])
def test_ids_of_images_may_be_text_or_fractional_numbers(new, scenes, found_in_scenes, tmp_path):
    content = json.loads((scenes / 'annotations' / 'instances_val.json').read_text())
    for entry in content['images']:
        entry['id'] = new(entry['id'])
    for entry in content['annotations']:
        entry['image_id'] = new(entry['image_id'])
    (tmp_path / 'ann.json').write_text(json.dumps(content))
    entries = [dict(entry, img_id=new(entry['img_id'])) for entry in found_in_scenes]
    check_entries(entries, tmp_path)
    found = analyze(results_of(entries, tmp_path / 'ann.json'))
    expected = analyze(results_of(found_in_scenes, scenes / 'annotations' / 'instances_val.json'))
    assert found.summary == pytest.approx(expected.summary, nan_ok=True)
    assert [errors for _, errors in found.worst] == [errors for _, errors in expected.worst]


def instances(
    boxes: list[list[float]], labels: list[int], scores: list[float] | None = None
) -> dict:
    made = dict(bboxes=torch.tensor(boxes).reshape(-1, 4), labels=torch.tensor(labels))
    return made if scores is None else dict(made, scores=torch.tensor(scores))


ONE = dict(
    img_path='a.png',
    ori_shape=(100, 100),
    gt_instances=instances([[0, 0, 10, 10], [20, 20, 40, 40], [60, 60, 80, 80]], [0, 1, 1]),
    ignored_instances=instances([[0, 50, 50, 100]], [0]),
    # right, named wrongly, invented, in a crowd, and too low a score for the third.
    pred_instances=instances(
        [[0, 0, 10, 11], [20, 20, 40, 40], [80, 0, 99, 20], [10, 60, 20, 70], [60, 60, 80, 80]],
        [0, 0, 1, 0, 1],
        [0.9, 0.8, 0.7, 0.6, 0.1],
    ),
)


def test_errors_of_an_image_are_its_missed_and_false_instances():
    results = results_of([ONE, dict(ONE, img_id=7, pred_instances=instances([], [], []))])
    # named wrongly (twice), invented, missed
    assert analyze(results, score=0.3).worst == [(0, 4), (1, 3)]
    assert analyze(results, score=0.05).worst == [(0, 3), (1, 3)]
    assert analyze(results, worst=1, score=0.95).worst == [(0, 3)]


def test_images_without_a_prediction_and_repeated_ones_are_noted(scenes, found_in_scenes):
    ann_file = scenes / 'annotations' / 'instances_val.json'
    whole, part = (
        read_instances(results_of(entries, ann_file))
        for entries in (found_in_scenes, found_in_scenes[:3])
    )
    assert whole.notes() == [] and '1 of 4 annotated images' in part.notes()[0]
    found = analyze(results_of([*found_in_scenes, found_in_scenes[0]], ann_file))
    assert '1 of 5 predictions repeat an img_id' in found.notes[0]
    broken = dict(
        ONE, pred_instances=dict(ONE['pred_instances'], scores=torch.full((5,), float('inf')))
    )
    with pytest.raises(ResultsError, match=r'scores.*finite.*a\.png.*made-up\.pkl'):
        analyze(results_of([broken]))


def test_no_detections_have_zero_ap():
    found = analyze(results_of([dict(ONE, pred_instances=instances([], [], []))]))
    assert found.summary['bbox_mAP'] == 0 and found.worst == [(0, 3)]


def test_missing_or_wrong_annotations_are_named(scenes, found_in_scenes):
    ann_file = scenes / 'annotations' / 'instances_val.json'
    with pytest.raises(FileNotFoundError, match=r'nowhere\.json'):
        analyze(results_of(found_in_scenes, Path('nowhere.json')))
    with pytest.raises(ResultsError, match='no image 77'):
        analyze(results_of([dict(found_in_scenes[0], img_id=77)], ann_file))
    with pytest.raises(ResultsError, match='gt_instances'):
        analyze(results_of([{key: value for key, value in ONE.items() if key != 'gt_instances'}]))
    other = Results(
        Path('made-up.pkl'),
        found_in_scenes,
        tasks()['detection'],
        dict(classes=['cat', 'dog'], evaluator=[dict(ann_file=str(ann_file))]),
    )
    with pytest.raises(ResultsError, match='ann_file.* got 0 '):
        analyze(other)
