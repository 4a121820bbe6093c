"""Grids of the synthetic tasks: their answers, recomputed cell by cell, and the parts of the models
that learn them.
"""

import numpy as np
import pytest
import torch
from mmengine.evaluator import Evaluator
from mmpretrain.structures import DataSample

from mmflatten_lab.datasets import CellAccuracy
from mmflatten_lab.datasets.synthetic_tasks import NO_LABEL, OFFSETS, TASKS, SyntheticTasks, symbols
from mmflatten_lab.models.synthetic_tasks import CellHead, PlainMixer

SIZE = 6
SETTINGS = dict(recall=dict(pairs=5))


def answer(task: str, grid: np.ndarray, cell: int) -> int:
    """The right answer for a cell of a grid `(SIZE ** 2, 3)`, by its definition."""
    key, value, mark = grid[cell]
    row, column = divmod(cell, SIZE)
    label = NO_LABEL
    if task == 'recall' and not value:
        (partner,) = (other for other in grid if other[0] == key and other[1])
        label = partner[1] - 1
    elif task == 'match' and mark:
        label = any(other[0] == key and not other[2] for other in grid)
    elif task == 'count':
        label = min(sum(other[0] == key for other in grid), 8) - 1
    elif task == 'neighbour' and column + 1 < SIZE:
        label = grid[cell + 1][1] - 1
    elif task == 'offset' and mark:
        down, right = OFFSETS[mark - 1]
        assert 0 <= row + down < SIZE and 0 <= column + right < SIZE
        label = grid[(row + down) * SIZE + column + right][1] - 1
    elif task == 'path' and key and not mark:
        label = cell in connected(grid)
    elif task == 'distinguish' and not value:
        label = (key - 1) // 64
    return int(label)


def connected(grid: np.ndarray) -> set[int]:
    """The cells with symbols that a path over cells with symbols joins with the mark."""
    reached: set[int] = set()
    front = np.flatnonzero(grid[:, 2]).tolist()
    while front:
        cell = front.pop()
        if cell in reached:
            continue
        reached.add(cell)
        front += [other for other in beside(cell) if grid[other, 0]]
    return reached


def beside(cell: int) -> list[int]:
    """The cells that share a side with a cell."""
    row, column = divmod(cell, SIZE)
    places = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
    return [y * SIZE + x for y, x in places if 0 <= y < SIZE and 0 <= x < SIZE]


@pytest.mark.parametrize('task', TASKS)
def test_labels_are_the_answers(task):
    data = SyntheticTasks(task, 8, size=SIZE, **SETTINGS.get(task, {}))
    for grid, labels in zip(data.grids.numpy(), data.labels.tolist()):
        assert labels == [answer(task, grid, cell) for cell in range(SIZE**2)]
    assert len(set(data.labels.flatten().tolist()) - {NO_LABEL}) > 1


def test_grids_depend_on_seed_and_split_alone():
    first = SyntheticTasks('count', 8)
    again = SyntheticTasks('count', 8)
    others = SyntheticTasks('count', 8, split='test')
    assert torch.equal(first.grids, again.grids) and not torch.equal(first.grids, others.grids)
    assert not torch.equal(first.grids, SyntheticTasks('count', 8, seed=1).grids)
    assert len(SyntheticTasks('count', 8, indices=3)) == 3
    asked = first.labels.flatten()
    assert first.chance() == pytest.approx(100 * max(np.bincount(asked)) / len(asked))


def test_item_shows_the_symbols_of_its_cells():
    data = SyntheticTasks('offset', 2, size=SIZE)
    image = data[1]['inputs']
    assert image.shape == (3, 8 * SIZE, 8 * SIZE) and image.dtype == torch.uint8
    for cell, numbers in enumerate(data.grids[1]):
        row, column = divmod(cell, SIZE)
        shown = image[:, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8]
        assert torch.equal(shown, symbols()[numbers])
    assert torch.equal(data[1]['data_samples'].cell_labels, data.labels[1])
    table = symbols().float()
    # a quarter as bright
    assert len(table[1:65].unique(dim=0)) == 64 and torch.equal(4 * table[65:129], table[1:65])


@pytest.mark.parametrize('wrong', [dict(task='sing'), dict(split='exam')])
def test_unknown_task_and_split_are_named(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong.values()))):
        SyntheticTasks(**{'task': 'match', 'number': 2, **wrong})


@pytest.mark.parametrize(
    'mixer, distinguishes',
    [
        (dict(type='LinearAttention', feature_map='relu'), False),
        (dict(type='FocusedLinearAttention', kernel_size=None), False),
        (dict(type='SoftmaxAttention'), True),
        (dict(type='InLineAttention', image_conv=False), True),
    ],
)
def test_attention_alone_distinguishes_lengths_of_queries_or_not(mixer, distinguishes):
    torch.manual_seed(0)
    data = SyntheticTasks('distinguish', 1)
    model = PlainMixer(mixer).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
        (out,) = model(data[0]['inputs'][None].double() / 64)
    asked = out.flatten(2)[0, :, data.labels[0] != NO_LABEL]
    assert ((asked - asked[:, :1]).abs().max() > 1e-3 * asked.abs().max()) == distinguishes


def test_head_classifies_every_token_and_the_metric_counts_those_that_are_asked():
    torch.manual_seed(0)
    head, feats = CellHead(4, 3), (torch.randn(2, 4, 2, 2),)
    samples = [DataSample(), DataSample()]
    for sample, labels in zip(samples, ([0, 1, -1, 2], [2, -1, -1, 0])):
        sample.set_field(torch.tensor(labels), 'cell_labels')
    scores = head(feats)
    expected = -scores.log_softmax(-1)[[0, 0, 0, 1, 1], [0, 1, 3, 0, 3], [0, 1, 2, 2, 0]].mean()
    torch.testing.assert_close(head.loss(feats, samples)['loss'], expected)
    head.predict(feats, samples)
    right = 0
    for sample in samples:
        for cell, label in enumerate(sample.cell_labels.tolist()):
            if label >= 0:
                right += int(sample.cell_classes[cell] == label)
    evaluator = Evaluator(CellAccuracy())
    evaluator.process(data_samples=samples, data_batch=None)
    assert evaluator.evaluate(2) == {'cells/accuracy': pytest.approx(100 * right / 5)}


def test_head_brings_the_labels_to_the_device_of_the_scores():
    sample = DataSample()
    sample.set_field(torch.zeros(4, dtype=torch.long), 'cell_labels')
    feats = (torch.randn(1, 4, 2, 2, device='meta'),)
    loss = CellHead(4, 3).to('meta').loss(feats, [sample])['loss']
    assert loss.device.type == 'meta'
