"""Canvases of garments: labels of tokens, the red garment, and the ways of growing."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from mmflatten.engine.setup import load_config
from mmflatten_lab.datasets import CellAccuracy, GarmentCanvases, StageSampler

WAYS = ('more', 'kept')
RAW = str(Path(__file__).parents[1] / 'fashion-mnist')


def test_a_canvas_has_the_class_of_each_garment_on_its_tokens():
    dataset = GarmentCanvases('val', [(1, 1, 3), (2, 1, 3)], folder=RAW)
    assert len(dataset) == 6
    sample = dataset[4]
    image, labels = sample['inputs'], sample['data_samples'].cell_labels.view(14, 14)
    assert image.shape == (3, 56, 56) and torch.equal(image[0], image[2])
    for top in (0, 7):
        for left in (0, 7):
            cell = image[0, 4 * top : 4 * top + 28, 4 * left : 4 * left + 28]
            number = int((dataset.images == cell.numpy()).all((1, 2)).argmax())
            own = labels[top : top + 7, left : left + 7]
            assert set(own.unique().tolist()) <= {-1, int(dataset.labels[number])}
            assert (own[0, 0] == -1) == (cell[:4, :4].max() == 0)
    assert torch.equal(dataset[4]['inputs'], image) and not torch.equal(dataset[5]['inputs'], image)


def test_far_labels_are_the_class_of_the_red_garment():
    dataset = GarmentCanvases('val', [(4, 1, 2)], 'far', folder=RAW)
    image, labels = dataset[0]['inputs'], dataset[0]['data_samples'].cell_labels.view(28, 28)
    red = torch.nn.functional.max_pool2d(((image[0] > 0) & (image[1] == 0)).float()[None], 4)[0] > 0
    rows, columns = red.nonzero().T
    assert len({(int(y) // 7, int(x) // 7) for y, x in zip(rows, columns)}) == 1
    cell = image[
        0,
        rows[0] // 7 * 28 : rows[0] // 7 * 28 + 28,
        columns[0] // 7 * 28 : columns[0] // 7 * 28 + 28,
    ]
    number = int((dataset.images == cell.numpy()).all((1, 2)).argmax())
    assert labels.unique().tolist() == [-1, int(dataset.labels[number])]


def test_enlarged_canvases_keep_their_labels():
    small, large = (GarmentCanvases('val', [(2, factor, 1)], folder=RAW)[0] for factor in (1, 2))
    labels = small['data_samples'].cell_labels.view(14, 14)
    assert large['inputs'].shape == (3, 112, 112)
    assert torch.equal(large['data_samples'].cell_labels.view(28, 28)[1::2, ::2], labels)
    with pytest.raises(ValueError, match='task: expected one of local, far'):
        GarmentCanvases('val', [(2, 1, 1)], task='near', folder=RAW)


def test_accuracy_is_told_for_each_kind_of_canvas():
    metric = CellAccuracy()
    metric.process(
        None,
        [
            dict(
                cell_labels=torch.tensor([1, 2, -1, 3]),
                cell_classes=torch.tensor([1, 2, 5, 0]),
                kind='4',
            ),
            dict(cell_labels=torch.tensor([4]), cell_classes=torch.tensor([4]), kind='1_resized'),
        ],
    )
    assert metric.compute_metrics(metric.results) == dict(
        accuracy=75.0, accuracy_1_resized=100.0, accuracy_4=pytest.approx(200 / 3)
    )


def reds(image: torch.Tensor) -> list[tuple[int, int]]:
    """Rows and columns of the garments that are red."""
    cells = image.unflatten(2, (-1, 28)).unflatten(1, (-1, 28)).permute(1, 3, 0, 2, 4)
    is_red = (cells[:, :, 0] > cells[:, :, 1]).flatten(2).any(2)
    return [tuple(place) for place in is_red.nonzero().tolist()]


def test_the_share_of_red_garments_falls_or_is_kept():
    more, kept = (GarmentCanvases('val', [(4, 1, 5, how)], 'far', folder=RAW)[3] for how in WAYS)
    assert more['data_samples'].kind == '784' and kept['data_samples'].kind == '784_kept'
    (only,) = reds(more['inputs'])
    copies = reds(kept['inputs'])
    assert len(copies) == 4 and only in copies  # a quarter of 16, as in training
    cells = kept['inputs'].unflatten(2, (4, 28)).unflatten(1, (4, 28)).permute(1, 3, 0, 2, 4)
    for row, column in copies:
        assert torch.equal(cells[row, column], cells[only])
    labels = [sample['data_samples'].cell_labels for sample in (more, kept)]
    assert labels[0].max() == labels[1].max()  # the class of the same garment
    all_red = GarmentCanvases('train', [(2, 1, 2, 'copies')], 'far', folder=RAW)[1]
    assert len(reds(all_red['inputs'])) == 4
    # without `how`, a canvas is what it was before
    plain = GarmentCanvases('val', [(4, 1, 5)], 'far', folder=RAW)[3]
    assert torch.equal(plain['inputs'], more['inputs'])


def test_a_padded_canvas_shows_the_garments_of_the_trained_size_on_black():
    size = [(2, 1, 3, 'more'), (4, 1, 9, 'padded')]
    dataset = GarmentCanvases('val', size, 'far', folder=RAW)
    places = set()
    for index in range(3, 12):
        sample = dataset[index]
        assert sample['data_samples'].kind == '784_padded'
        image, labels = sample['inputs'], sample['data_samples'].cell_labels.view(28, 28)
        shown = image.unflatten(2, (4, 28)).unflatten(1, (4, 28)).amax((0, 2, 4)) > 0
        rows, columns = shown.nonzero().T
        assert shown.sum() == 4 and (rows.max() - rows.min(), columns.max() - columns.min()) == (
            1,
            1,
        )
        places.add((int(rows.min()), int(columns.min())))
        empty = torch.nn.functional.max_pool2d(image.amax(0)[None].float(), 4)[0] == 0
        assert torch.equal(empty, labels == -1)
    assert len(places) > 2


@pytest.mark.parametrize(
    'entry, message',
    [
        ((4, 1), 'three or four items'),
        ((4, 1, 2, 'wider'), "expected one of more, kept, padded, copies, got 'wider'"),
        ((3, 1, 2, 'kept'), 'expected a multiple of 2 garments on a side'),
    ],
)
def test_a_wrong_canvas_is_named(entry, message):
    with pytest.raises(ValueError, match=message):
        GarmentCanvases('val', [entry], folder=RAW)


def test_the_standard_error_is_that_over_images():
    counts = [(3, 4), (1, 4), (4, 4), (2, 8)]
    metric = CellAccuracy(with_errors=True)
    for right, asked in counts:
        labels = torch.zeros(asked, dtype=torch.long)
        classes = (torch.arange(asked) >= right).long()
        metric.process(None, [dict(cell_labels=labels, cell_classes=classes, kind='8')])
    found = metric.compute_metrics(metric.results)
    assert found['accuracy_8'] == 50
    # residuals right - asked / 2: 1, -1, 2, -2; mean of asked 5
    assert found['error_8'] == pytest.approx(100 * math.sqrt(10 / 3 / 4) / 5)
    metric = CellAccuracy(with_errors=True)
    one = dict(cell_labels=torch.zeros(1), cell_classes=torch.zeros(1), kind='1')
    metric.process(None, [one])
    assert math.isnan(metric.compute_metrics(metric.results)['error_1'])


def test_a_constant_answer_is_the_commonest_of_all_cells():
    metric = CellAccuracy(with_commonest=True)
    for answers in ([7, 7, 1], [7, 2, 1]):
        labels = torch.tensor([7, 3, -1])
        sample = dict(cell_labels=labels, cell_classes=torch.tensor(answers), kind='9')
        metric.process(None, [sample])
    found = metric.evaluate(size=2)
    # The last cell has no label, so its answer does not count.
    assert found == {
        'cells/accuracy': 50.0,
        'cells/accuracy_9': 50.0,
        'cells/commonest_9': 75.0,
    }


def test_stages_come_once_and_the_last_again_and_again():
    sampler = StageSampler(range(10), [4, 6], seed=3)
    order = list(itertools.islice(sampler, 22))
    assert sorted(order[:4]) == list(range(4))
    assert sorted(order[4:10]) == sorted(order[10:16]) == list(range(4, 10))
    assert order[4:10] != order[10:16]
    assert order == list(itertools.islice(sampler, 22))
    assert order != list(itertools.islice(StageSampler(range(10), [4, 6], seed=4), 22))
    for stages in ([4, 5], [10, 0]):
        with pytest.raises(ValueError, match='sum 10'):
            StageSampler(range(10), stages, seed=0)


@pytest.mark.parametrize(
    'name, larger', [('learned', 0), ('tenth-larger', 150), ('several-sizes', 270)]
)
def test_a_batch_has_canvases_of_one_size(name, larger):
    path = Path(__file__).parents[2] / f'configs/nano/deit-nano_canvases-{name}.py'
    loader = load_config(str(path)).train_dataloader
    dataset = GarmentCanvases('train', loader.dataset.canvases, 'far', folder=RAW)
    sampler = StageSampler(dataset, loader.sampler.stages, seed=0)
    order = itertools.islice(sampler, 1500 * loader.batch_size)
    sides = []
    for batch in np.array(list(order)).reshape(-1, loader.batch_size):
        (side,) = {dataset.canvases[index].side for index in batch}
        sides.append(side)
    assert len(sides) == 1500 and sides.count(4) == larger
