"""Canvases of garments: labels of tokens, the red garment, and both ways of growing."""

from pathlib import Path

import pytest
import torch

from mmflatten_lab.datasets import CellAccuracy, GarmentCanvases

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
