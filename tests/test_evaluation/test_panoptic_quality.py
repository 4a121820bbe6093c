"""Panoptic quality: hand-made cases of crowd and void, and an explicit reference of the rules."""

from itertools import product

import numpy as np
import pytest

from mmflatten.evaluation.panoptic import (
    Segment,
    count_matches,
    mean_quality,
    panoptic_quality,
)

NUM_CLASSES = 3


def reference(true: list[Segment], predicted: list[Segment]) -> np.ndarray:
    """Rules of https://cocodataset.org/#panoptic-eval, pixel by pixel."""
    counts = np.zeros((NUM_CLASSES, 4))
    shape = (true + predicted)[0].mask.shape
    void = np.ones(shape, dtype=bool)
    for segment in true:
        void &= ~segment.mask
    matched = set()
    for (i, one), (j, other) in product(enumerate(true), enumerate(predicted)):
        union = one.mask | (other.mask & ~void)
        iou = (one.mask & other.mask).sum() / union.sum()
        if iou > 0.5 and one.label == other.label and not one.crowd:
            counts[one.label] += [iou, 1, 0, 0]
            matched |= {('true', i), ('predicted', j)}
    for i, one in enumerate(true):
        if ('true', i) not in matched and not one.crowd:
            counts[one.label, 3] += 1
    for j, other in enumerate(predicted):
        if ('predicted', j) in matched:
            continue
        crowds = [one.mask for one in true if one.crowd and one.label == other.label]
        ignored = void | crowds[-1] if crowds else void
        if (other.mask & ignored).sum() <= 0.5 * other.mask.sum():
            counts[other.label, 2] += 1
    return counts


def row(text: str, *segments: tuple[str, int] | tuple[str, int, bool]) -> list[Segment]:
    """Segments of an image of one row, one letter for each."""
    pixels = np.array([list(text)])
    return [Segment(label, pixels == letter, *crowd) for letter, label, *crowd in segments]


CASES = {
    'match': (row('aaaab.....', ('a', 0)), row('aaabb.....', ('a', 0)), [0.75, 1, 0, 0]),
    'half is no match': (row('aabb......', ('a', 0)), row('a.........', ('a', 0)), [0, 0, 1, 1]),
    'other class': (row('aaaa', ('a', 0)), row('aaaa', ('a', 1)), [0, 0, 0, 1]),
    'void leaves the union': (
        row('aaaa..bbbb', ('a', 0), ('b', 1)),
        row('aaaaaabbbb', ('a', 0), ('b', 1)),
        [1, 1, 0, 0],
    ),
    'mostly in void': (row('aaa....', ('a', 1)), row('..aaaaa', ('a', 0)), [0, 0, 0, 0]),
    'half in void': (row('bbbb..', ('b', 1)), row('...aa.', ('a', 0)), [0, 0, 1, 0]),
    'crowd is not missed': (row('aaaa', ('a', 0, True)), row('bbbb', ('b', 1)), [0, 0, 0, 0]),
    'crowd does not match': (row('aaaa', ('a', 0, True)), row('aaaa', ('a', 0)), [0, 0, 0, 0]),
    'crowd of another class': (row('aaaa', ('a', 1, True)), row('aaaa', ('a', 0)), [0, 0, 1, 0]),
}


@pytest.mark.parametrize('name', CASES)
def test_counts_follow_the_rules_of_coco(name):
    true, predicted, expected = CASES[name]
    np.testing.assert_allclose(count_matches(true, predicted, NUM_CLASSES)[0], expected)
    np.testing.assert_allclose(reference(true, predicted)[0], expected)


def test_counts_equal_the_reference_on_random_segments():
    rng = np.random.default_rng(0)
    several_crowds = 0
    for _ in range(300):
        labels = rng.integers(0, NUM_CLASSES, size=6)
        crowd = rng.random(6) < 0.4
        true_map = np.kron(rng.integers(0, 7, (2, 3)), np.ones((3, 2), dtype=int))
        noise = rng.integers(0, 7, true_map.shape)
        predicted_map = np.where(rng.random(true_map.shape) < 0.3, noise, true_map)
        true, predicted = [], []
        for number in range(1, 7):
            label = int(labels[number - 1])
            if (true_map == number).any():
                true.append(Segment(label, true_map == number, bool(crowd[number - 1])))
            if (predicted_map == number).any():
                predicted.append(Segment(label, predicted_map == number))
        crowds = [segment.label for segment in true if segment.crowd]
        several_crowds += len(crowds) > len(set(crowds))
        np.testing.assert_allclose(
            count_matches(true, predicted, NUM_CLASSES), reference(true, predicted)
        )
    assert several_crowds > 10


@pytest.mark.parametrize('true, predicted, expected', [(1, 0, [0, 0, 0, 1]), (0, 1, [0, 0, 0, 0])])
def test_counts_of_images_without_segments(true, predicted, expected):
    segment = row('aaa.', ('a', 0))
    counts = count_matches(segment * true, segment * predicted, NUM_CLASSES)
    np.testing.assert_array_equal(counts[0], expected)


def test_quality_follows_the_equations_of_the_paper():
    counts = np.array([[1.5, 2, 1, 3], [0, 0, 2, 0], [0, 0, 0, 0]])
    pq, sq, rq = panoptic_quality(counts).T
    np.testing.assert_allclose(pq, [1.5 / (2 + 0.5 + 1.5), 0, np.nan])
    np.testing.assert_allclose(sq, [0.75, 0, np.nan])
    np.testing.assert_allclose(rq, [0.5, 0, np.nan])


def test_means_are_over_the_classes_of_a_kind():
    counts = np.array([[1.5, 2, 1, 3], [0, 0, 2, 0], [0.9, 1, 0, 0]])
    metrics = mean_quality(counts, is_thing=np.array([True, True, False]))
    assert metrics['PQ'] == pytest.approx(100 * (0.375 + 0 + 0.9) / 3)
    assert metrics['PQ_th'] == pytest.approx(100 * 0.375 / 2)
    assert metrics['PQ_st'] == metrics['SQ_st'] == pytest.approx(90)
    assert np.isnan(mean_quality(counts, is_thing=np.ones(3, dtype=bool))['PQ_st'])
